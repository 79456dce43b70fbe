package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// verbOn is the call of a verb on one task.
func verbOn(rule inspect.VerbRule, id string) (method, path string) {
	if rule.Verb == inspect.Delete {
		return "DELETE", pathOf(id)
	}
	return "POST", pathOf(id) + "/" + rule.Path()
}

// Each verb on one task, and on several by a filter, answers what the table of verbs says.
func TestVerbs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, rule := range inspect.Verbs() {
		for _, status := range []store.Status{store.StatusQueued, store.StatusExecuting, store.StatusFailed} {
			id := rule.Path() + " " + string(status)
			want := string(rule.EffectOn(status).Outcome)
			s.run(id, func(s *service) {
				s.make(id, status)
				method, path := verbOn(rule, id)
				if want == string(store.Running) {
					s.says(s.wants(409, "all", method, path, ""), "the task is running; cancel it first")
					return
				}
				got := s.wants(200, "all", method, path, "")
				if got.field("outcome") != want || got.field("id") != id {
					s.Errorf("%s; want %s", got.text, want)
				}
				if rule.Verb == inspect.Delete {
					s.absent(id)
				} else if tag := s.wants(200, "all", "GET", pathOf(id), "").header.Get("ETag"); got.header.Get("ETag") != tag {
					s.Errorf("ETag %s, and %s of the task", got.header.Get("ETag"), tag)
				}
			})
		}
		s.run("many "+string(rule.Verb), func(s *service) {
			status := rule.Statuses[0]
			for i := range 3 {
				s.make(fmt.Sprintf("many %s %d", rule.Path(), i), status)
			}
			path, filter := "/v1/tasks/"+rule.Path(), `{"filter": {"id_prefix": "many `+rule.Path()+`"}, "limit": 2`
			if got := s.wants(200, "all", "POST", path, filter+`, "dry_run": true}`); got.text !=
				`{"receipts":[],"selected":2,"more":true}` {
				s.Errorf("dry: %s", got.text)
			}
			got := s.wants(200, "all", "POST", path, filter+"}")
			if want := string(rule.EffectOn(status).Outcome); strings.Count(got.text, `"outcome":"`+want+`"`) != 2 ||
				!strings.HasSuffix(got.text, `"selected":2,"more":true}`) {
				s.Errorf("%s, want twice %s", got.text, want)
			}
		})
	}
	got := s.wants(200, "all", "POST", "/v1/tasks/cancel", `{"ids": ["none", "run-now QUEUED", "none"]}`)
	if all := s.outcomes(got); all != "none absent, run-now QUEUED cancelled" ||
		!strings.HasSuffix(got.text, `"selected":2}`) {
		t.Errorf("by ids: %s", got.text)
	}
}

// A call on many tasks that is refused changes nothing. Notices are the engine's.
func TestVerbsOnManyRefuse(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.asEngine(`SELECT tasktable.schedule('{"type": "TEST"}', id => 'notice/1')`)
	s.make("one", store.StatusQueued)
	before := s.everything()
	s.refuses("all", "POST", "/v1/tasks/pause", map[string]string{
		`{}`:             "body must have either ids, or filter with at least one field",
		`{"filter": {}}`: "body must have either ids, or filter with at least one field",
		`{"ids": ["one"], "filter": {"type": "TEST"}}`:                  "body must have either ids, or filter",
		`{"ids": ["one"], "dry_run": true}`:                             "dry_run is for a filter",
		`{"filter": {"type": "TEST"}, "limit": 1001}`:                   "body.limit: expected number <= 1000",
		`{"filter": {"queue": "A"}}`:                                    "filter.queue must be 1 to 64 of a-z, 0-9, inner - or _",
		`{"filter": {"payload": "a"}}`:                                  "filter.payload must be a path and a text",
		`{"filter": {"name": "a"}}`:                                     "body.filter.name: unexpected property",
		`{"filter": {"type": "TEST"}, "until": "2000-01-01"}`:           "body.until: expected a time such as",
		`{"filter": {"type": "TEST"}, "over": 5}`:                       "body.over: unexpected property",
		`{"filter": {"status": ["LATE"]}}`:                              "body.filter.status[0]: expected value to be one of",
		`{"filter": {"type": "TEST"}, "until": "2000-01-01T00:00:00Z"}`: "until must be a time to come",
	})
	s.wants(403, "all", "POST", "/v1/tasks/cancel", `{"ids": ["notice/1"]}`)
	s.hasNotChanged(before)
	if got := s.outcomes(s.wants(200, "all", "POST", "/v1/tasks/cancel", `{"filter": {"type": "TEST"}}`)); got != "one cancelled" {
		t.Errorf("cancelled %s", got)
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
	refused := func(method, path string) {
		t.Helper()
		s.says(s.wants(404, "all", method, path, ""), "no such task")
		s.says(s.call("all", method, strings.Replace(path, "none", "%00", 1), ""), "id must be")
	}
	for _, rule := range inspect.Verbs() {
		refused(verbOn(rule, "none"))
	}
	refused("GET", "/v1/tasks/none")
	refused("GET", "/v1/tasks/none/why")
	s.absent("none")
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
	s.refuses("all", "POST", "/v1/tasks/task/pause", map[string]string{
		`{"until": "tomorrow"}`:             "body.until: expected a time such as",
		`{"until": 5}`:                      "body.until: expected string",
		`{"until": "0001-01-01T00:00:00Z"}`: "until must be a time to come",
		`{"till": null}`:                    "body.till: unexpected property",
		`[]`:                                "body: expected object",
	})
	s.wants(200, "all", "POST", "/v1/tasks/task/pause", `{"until": null}`)
	if row := s.row("task"); row.PausedUntil != nil {
		t.Errorf("paused until %v, want for ever", row.PausedUntil)
	}
}

// asideSQL gives the database a clock that is an hour behind that of this machine: a function that is found before
// Postgres's own.
const asideSQL = `
CREATE SCHEMA aside;
CREATE FUNCTION aside.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
	SELECT pg_catalog.clock_timestamp() - interval '1 hour' $$;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = aside, pg_catalog, public', current_database()); END $$`

// The clock of the API's machine is an hour ahead. A pause may end at a time that only this clock has passed.
func TestPauseUntilIsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	s.exec(asideSQL)
	s.pool.Reset() // connections made before have the true clock
	until := func(ago time.Duration) string {
		return fmt.Sprintf(`"until": %q`, time.Now().Add(-ago).UTC().Format(time.RFC3339))
	}
	for path, body := range map[string]string{
		"/v1/tasks/task/pause": "{%s}", "/v1/tasks/pause": `{"ids": ["task"], %s}`, "/v1/queues/mail/pause": "{%s}",
	} {
		s.wants(200, "all", "POST", path, fmt.Sprintf(body, until(30*time.Minute)))
		s.refuses("all", "POST", path, map[string]string{
			fmt.Sprintf(body, until(90*time.Minute)): "until must be a time to come",
		})
	}
}
