package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
)

// Patch is a JSON merge patch (RFC 7396) for the content of a task.
type Patch json.RawMessage

// UnmarshalJSON keeps the patch as it is.
func (p *Patch) UnmarshalJSON(given []byte) error {
	*p = append((*p)[:0], given...)
	return nil
}

// MarshalJSON returns the patch as it is.
func (p Patch) MarshalJSON() ([]byte, error) { return p, nil }

// Schema describes the patch as the content of a task in which no field is required and each may be null.
func (Patch) Schema(schemas huma.Registry) *huma.Schema {
	content := newSchemas().Schema(contentType, false, "") // a registry of its own, because no client needs this type
	patch := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
	for name, field := range content.Properties {
		of := *field
		of.Nullable = true
		if len(of.Enum) > 0 {
			of.Enum = append(slices.Clone(of.Enum), nil)
		}
		patch.Properties[name] = &of
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
	fields := fieldsOf(json.RawMessage(in.Body))
	if len(fields) > 1 {
		return nil, invalid("status must be the only field of the body, because it pauses, resumes or cancels the " +
			"task; change the other fields by a call of their own")
	}
	var status store.Status
	_ = json.Unmarshal(fields["status"], &status) // the schema lets a text or null pass
	do := map[store.Status]func(context.Context, store.DB, string) (store.Receipt, error){
		store.StatusPaused: c.tasks.Pause, store.StatusQueued: c.tasks.Resume, store.StatusCancelled: c.tasks.Cancel,
	}[status]
	if do == nil {
		return nil, invalid("status must be PAUSED, QUEUED or CANCELLED")
	}
	return c.verb(ctx, in.ID, in.Conditions, func() (store.Receipt, error) { return do(ctx, c.db, in.ID) })
}

// has reports whether the patch names a field.
func (p Patch) has(name string) bool {
	_, found := fieldsOf(json.RawMessage(p))[name]
	return found
}

// applied returns the content with the patch applied.
func (p Patch) applied(content Content) (Content, error) {
	if payload := fieldsOf(json.RawMessage(p))["payload"]; string(payload) == "null" {
		return content, invalid("payload is required, so it must not be null")
	}
	if string(fieldsOf(json.RawMessage(p))["cron"]) == "null" { // the defaults of the recurrence go with it
		content.TimeZone, content.Overlap, content.CatchUp, content.CatchUpPaused = "", "", "", ""
		content.CatchUpLimit, content.EndsAt, content.MaxOccurrences = 0, nil, 0
	}
	current, err := json.Marshal(content)
	if err != nil {
		return content, fmt.Errorf("encode the task: %w", err)
	}
	merged, err := merge(current, json.RawMessage(p))
	if err != nil {
		return content, err
	}
	decoder := json.NewDecoder(bytes.NewReader(merged))
	decoder.DisallowUnknownFields()
	var changed Content
	if err := decoder.Decode(&changed); err != nil {
		text, _ := strings.CutPrefix(err.Error(), "json: ")
		return content, invalid("the patch does not fit: " + text)
	}
	return changed, nil
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
