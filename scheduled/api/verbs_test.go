package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// Each verb on a task of each status answers its outcome, and the row is as the outcome says.
func TestVerbs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const q, p, e, x = store.StatusQueued, store.StatusPaused, store.StatusExecuting, store.StatusCancelled
	const done, failed, expired, skipped = store.StatusCompleted, store.StatusFailed, store.StatusExpired, store.StatusSkipped
	for _, c := range []struct {
		verb    string
		before  store.Status
		outcome string
		after   store.Status
	}{
		{"cancel", q, "cancelled", x}, {"cancel", p, "cancelled", x}, {"cancel", e, "cancelled", x},
		{"cancel", x, "unchanged", x}, {"cancel", done, "finished", done}, {"cancel", failed, "finished", failed},
		{"pause", q, "paused", p}, {"pause", p, "unchanged", p}, {"pause", e, "paused", p},
		{"pause", x, "finished", x}, {"pause", done, "finished", done},
		{"resume", q, "unchanged", q}, {"resume", p, "queued", q}, {"resume", e, "unchanged", e},
		{"resume", x, "finished", x}, {"resume", skipped, "finished", skipped},
		{"run-now", q, "queued", q}, {"run-now", p, "queued", q}, {"run-now", e, "again", e},
		{"run-now", x, "queued", q}, {"run-now", done, "queued", q}, {"run-now", expired, "queued", q},
		{"retry", q, "unchanged", q}, {"retry", e, "unchanged", e}, {"retry", x, "unchanged", x},
		{"retry", failed, "queued", q}, {"retry", expired, "queued", q}, {"retry", done, "finished", done},
	} {
		id := c.verb + " " + string(c.before)
		s.run(id, func(s *service) {
			s.make(id, c.before)
			before := s.row(id)
			lines := len(s.lines(id))
			got := s.wants(200, "all", "POST", pathOf(id)+"/"+c.verb, "")
			after := s.row(id)
			if got.field("outcome") != c.outcome || got.field("id") != id || after.Status != c.after {
				s.Errorf("%s, status %s; want %s and %s", got.text, after.Status, c.outcome, c.after)
			}
			if tag := s.wants(200, "all", "GET", pathOf(id), "").header.Get("ETag"); got.header.Get("ETag") != tag {
				s.Errorf("ETag %s, and %s of the task", got.header.Get("ETag"), tag)
			}
			wrote := c.outcome != "unchanged" && c.outcome != "finished" && c.outcome != "running"
			if (len(s.lines(id)) > lines) != wrote || !wrote && before.Revision != after.Revision {
				s.Errorf("changes %q, revision %d before and %d after", s.lines(id), before.Revision, after.Revision)
			}
		})
	}
}

// A running task that is scheduled unchanged runs once more if the caller asks for it, and else nothing happens.
func TestIfRunning(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("one", store.StatusExecuting)
	revision := s.row("one").Revision
	for _, c := range []struct{ field, outcome string }{{"", "unchanged"}, {`, "if_running": "again"`, "again"}} {
		content := strings.TrimSuffix(base, "}") + c.field + "}"
		asked := s.wants(200, "all", "PUT", pathOf("one"), content)
		many := s.wants(200, "all", "POST", "/v1/tasks/bulk", `{"tasks": [{"id": "one", `+content[1:]+`]}`)
		if all := s.outcomes(many); asked.field("outcome") != c.outcome || all != "one "+c.outcome {
			t.Errorf("%s: %s, and in bulk %s; want %s", content, asked.text, many.text, c.outcome)
		}
		again := value[bool](s, `SELECT again_at IS NOT NULL FROM tasktable.scheduled_tasks`)
		if row := s.row("one"); row.Revision != revision || again != (c.outcome == "again") {
			t.Errorf("%s: revision %d, want %d; it runs again: %t", content, row.Revision, revision, again)
		}
	}
	s.says(s.wants(422, "all", "PUT", pathOf("one"), strings.TrimSuffix(base, "}")+`, "if_running": "keep"}`), "if_running")
}

func TestVerbsOfNoTask(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, call := range [][2]string{
		{"POST", "/cancel"}, {"POST", "/pause"}, {"POST", "/resume"}, {"POST", "/run-now"}, {"POST", "/retry"},
		{"DELETE", ""}, {"GET", ""}, {"GET", "/why"},
	} {
		s.says(s.wants(404, "all", call[0], "/v1/tasks/none"+call[1], ""), "no such task")
		s.says(s.call("all", call[0], "/v1/tasks/%00"+call[1], ""), "id must be")
	}
	s.absent("none")
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, status := range []store.Status{store.StatusQueued, store.StatusPaused, store.StatusFailed} {
		id := string(status)
		s.make(id, status)
		got := s.wants(200, "all", "DELETE", pathOf(id), "")
		if got.text != `{"id":"`+id+`","outcome":"deleted"}` || got.header.Get("ETag") != "" {
			t.Errorf("%s, ETag %s", got.text, got.header.Get("ETag"))
		}
		s.absent(id)
		s.wants(404, "all", "DELETE", pathOf(id), "")
	}
	s.make("running", store.StatusExecuting)
	s.says(s.wants(409, "all", "DELETE", "/v1/tasks/running", ""), "the task is running; cancel it first")
	if row := s.row("running"); row.Status != store.StatusExecuting {
		t.Errorf("status %s", row.Status)
	}
	s.hasLines("running", "schedule created svc")
}

func TestPauseUntil(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	until := time.Date(2050, 5, 5, 12, 0, 0, 123456000, time.UTC)
	s.wants(200, "all", "POST", "/v1/tasks/task/pause", `{"until": "2050-05-05T14:00:00.123456+02:00"}`)
	if row := s.row("task"); row.PausedUntil == nil || !row.PausedUntil.Equal(until) {
		t.Errorf("paused until %v, want %v", row.PausedUntil, until)
	}
	if got := s.wants(200, "all", "GET", "/v1/tasks/task", ""); got.field("paused_until") != "2050-05-05T12:00:00.123456Z" {
		t.Errorf("paused_until %q", got.field("paused_until"))
	}
	for body, says := range map[string]string{
		`{"until": "tomorrow"}`:             "body.until: expected a time such as",
		`{"until": 5}`:                      "body.until: expected string",
		`{"until": "0001-01-01T00:00:00Z"}`: "until must be a time to come",
		`{"till": null}`:                    "body.till: unexpected property",
		`[]`:                                "body: expected object",
	} {
		s.says(s.wants(422, "all", "POST", "/v1/tasks/task/pause", body), says)
	}
	s.wants(200, "all", "POST", "/v1/tasks/task/pause", `{"until": null}`)
	if row := s.row("task"); row.PausedUntil != nil {
		t.Errorf("paused until %v, want for ever", row.PausedUntil)
	}
}
