package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api"
)

// What is accepted, but would wait for ever or be ignored, is told in the answer.
func TestWarnings(t *testing.T) {
	t.Parallel()
	s := newService(t, func(config *api.Config) {
		config.Doubts = func(taskType string, payload []byte) []string {
			if strings.Contains(string(payload), "mesage") {
				return []string{"type " + taskType + " has no payload field mesage"}
			}
			return nil
		}
	})
	number := s.liveNode("svc")
	s.exec(`SELECT tasktable.set_defaults('MAIL', queue => 'mail'), tasktable.set_defaults('*', priority => 1)`)
	recurring := func(fields string) string {
		return `{"payload": {"type": "LOG"}, "cron": "@daily", ` + fields + `}`
	}
	const over, open = `"ends_at": "2001-01-01T00:00:00Z"`, `"ends_at": "2101-01-01T00:00:00Z"`
	const task, bulk = "/v1/tasks/a", "/v1/tasks/bulk"
	fine := hello
	for _, c := range []struct{ method, path, body, want string }{
		{"PUT", task, fine, ""},
		{"POST", "/v1/tasks", `{"payload": {"type": "LOGS"}, "scheduled_at": "2030-01-01T12:00:00Z"}`, "no_handler"},
		{"PUT", task, `{"payload": {"type": "LOG"}, "queue": "mial"}`, "no_worker"},
		{"POST", "/v1/tasks", `{"payload": {"type": "MAIL"}}`, "no_handler no_worker"},
		{"POST", "/v1/tasks", `{"payload": {"type": "MAIL"}, "queue": "default"}`, "no_handler"},
		{"PATCH", task, `{"payload": {"mesage": "hi"}}`, "no_worker doubtful_payload"},
		{"PATCH", task, `{"queue": "default"}`, "doubtful_payload"},
		{"POST", bulk, `{"tasks": [` + fine + `, {"payload": {"type": "NOPE"}, "queue": "x"}]}`, "no_handler no_worker"},
		{"PUT", "/v1/tasks/r", recurring(over), "no_fire"},
		{"PATCH", "/v1/tasks/r", `{"cron": "@every 90s", "scheduled_at": "2000-01-01T00:00:00Z"}`, "no_fire"},
		{"PUT", "/v1/tasks/s", recurring(open), ""},
		{"PATCH", "/v1/tasks/s", `{"scheduled_at": "2000-01-01T00:00:00Z", ` + over + `}`, "no_fire"},
		{"PUT", "/v1/tasks/t", recurring(`"scheduled_at": "2100-12-31T00:00:00Z", ` + open), ""},
		{"PUT", "/v1/tasks/t", recurring(`"scheduled_at": "2100-12-31T12:00:00Z", ` +
			`"ends_at": "2100-12-31T13:00:00Z"`), "no_fire"},
		{"POST", bulk, `{"tasks": [{"id": "u", ` + recurring(over)[1:] + `]}`, "no_fire"},
		{"POST", "/v1/queues/nope/resume", "", "no_worker"},
		{"POST", "/v1/queues/default/resume", "", ""},
	} {
		got := s.call("all", c.method, c.path, c.body)
		var answer struct {
			Warnings []api.Warning
			Receipts []struct{ Warnings []api.Warning }
		}
		got.json(t, &answer)
		for _, receipt := range answer.Receipts {
			answer.Warnings = append(answer.Warnings, receipt.Warnings...)
		}
		var codes []string
		for _, warning := range answer.Warnings {
			codes = append(codes, warning.Code)
			if warning.Detail == "" {
				t.Errorf("%s: %s", c.path, got.text)
			}
		}
		if told := strings.Join(codes, " "); got.status >= 300 || told != c.want {
			t.Errorf("%s %s %s: warnings %q, want %q: %s", c.method, c.path, c.body, told, c.want, got.text)
		}
	}
	// Nothing is known of the nodes by the calls of another API, whose only node has ended.
	s.exec(fmt.Sprintf(`UPDATE tasktable.nodes SET dead_at = now() WHERE number = %d`, number))
	other := newService(t, func(config *api.Config) { config.Pool = s.pool })
	if got := other.wants(201, "all", "POST", "/v1/tasks", `{"payload": {"type": "LOGS"}}`); strings.Contains(got.text, "warn") {
		t.Errorf("without a node: %s", got.text)
	}
}
