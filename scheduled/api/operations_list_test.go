package api_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// operations returns the operations of the document, sorted by their ids. An operation that somebody adds is in it.
func (s *service) operations() []*huma.Operation {
	found := api.OperationsOf(s.api.OpenAPI())
	slices.SortFunc(found, func(a, b *huma.Operation) int { return cmp.Compare(a.OperationID, b.OperationID) })
	return found
}

// scopeOf is the scope that an operation needs by its description. The file openapi.json has the description.
func scopeOf(op *huma.Operation) keys.Scope {
	_, scope, _ := strings.Cut(op.Description, "Needs the scope `")
	return keys.Scope(strings.TrimSuffix(scope, "`."))
}

// ready makes what the examples of operations are about, among it a task of the status.
func (s *service) ready(id string, status store.Status) {
	s.Helper()
	s.exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = $1`, id)
	s.make(id, status)
	s.call("all", "PUT", "/v1/tasks/recurring", `{"payload": {"type": "LOG"}, "cron": "@daily"}`)
	s.wants(200, "all", "PUT", "/v1/defaults/TYPE", `{"priority": 2}`)
	s.wants(200, "all", "PUT", "/v1/calendars/mail", `{"days": []}`)
	s.wants(200, "all", "PUT", "/v1/limits/mail", `{"max_running": 2}`)
	s.wants(200, "all", "POST", "/v1/queues/mail/pause", `{"reason": "an example"}`)
}

// statusFor is a status of the task of an example that the call changes.
func (s *service) statusFor(op *huma.Operation) store.Status {
	for _, rule := range inspect.Verbs() {
		if strings.HasSuffix(op.Path, "/"+rule.Path()) && !strings.HasPrefix(op.Path, "/v1/queues/") {
			return rule.Statuses[0]
		}
	}
	if op.Method == http.MethodPatch { // of a task that has ended it needs more than its scope
		return store.StatusQueued
	}
	return store.StatusFailed
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
