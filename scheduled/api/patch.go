package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Patch is a JSON merge patch (RFC 7396) for the fields of a task.
type Patch map[string]json.RawMessage

// Schema describes the patch as a task in which no field is required and each may be null.
func (Patch) Schema(schemas huma.Registry) *huma.Schema {
	patch := taskSchema(schemas)
	patch.Required = nil
	for _, name := range []string{"id", "delay", "debounce", "unique_for", "if_exists"} { // they are about a new task
		delete(patch.Properties, name)
	}
	for _, field := range patch.Properties {
		field.Nullable = true
		if len(field.Enum) > 0 {
			field.Enum = append(field.Enum, nil)
		}
	}
	patch.Properties["payload"] = &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true,
		Description: "The fields of the payload to change. A field that is null is removed.",
	}
	patch.Properties["status"] = words([]store.Status{store.StatusPaused, store.StatusQueued, store.StatusCancelled})
	patch.Properties["status"].Description = "Pauses, resumes or cancels the task. It must be the only field."
	return named(schemas, "TaskPatch", patch)
}

// patchStatus calls the verb that the wanted status stands for.
func (c call) patchStatus(ctx context.Context, in *patchInput) (*receiptAnswer, error) {
	if len(in.Body) > 1 {
		return nil, invalid("status must be the only field of the body, because it pauses, resumes or cancels the " +
			"task; change the other fields by a call of their own")
	}
	var status store.Status
	_ = json.Unmarshal(in.Body["status"], &status) // the schema lets only a text pass
	verb, known := map[store.Status]inspect.Verb{
		store.StatusPaused: inspect.Pause, store.StatusQueued: inspect.Resume, store.StatusCancelled: inspect.Cancel,
	}[status]
	if !known {
		return nil, invalid("status must be PAUSED, QUEUED or CANCELLED")
	}
	return c.do(ctx, in.ID, in.Conditions, inspect.Action{Verb: verb})
}

// merge applies a merge patch. An object is merged field by field, null removes a field, and every other value
// replaces the old one.
func merge(old, patch json.RawMessage) (json.RawMessage, error) {
	fields := fieldsOf(patch)
	if fields == nil {
		return patch, nil
	}
	merged := map[string]json.RawMessage{}
	maps.Copy(merged, fieldsOf(old))
	for name, value := range fields {
		if string(value) == "null" {
			delete(merged, name)
			continue
		}
		var err error
		if merged[name], err = merge(merged[name], value); err != nil {
			return nil, err
		}
	}
	encoded, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("encode the patched task: %w", err)
	}
	return encoded, nil
}

// fieldsOf returns the fields of a JSON object, and nil for every other value.
func fieldsOf(value json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &fields) != nil {
		return nil
	}
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	return fields
}
