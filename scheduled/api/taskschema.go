package api

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

// TaskRequest is a task to schedule: a JSON object with the fields of package form. A field that is missing gets its
// default, also if the task exists. Only scheduled_at keeps the time of an existing task.
type TaskRequest map[string]json.RawMessage

// Schema describes the request with the fields of package form.
func (TaskRequest) Schema(schemas huma.Registry) *huma.Schema {
	schema := taskSchema(schemas)
	schema.Properties["id"].Description = "Default: a new UUID. PUT has it in its path."
	return named(schemas, "TaskRequest", schema)
}

// id returns the id of the task, and "" if the request has none.
func (r TaskRequest) id() (id string) {
	_ = json.Unmarshal(r["id"], &id) // the schema lets no other value pass
	return id
}

// idOrNew returns the id of the task, and a new one if the request has none.
func (r TaskRequest) idOrNew() (string, error) {
	if id := r.id(); id != "" {
		return id, nil
	}
	return store.NewID()
}

// reads reports whether the answer takes more statements than the one that schedules the task.
func (r TaskRequest) reads() bool { return r["cron"] != nil }

// taskSchema describes an object with all fields of a task.
func taskSchema(schemas huma.Registry) *huma.Schema {
	return formSchema(schemas, func(form.Field) bool { return true }, "payload")
}

// formSchema describes an object with those fields of a task that has reports.
func formSchema(schemas huma.Registry, has func(form.Field) bool, required ...string) *huma.Schema {
	schema := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Required: required,
		Properties: map[string]*huma.Schema{}}
	for _, field := range form.Fields {
		if has(field) {
			schema.Properties[field.Name] = fieldSchema(schemas, field)
		}
	}
	return schema
}

// ifDeadSchema describes a task of if_dead.
func ifDeadSchema(schemas huma.Registry) *huma.Schema {
	schema := formSchema(schemas, func(field form.Field) bool { return field.IfDead }, "payload")
	described(schema, map[string]string{
		"id":           "The task's id. Default: the id of the dead task, /dead/ and the place in the array, from 1.",
		"scheduled_at": "When the task is due. Default: at the death.",
		"entity":       "The thing that the task is about. Default: that of the dead task.",
	})
	return named(schemas, "IfDead", schema)
}

func fieldSchema(schemas huma.Registry, field form.Field) *huma.Schema {
	unit := ""
	schema := &huma.Schema{}
	switch field.Kind {
	case form.Payload:
		return schemas.Schema(reflect.TypeFor[payload](), true, "")
	case form.Tasks:
		schema.Type, schema.MaxItems, schema.Items = huma.TypeArray, new(field.Max), ifDeadSchema(schemas)
	case form.Number:
		schema.Type, schema.Format = huma.TypeInteger, "int64"
		schema.Minimum, schema.Maximum = new(float64(field.Min)), new(float64(field.Max))
	case form.Length:
		unit = " In seconds."
		schema.Type, schema.Format = huma.TypeNumber, "double"
		schema.Minimum, schema.Maximum = new(field.Shortest.Seconds()), new(field.Longest.Seconds())
	case form.Time:
		schema.Type, schema.Format = huma.TypeString, "date-time"
	case form.Choice:
		schema = words(field.Words)
	case form.Text:
		schema.Type, schema.MaxLength = huma.TypeString, new(field.Max)
		if field.Name == "queue" {
			schema.Pattern = "^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$"
		} else {
			schema.MinLength = new(field.Min)
		}
	}
	schema.Description = field.Help + "." + unit
	if field.Default != "" {
		schema.Description += " Default: " + field.Default + "."
	}
	return schema
}

// typeErrors are the errors of the schema about the type of a value in JSON, which forms of texts do not have.
var typeErrors = []string{"expected integer", "expected number", "expected string", "expected array", "expected object"}

// fieldRule returns the rule of the field that an error of the schema is about, so that the API refuses a value with
// the sentence of the other forms. It returns "" for an error that is not about the value of a task's field.
func fieldRule(location, message string) string {
	name := location[strings.LastIndexByte(location, '.')+1:]
	field, known := form.Named(name)
	if !known || !strings.HasPrefix(location, "body.") || field.Kind == form.Time || field.Kind == form.Payload {
		return ""
	}
	for _, about := range typeErrors {
		if message == about || strings.HasPrefix(message, "unexpected") {
			return ""
		}
	}
	if field.Kind == form.Length {
		return field.Rule + ", in seconds"
	}
	return field.Rule
}
