package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api"
)

// recurrings makes recurring tasks a to d, and one task that does not recur.
func recurrings(t *testing.T) *service {
	s := newService(t)
	for id, fields := range map[string]string{
		"a": `"cron": "0 9 * * *", "time_zone": "Europe/Vienna", "queue": "mail"`,
		"b": `"cron": "@every 90s", "entity": "event:1", "max_occurrences": 3`,
		"c": `"cron": "0 0 29 2 *", "tenant_id": "acme", "jitter": 1.5`,
		"d": `"cron": "0 0 * * *", "ends_at": "2100-01-02T12:00:00Z"`,
	} {
		kind := map[bool]string{true: "OTHER", false: "TEST"}[id == "c"]
		s.wants(201, "all", "PUT", "/v1/tasks/"+id,
			`{"payload": {"type": "`+kind+`"}, "scheduled_at": "2100-01-01T00:00:00Z", `+fields+`}`)
	}
	s.wants(200, "all", "POST", "/v1/tasks/b/pause", "")
	s.wants(201, "all", "PUT", "/v1/tasks/once", base)
	return s
}

func TestListRecurring(t *testing.T) {
	t.Parallel()
	s := recurrings(t)
	for query, want := range map[string]string{
		"": "a b c d", "?queue=mail": "a", "?type=OTHER": "c", "?status=PAUSED": "b", "?status=QUEUED": "a c d",
		"?entity=event:1": "b", "?tenant_id=acme": "c", "?limit=2": "a b", "?limit=2&after=b": "c d", "?after=d": "",
		"?type=TEST&queue=default": "b d", "?queue=none": "",
	} {
		var ids []string
		for _, one := range answerTo[api.RecurringTasks](s, "/v1/recurring"+query).Recurring {
			ids = append(ids, one.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	s.refusesQueries("reader", "/v1/recurring", map[string]string{
		"status=EXECUTING": "query.status: expected value to be one of", "limit=1001": "query.limit: expected number <= 1000",
		"after=%00": "after must be", "cursor=a": "query.cursor: unknown query parameter",
	})
}

// The options of an expression are fields, too, and the fires tell what calendars do.
func TestGetRecurringOnDays(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(200, "all", "PUT", "/v1/calendars/company", `{"days": [{"from": "2100-01-31", "note": "closed"}]}`)
	s.wants(201, "all", "PUT", "/v1/tasks/a", `{"payload": {"type": "TEST"}, "scheduled_at": "2100-01-01T00:00:00Z",
		"cron": "0 9 L * * every=2 from=2100-01-01 out-of=company keep-to=workdays move=previous"}`)
	got := s.wants(200, "reader", "GET", "/v1/recurring/a?fires=2", "").text
	for _, want := range []string{
		`"every":2,"from":"2100-01-01","out_of":["company"],"keep_to":["workdays"],"move":"previous"`,
		`"fires":[{"at":"2100-01-29T09:00:00Z","moved_from":"2100-01-31T09:00:00Z",` +
			`"why":"2100-01-31 is out (company: closed)"},{"at":"2100-03-31T09:00:00Z"}]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the answer is %s, want %s", got, want)
		}
	}
	s.wants(200, "all", "PATCH", "/v1/tasks/a", `{"cron": "0 9 L * * out-of=company"}`)
	if got := s.wants(200, "reader", "GET", "/v1/recurring/a?fires=1", "").text; !strings.Contains(got,
		`"left_out":[{"at":"2100-01-31T09:00:00Z","why":"2100-01-31 is out (company: closed)"}]`) {
		t.Errorf("the answer is %s", got)
	}
	s.wants(201, "all", "PUT", "/v1/tasks/once", `{"payload": {"type": "TEST"}, "scheduled_at": "2100-01-31T09:00:00Z",
		"days": "out-of=company move=previous"}`)
	if at := s.wants(200, "reader", "GET", "/v1/tasks/once", "").field("scheduled_at"); at != "2100-01-30T09:00:00Z" {
		t.Errorf("the task that does not recur is scheduled at %s", at)
	}
}

func TestGetRecurring(t *testing.T) {
	t.Parallel()
	s := recurrings(t)
	for path, want := range map[string]string{
		"a?fires=2": "[2100-01-01T08:00:00Z 2100-01-02T08:00:00Z]",
		"d":         "[2100-01-01T00:00:00Z 2100-01-02T00:00:00Z]",
		"a?fires=0": "[]",
		"c?fires=1": "[2104-02-29T00:00:00Z]",
	} {
		answer := answerTo[api.Forecast](s, "/v1/recurring/"+path)
		var fires []string
		for _, fire := range answer.Fires {
			fires = append(fires, fire.At.Format(time.RFC3339))
		}
		if got := fmt.Sprint(fires); got != want || answer.ID != path[:1] {
			t.Errorf("%s: fires of %s %s, want %s", path, answer.ID, got, want)
		}
	}
	for field, want := range map[string]string{
		"cron": "0 9 * * *", "time_zone": "Europe/Vienna", "queue": "mail", "overlap": "skip", "catch_up": "latest",
		"catch_up_paused": "none", "catch_up_limit": "100", "is_paused": "false", "health": "new", "failures_in_a_row": "0",
		"starts_at": "2100-01-01T00:00:00Z",
	} {
		if got := s.wants(200, "reader", "GET", "/v1/recurring/a", "").field(field); got != want {
			t.Errorf("%s of a: %s, want %s", field, got, want)
		}
	}
	s.exec(`SELECT tasktable.fork_occurrence('a', '2100-01-01 08:00Z'),
		tasktable.fork_occurrence('a', '2100-01-02 08:00Z')`)
	s.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	s.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = NULL, finished_at = scheduled_at + interval '1 minute',
		status = CASE WHEN id LIKE '%-01T%' THEN 'COMPLETED' ELSE 'FAILED' END, 
		message = E'full\nat /' WHERE parent_id = 'a'`)
	for field, want := range map[string]string{
		"health": "failing", "failures_in_a_row": "1", "last_error": "full", "last_success": "2100-01-01T08:01:00Z",
		"last_failure": "2100-01-02T08:01:00Z",
	} {
		if got := s.wants(200, "reader", "GET", "/v1/recurring/a", "").field(field); got != want {
			t.Errorf("%s of a: %s, want %s", field, got, want)
		}
	}
	if ended := s.wants(200, "reader", "GET", "/v1/recurring/d", "").field("ended"); ended == "" {
		t.Error("the answer does not say why d fires only twice")
	}
	if jitter := s.wants(200, "reader", "GET", "/v1/recurring/c", "").field("jitter"); jitter != "1.5" {
		t.Errorf("jitter %s, want 1.5 seconds", jitter)
	}
	s.says(s.wants(404, "reader", "GET", "/v1/recurring/none", ""), "no such task")
	s.says(s.wants(404, "reader", "GET", "/v1/recurring/once", ""), "the task is not a recurring one")
	s.says(s.wants(404, "reader", "GET", "/v1/recurring/once?fires=0", ""), "the task is not a recurring one")
	s.says(s.wants(422, "reader", "GET", "/v1/recurring/a?fires=1001", ""), "query.fires: expected number <= 1000")
	s.says(s.wants(422, "reader", "GET", "/v1/recurring/%00", ""), "id must be")
}
