package api_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// scopes are the scopes that the operations need.
var scopes = map[string]keys.Scope{
	"archiveDeadLetters": keys.Operate,
	"cancelTask":         keys.Schedule,
	"createTask":         keys.Schedule,
	"deleteTask":         keys.Schedule,
	"followEvents":       keys.Read,
	"getRecurring":       keys.Read,
	"getTask":            keys.Read,
	"groupDeadLetters":   keys.Read,
	"listChanges":        keys.Read,
	"listDeadLetters":    keys.Read,
	"listExecutions":     keys.Read,
	"listLimits":         keys.Read,
	"listNodes":          keys.Read,
	"listQueues":         keys.Read,
	"listRecurring":      keys.Read,
	"listTasks":          keys.Read,
	"patchTask":          keys.Schedule,
	"pauseQueue":         keys.Operate,
	"pauseTask":          keys.Schedule,
	"putTask":            keys.Schedule,
	"readStats":          keys.Read,
	"removeDefaults":     keys.Operate,
	"removeLimit":        keys.Operate,
	"resumeQueue":        keys.Operate,
	"resumeTask":         keys.Schedule,
	"retryDeadLetters":   keys.Operate,
	"retryTask":          keys.Schedule,
	"archiveTask":        keys.Operate,
	"archiveTasks":       keys.Operate,
	"cancelTasks":        keys.Schedule,
	"deleteTasks":        keys.Schedule,
	"pauseTasks":         keys.Schedule,
	"resumeTasks":        keys.Schedule,
	"retryTasks":         keys.Schedule,
	"runTaskNow":         keys.Schedule,
	"runTasksNow":        keys.Schedule,
	"scheduleTasks":      keys.Schedule,
	"getCalendar":        keys.Read,
	"listCalendars":      keys.Read,
	"addDays":            keys.Operate,
	"removeCalendar":     keys.Operate,
	"setCalendar":        keys.Operate,
	"getDefaults":        keys.Read,
	"listDefaults":       keys.Read,
	"setDefaults":        keys.Operate,
	"setLimit":           keys.Operate,
	"whyTask":            keys.Read,
}

// Each operation of the document is called without a key and with each single scope.
func TestAccess(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusFailed)
	s.wants(201, "all", "PUT", "/v1/tasks/recurring", `{"payload": {"type": "LOG"}, "cron": "@daily"}`)
	s.wants(200, "all", "PUT", "/v1/defaults/TYPE", `{"priority": 2}`)
	s.wants(200, "all", "PUT", "/v1/calendars/mail", `{"days": []}`)
	before := s.everything()
	var ids []string
	for _, op := range s.operations() {
		ids = append(ids, op.OperationID)
		scope, known := scopes[op.OperationID]
		if !known {
			t.Errorf("%s is not in the table of scopes", op.OperationID)
		}
		method, path, body := s.example(op)
		for _, caller := range []string{"", "nobody", "ALL", "all all"} {
			got := s.wants(401, caller, method, path, body)
			if got.header.Get("WWW-Authenticate") != `Bearer realm="tasktable"` {
				t.Errorf("%s: WWW-Authenticate %q", op.OperationID, got.header.Get("WWW-Authenticate"))
			}
			s.says(got, "the call needs a key that is valid")
		}
		for caller, has := range map[string]keys.Scope{
			"reader": keys.Read, "scheduler": keys.Schedule, "operator": keys.Operate,
		} {
			if has != scope {
				s.says(s.wants(403, caller, method, path, body), "the key lacks the scope "+string(scope))
			}
		}
		if now := s.everything(); now != before {
			t.Fatalf("%s: refused calls changed the database from %s\nto %s", op.OperationID, before, now)
		}
	}
	for id := range scopes {
		if !slices.Contains(ids, id) {
			t.Errorf("there is no operation %s", id)
		}
	}
	holders := map[keys.Scope]string{
		keys.Read: "reader", keys.Schedule: "scheduler", keys.Operate: "operator",
	}
	for _, op := range s.operations() {
		s.exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = 'task'`)
		s.make("task", store.StatusFailed)
		if op.OperationID == "patchTask" { // of a task that has ended it needs more than its scope
			s.exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = 'task'`)
			s.make("task", store.StatusQueued)
		}
		method, path, body := s.example(op)
		if got := s.call(holders[scopes[op.OperationID]], method, path, body); got.status >= 300 {
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
