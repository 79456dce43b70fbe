package api

import (
	"maps"

	"github.com/danielgtaylor/huma/v2"
)

// TransformSchema adds the fields of package form, and the descriptions of the others, which would not fit in tags.
func (Task) TransformSchema(schemas huma.Registry, schema *huma.Schema) *huma.Schema {
	of := taskSchema(schemas)
	delete(of.Properties, "id")
	maps.Copy(schema.Properties, of.Properties)
	schema.Required = append(of.Required, schema.Required...)
	return described(schema, taskFields)
}

func described(schema *huma.Schema, fields map[string]string) *huma.Schema {
	for name, field := range schema.Properties {
		if text, found := fields[name]; found {
			field.Description = text
		}
	}
	return schema
}

var taskFields = map[string]string{
	"type":     "The type in the payload.",
	"revision": "The number of the latest edit. It is the task's ETag.",
	"asked_revision": "The revision that last asked for another payload or time, or to run again after COMPLETED. " +
		"The idempotency key of a request or of a handler is {id}:{asked_revision}.",
	"attempt":         "How many attempts have begun since the last edit. A pause is no edit.",
	"message":         "The last error, or a note of the handler.",
	"result":          "The result of the handler.",
	"next_attempt_at": "When the task is due next.",
	"run_now_at":      "When it is due by run-now or retry.",
	"started_at":      "When the last recorded attempt began.",
	"finished_at":     "When the status became final.",
	"scheduled_by":    "The service that scheduled the task.",
	"parent_id":       "The recurring task that this is an occurrence of.",
	"spawned_by":      "The task whose handler asked for this one, or whose death scheduled it.",
	"executions": "Only with include=executions: the latest 20 attempts, the oldest first. Fewer if they are larger " +
		"than 4 MiB.",
}
