package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// sameAnswer compares two answers. The headers that are new in each answer are left out.
func (s *service) sameAnswer(what string, first, again reply) {
	s.Helper()
	headers := func(r reply) string {
		header := r.header.Clone()
		header.Del("Date")
		header.Del("X-Request-Id")
		return fmt.Sprint(header)
	}
	if first.status != again.status || first.text != again.text || headers(first) != headers(again) {
		s.Errorf("%s: first %d %s %s\nagain %d %s %s", what, first.status, first.text, headers(first),
			again.status, again.text, headers(again))
	}
}

// A repeated call gets the first answer and changes nothing, also if the task has changed in between. The example of
// each operation is called, and some calls that an example does not show.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newService(t)
	repeats := func(s *service, key, method, path, body string) {
		s.Helper()
		first := s.call("all", method, path, body, "Idempotency-Key", key)
		if first.status > 201 {
			s.Fatalf("answer %d %s", first.status, first.text)
		}
		before := s.everything()
		s.sameAnswer("repeated", first, s.call("all", method, path, body, "Idempotency-Key", key))
		s.hasNotChanged(before)
	}
	for _, op := range s.operations() {
		if op.Method != http.MethodGet {
			s.run(op.OperationID, func(s *service) {
				s.ready("task", s.statusFor(op))
				method, path, body := s.example(op)
				repeats(s, op.OperationID, method, path, body)
			})
		}
	}
	s.ready("task", store.StatusQueued)
	for key, c := range map[string]struct{ method, path, body string }{
		"a task with an id":  {"POST", "/v1/tasks", strings.Replace(hello, "{", `{"id": "new", `, 1)},
		"several tasks":      {"POST", "/v1/tasks/bulk", `{"tasks": [` + hello + `,` + hello + `]}`},
		"a task that is new": {"PUT", "/v1/tasks/put", hello},
		"a patch":            {"PATCH", "/v1/tasks/task", `{"priority": 5}`},
		"a pause that ends":  {"POST", "/v1/tasks/recurring/pause", `{"until": "2050-01-01T00:00:00Z"}`},
	} {
		s.run(key, func(s *service) { repeats(s, key, c.method, c.path, c.body) })
	}
}

func TestIdempotencyKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.wants(201, "all", "PUT", "/v1/tasks/a", hello, "Idempotency-Key", "k")
	before := s.everything()
	for name, c := range map[string]struct{ method, path, body, ifMatch string }{
		"body":     {"PUT", "/v1/tasks/a", strings.Replace(hello, "hi", "ho", 1), ""},
		"space":    {"PUT", "/v1/tasks/a", hello + " ", ""},
		"path":     {"PUT", "/v1/tasks/b", hello, ""},
		"encoding": {"PUT", "/v1/tasks/%61", hello, ""},
		"method":   {"PATCH", "/v1/tasks/a", `{}`, ""},
		"verb":     {"POST", "/v1/tasks/a/pause", "", ""},
		"If-Match": {"PUT", "/v1/tasks/a", hello, "*"},
	} {
		s.run(name, func(s *service) {
			headers := []string{"Idempotency-Key", "k"}
			if c.ifMatch != "" {
				headers = append(headers, "If-Match", c.ifMatch)
			}
			got := s.wants(409, "all", c.method, c.path, c.body, headers...)
			s.says(got, "the Idempotency-Key was used for another request")
			if retry := got.header.Get("Retry-After"); retry != "" {
				s.Errorf("Retry-After %s, but the same call will never succeed", retry)
			}
		})
	}
	s.hasNotChanged(before)
	s.sameAnswer("repeated", first, s.wants(201, "all", "PUT", "/v1/tasks/a", hello, "Idempotency-Key", "k"))
	// Each caller has its own keys.
	s.wants(200, "scheduler", "PUT", "/v1/tasks/a", hello, "Idempotency-Key", "k")
}

// A call that was refused is not stored, so that the same key can be used when the reason is gone.
func TestRefusedCallsAreNotStored(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("running", store.StatusExecuting)
	for _, c := range []struct {
		status                     int
		method, path, body, caller string
	}{
		{401, "PUT", "/v1/tasks/a", hello, ""},
		{403, "PUT", "/v1/tasks/a", hello, "reader"},
		{422, "PUT", "/v1/tasks/a", `{"payload": {"type": "LOG"}, "queue": "No"}`, "all"},
		{400, "PUT", "/v1/tasks/a", `{`, "all"},
		{404, "POST", "/v1/tasks/a/pause", ``, "all"},
		{409, "DELETE", "/v1/tasks/running", ``, "all"},
	} {
		s.wants(c.status, c.caller, c.method, c.path, c.body, "Idempotency-Key", "k")
		if stored := value[int64](s, `SELECT count(*) FROM tasktable.api_answers`); stored != 0 {
			t.Errorf("%d %s %s: %d answers are stored", c.status, c.method, c.path, stored)
		}
	}
	s.absent("a")
	s.wants(201, "all", "PUT", "/v1/tasks/a", hello, "Idempotency-Key", "k")
}

// The answer and the change are written together or not at all.
func TestAnswerIsStoredWithItsChange(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.exec(`ALTER TABLE tasktable.api_answers ADD CHECK (idempotency_key <> 'broken')`)
	s.wants(500, "all", "PUT", "/v1/tasks/a", hello, "Idempotency-Key", "broken")
	s.absent("a")
	s.hasLines("a")
	s.exec(`ALTER TABLE tasktable.scheduled_tasks ADD CHECK (id <> 'broken')`)
	s.wants(422, "all", "PUT", "/v1/tasks/broken", hello, "Idempotency-Key", "k")
	if stored := value[int64](s, `SELECT count(*) FROM tasktable.api_answers`); stored != 0 {
		t.Errorf("%d answers are stored of calls that failed", stored)
	}
}

func TestIdempotencyKeyInProgress(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("a", store.StatusQueued)
	var first <-chan reply
	s.holding("a", func(pgx.Tx) {
		first = s.answering("all", "POST", "/v1/tasks/a/cancel", "", "Idempotency-Key", "k")
		s.untilWaiting(1)
		again := s.wants(409, "all", "POST", "/v1/tasks/a/cancel", "", "Idempotency-Key", "k")
		s.says(again, "a call with this Idempotency-Key is in progress")
		if again.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q, want 1", again.header.Get("Retry-After"))
		}
	})
	got := <-first
	if got.status != 200 || got.field("outcome") != "cancelled" {
		t.Fatalf("first: %d %s", got.status, got.text)
	}
	s.sameAnswer("repeated", got, s.call("all", "POST", "/v1/tasks/a/cancel", "", "Idempotency-Key", "k"))
	s.hasLines("a", "schedule created svc", "cancel cancelled svc")
}

// An answer is kept for a day. Then the call is a new one.
func TestOldAnswers(t *testing.T) {
	t.Parallel()
	s := newService(t)
	put := func(key string) reply {
		return s.call("all", "PUT", "/v1/tasks/a", hello, "Idempotency-Key", key)
	}
	const age = `UPDATE tasktable.api_answers SET created_at = clock_timestamp() - $2::interval WHERE idempotency_key = $1`
	put("k")
	s.exec(age, "k", "23:59")
	if got := put("k"); got.status != 201 {
		t.Errorf("after 23:59: answer %d %s, want the stored 201", got.status, got.text)
	}
	s.exec(age, "k", "24:01")
	if got := put("k"); got.status != 200 || got.field("outcome") != "unchanged" {
		t.Errorf("after 24:01: answer %d %s, want a new one", got.status, got.text)
	}
}

func TestInvalidIdempotencyKeys(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(201, "all", "PUT", "/v1/tasks/a", hello, "Idempotency-Key", strings.Repeat("ö", 255))
	for key, says := range map[string]string{
		strings.Repeat("k", 256): "header.Idempotency-Key: expected length <= 255",
		"\xff\xfe":               "header.Idempotency-Key: expected UTF-8",
		"a\xc3":                  "header.Idempotency-Key: expected UTF-8",
	} {
		s.says(s.wants(http.StatusUnprocessableEntity, "all", "PUT", "/v1/tasks/b", hello, "Idempotency-Key", key), says)
	}
	s.absent("b")
}
