package api_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// The answer of an edit tells when the task is due or fires next, also before a leader has planned the fire.
func TestNextAttemptAt(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const noon, fire = "2100-01-01T12:00:00Z", "2100-01-02T08:00:00Z"
	const plain = `{"id": "plain", "payload": {"type": "TEST"}, "scheduled_at": "` + noon + `"}`
	const recurs = `{"id": "recurs", "payload": {"type": "TEST"}, "cron": "0 9 * * *", "time_zone": "Europe/Vienna",
		"scheduled_at": "` + noon + `"}`
	s.make("done", store.StatusCompleted)
	for _, c := range []struct {
		method, path, body, want string
		status                   int
	}{
		{"POST", "/v1/tasks", plain, noon, 201}, {"PUT", "/v1/tasks/plain", plain, noon, 200},
		{"PATCH", "/v1/tasks/plain", `{"scheduled_at": "` + fire + `"}`, fire, 200},
		{"POST", "/v1/tasks", recurs, fire, 201}, {"PUT", "/v1/tasks/recurs", recurs, fire, 200},
		{"PATCH", "/v1/tasks/recurs", `{"cron": "30 9 * * *"}`, "2100-01-02T08:30:00Z", 200},
		{"PATCH", "/v1/tasks/recurs", `{"ends_at": "2100-01-01T13:00:00Z"}`, "", 200},
		{"PUT", "/v1/tasks/done", base, "", 200}, {"POST", "/v1/tasks/plain/pause", "", "", 200},
	} {
		got := s.wants(c.status, "scheduler", c.method, c.path, c.body)
		if got.field("next_attempt_at") != c.want {
			t.Errorf("%s %s %s: %s, want next_attempt_at %q", c.method, c.path, c.body, got.text, c.want)
		}
	}
}

// The body for those who come from another scheduler works as the page shows it.
func TestBodyOfReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```json\n")
	body, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("the page has no body in JSON")
	}
	s := newService(t)
	got := s.wants(201, "all", "PUT", "/v1/tasks/daily-report", body)
	if next := got.field("next_attempt_at"); !strings.HasSuffix(next, "T08:00:00Z") {
		t.Errorf("next_attempt_at %q, want eight o'clock: %s", next, got.text)
	}
	sameContent(t, "the task", contentOf(s, "daily-report"), strings.Replace(body, `"cron"`, `"queue": "default",
		"scheduled_at": "`+s.wants(200, "all", "GET", "/v1/tasks/daily-report", "").field("scheduled_at")+`",
		"expected_execution_time": 300, "overlap": "skip", "catch_up": "latest", "catch_up_paused": "none",
		"catch_up_limit": 100, "cron"`, 1))
}
