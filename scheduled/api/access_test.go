package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// Each operation of the document is called without a key and with each single scope.
func TestAccess(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.ready("task", store.StatusFailed)
	holders := map[keys.Scope]string{keys.Read: "reader", keys.Schedule: "scheduler", keys.Operate: "operator"}
	before := s.everything()
	for _, op := range s.operations() {
		scope := scopeOf(op)
		method, path, body := s.example(op)
		for _, caller := range []string{"", "nobody", "ALL", "all all"} {
			got := s.wants(401, caller, method, path, body)
			if got.header.Get("WWW-Authenticate") != `Bearer realm="tasktable"` {
				t.Errorf("%s: WWW-Authenticate %q", op.OperationID, got.header.Get("WWW-Authenticate"))
			}
			s.says(got, "the call needs a key that is valid")
		}
		for has, caller := range holders {
			if has != scope {
				s.says(s.wants(403, caller, method, path, body), "the key lacks the scope "+string(scope))
			}
		}
		if now := s.everything(); now != before {
			t.Fatalf("%s: refused calls changed the database from %s\nto %s", op.OperationID, before, now)
		}
	}
	for _, op := range s.operations() {
		s.ready("task", s.statusFor(op))
		method, path, body := s.example(op)
		if got := s.call(holders[scopeOf(op)], method, path, body); got.status >= 300 {
			t.Errorf("%s with its scope: answer %d %s", op.OperationID, got.status, got.text)
		}
	}
}

// The key is asked for before anything is said about the body, the path or the parameters.
func TestAccessComesFirst(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, call := range [][3]string{
		{"PUT", "/v1/tasks/a", `{"payload": `}, {"PUT", "/v1/tasks/%00", `{}`}, {"GET", "/v1/tasks?nonsense=1", ""},
		{"GET", "/v1/tasks/none", ""}, {"HEAD", "/v1/tasks", ""}, {"GET", "/v1/tasks/task?wait=1m", ""},
	} {
		s.wants(401, "", call[0], call[1], call[2])
	}
	s.wants(403, "scheduler", "GET", "/v1/tasks/none", "")
	s.wants(403, "reader", "PUT", "/v1/tasks/a", `{"payload": `)
	// The document has no secrets.
	s.wants(200, "", "GET", "/openapi.json", "")
}

// If the key cannot be checked, the caller may be right. Therefore the answer is not 401.
func TestKeyCannotBeChecked(t *testing.T) {
	t.Parallel()
	s := newService(t, func(config *api.Config) {
		config.Authenticate = func(*http.Request) (api.Caller, error) {
			return api.Caller{}, errors.New("dial tcp 10.0.0.1:5432: connection refused")
		}
	})
	got := s.wants(503, "all", "GET", "/v1/tasks", "")
	s.says(got, "the key cannot be checked now")
	if got.header.Get("Retry-After") != "1" || strings.Contains(got.text, "10.0.0.1") {
		t.Errorf("Retry-After %q: %s", got.header.Get("Retry-After"), got.text)
	}
	if !strings.Contains(s.log.String(), "connection refused") {
		t.Errorf("the log does not say why: %s", s.log)
	}
}
