package api_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Every call on one task can depend on the task's ETag.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	s := newService(t)
	type call struct {
		before             store.Status
		method, path, body string
	}
	calls := map[string]call{
		"put":   {store.StatusQueued, "PUT", "/v1/tasks/put", hello},
		"post":  {store.StatusQueued, "POST", "/v1/tasks", `{"id": "post", "payload": {"type": "LOG"}}`},
		"patch": {store.StatusQueued, "PATCH", "/v1/tasks/patch", `{"priority": 5}`},
	}
	for _, rule := range inspect.Verbs() {
		method, path := verbOn(rule, rule.Path())
		calls[rule.Path()] = call{rule.Statuses[0], method, path, ""}
	}
	for name, c := range calls {
		s.run(name, func(s *service) {
			refused := func(status int, ifMatch, says string) {
				s.Helper()
				before := s.everything()
				got := s.wants(status, "all", c.method, c.path, c.body, "If-Match", ifMatch)
				s.says(got, says)
				s.hasNotChanged(before)
			}
			if c.method != "PATCH" { // a patch of an absent task is 404
				refused(412, "*", "there is no such task")
			}
			s.make(name, c.before)
			for _, wrong := range []string{"", " "} {
				refused(400, wrong, "If-Match must be one header, with * or the ETag of a task")
			}
			tag := s.wants(200, "all", "GET", pathOf(name), "").header.Get("ETag")
			for _, other := range []string{`"99999"`, `W/"99999"`, `"99998", "99999"`, "99999"} {
				refused(412, other, "somebody has edited it")
			}
			for _, wrong := range []string{"nonsense", ",", `"x"`, tag + ", x"} {
				refused(400, wrong, "If-Match must be * or the ETag of a task")
			}
			given := `"0", W/` + tag
			if name == "put" { // a person types the revision
				given = tag[1 : len(tag)-1]
			}
			got := s.call("all", c.method, c.path, c.body, "If-Match", given)
			if got.status != 200 {
				s.Fatalf("answer %d %s", got.status, got.text)
			}
			if c.method != "DELETE" && got.header.Get("ETag") == tag {
				s.Errorf("the ETag is still %s", tag)
			}
			if c.method != "DELETE" && c.method != "POST" {
				refused(412, tag, "somebody has edited it")
				s.wants(200, "all", c.method, c.path, c.body, "If-Match", "*")
			}
		})
	}
}

func TestIfMatchOfManyTasks(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.ready("task", store.StatusFailed)
	before := s.everything()
	for _, op := range s.operations() {
		if op.Method == http.MethodGet || strings.HasPrefix(op.Path, "/v1/tasks/{id}") || op.OperationID == "createTask" {
			continue
		}
		method, path, body := s.example(op)
		got := s.wants(400, "all", method, path, body, "If-Match", `"1"`)
		s.says(got, "If-Match and If-None-Match are for a call on one task")
	}
	s.hasNotChanged(before)
}

// If others edit the task between the look and the change, the call is refused, and not made on the edited task.
func TestIfMatchWhileOthersWrite(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	tag := s.wants(200, "all", "GET", "/v1/tasks/task", "").header.Get("ETag")
	var first <-chan reply
	s.holding("task", func(tx pgx.Tx) {
		first = s.answering("all", "POST", "/v1/tasks/task/cancel", "", "If-Match", tag)
		s.untilWaiting(1)
		if _, err := tx.Exec(t.Context(), `SELECT tasktable.pause('task', 'other')`); err != nil {
			t.Fatal(err)
		}
	})
	if got := <-first; got.status != 412 {
		t.Errorf("answer %d %s, want 412", got.status, got.text)
	}
	s.hasLines("task", "schedule created svc", "pause paused other")
}

// If-None-Match: * creates a task, and edits none.
func TestIfNoneMatch(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(201, "all", "PUT", "/v1/tasks/a", hello, "If-None-Match", "*")
	before := s.everything()
	for _, body := range []string{hello, strings.Replace(hello, "2030", "2031", 1)} {
		s.says(s.wants(412, "all", "PUT", "/v1/tasks/a", body, "If-None-Match", "*"), "there is a task of this id")
	}
	for _, wrong := range []string{`"1"`, "", " ", "*, *"} {
		got := s.wants(400, "all", "PUT", "/v1/tasks/a", hello, "If-None-Match", wrong)
		if s.says(got, "If-None-Match must be *"); got.field("code") != "bad_condition" {
			t.Errorf("If-None-Match %q: %s", wrong, got.text)
		}
	}
	s.says(s.wants(400, "all", "PATCH", "/v1/tasks/a", `{}`, "If-None-Match", "*"), "may create the task")
	s.says(s.wants(400, "all", "POST", "/v1/tasks/a/cancel", "", "If-None-Match", "*"), "may create the task")
	s.hasNotChanged(before)
}

// The header is spelled as its standard spells it, because some clients keep headers in a case-sensitive map.
func TestSpellingOfETag(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	answer := s.serve("reader", httptest.NewRequestWithContext(t.Context(), "GET", "/v1/tasks/task", http.NoBody))
	names := slices.Collect(maps.Keys(answer.Result().Header))
	if !slices.Contains(names, "ETag") || slices.Contains(names, "Etag") {
		t.Errorf("headers %v", names)
	}
}
