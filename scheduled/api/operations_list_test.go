package api_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// operations returns the operations of the document, sorted by their ids. An operation that somebody adds is in it.
func (s *service) operations() []*huma.Operation {
	var found []*huma.Operation
	for _, path := range s.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{
			path.Get, path.Put, path.Post, path.Delete, path.Options, path.Head, path.Patch, path.Trace,
		} {
			if op != nil {
				found = append(found, op)
			}
		}
	}
	slices.SortFunc(found, func(a, b *huma.Operation) int { return cmp.Compare(a.OperationID, b.OperationID) })
	return found
}

// sample returns the JSON of a value that fits a schema, with the fields that are required.
func (s *service) sample(schema *huma.Schema) string {
	for schema.Ref != "" {
		schema = s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}
	switch schema.Type {
	case huma.TypeObject:
		var fields []string
		for _, name := range schema.Required {
			fields = append(fields, fmt.Sprintf("%q: %s", name, s.sample(schema.Properties[name])))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case huma.TypeArray:
		items := make([]string, deref(schema.MinItems))
		for i := range items {
			items[i] = s.sample(schema.Items)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case huma.TypeString:
		if len(schema.Enum) > 0 {
			return fmt.Sprintf("%q", schema.Enum[0])
		}
		return fmt.Sprintf("%q", strings.Repeat("A", max(deref(schema.MinLength), 1)))
	case huma.TypeBoolean:
		return "true"
	}
	return fmt.Sprint(deref(schema.Minimum))
}

// deref returns the zero value for nil.
func deref[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}

// example returns a call of an operation that succeeds if there are a dead letter task and a recurring task recurring.
func (s *service) example(op *huma.Operation) (method, path, body string) {
	id := "task"
	if strings.HasPrefix(op.Path, "/v1/recurring") {
		id = "recurring"
	}
	path = strings.NewReplacer("{id}", id, "{queue}", "mail", "{name}", "mail", "{type}", "TYPE").Replace(op.Path)
	if op.RequestBody != nil && op.RequestBody.Required {
		body = s.sample(op.RequestBody.Content["application/json"].Schema)
	}
	if op.OperationID == "setLimit" {
		body = `{"max_running": 1}` // it or a rate is required
	}
	if op.OperationID == "setDefaults" {
		body = `{"priority": 1}` // some field is required
	}
	if op.RequestBody != nil && strings.HasPrefix(op.Path, "/v1/dead-letters/") {
		body = `{"filter": {}}` // either ids or filter is required, which the schema cannot say
	}
	if first, _, _ := strings.Cut(op.Path[len("/v1/"):], "{"); op.RequestBody != nil && first != "tasks/bulk" &&
		strings.HasPrefix(first, "tasks/") && first != "tasks/" {
		body = `{"filter": {"id_prefix": "task"}}`
	}
	return op.Method, path, body
}
