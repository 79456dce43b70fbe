package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// The texts of typical errors. A person reads them, so a change of them is looked at.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	s.make("running", store.StatusExecuting)
	s.wants(201, "all", "PUT", "/v1/tasks/keyed", hello, "Idempotency-Key", "k")
	var text strings.Builder
	for _, c := range []struct{ caller, method, path, body, header, value string }{
		{"", "GET", "/v1/tasks", "", "", ""},
		{"reader", "PUT", "/v1/tasks/a", hello, "", ""},
		{"all", "GET", "/v1/task", "", "", ""},
		{"all", "PUT", "/v1/tasks//pause", hello, "", ""},
		{"all", "PATCH", "/v1/tasks", "{}", "", ""},
		{"all", "GET", "/v1/tasks/none", "", "", ""},
		{"all", "POST", "/v1/tasks/none/cancel", "", "", ""},
		{"all", "GET", "/v1/recurring/task", "", "", ""},
		{"all", "GET", "/v1/tasks?limit=5000&status=QUEUED&due=now", "", "", ""},
		{"all", "GET", "/v1/tasks?limit=5000&order=time", "", "", ""},
		{"all", "GET", "/v1/tasks?status=WAITING", "", "", ""},
		{"all", "GET", "/v1/tasks?cursor=abc", "", "", ""},
		{"all", "GET", "/v1/tasks/task?wait=5m", "", "", ""},
		{"all", "PUT", "/v1/tasks/a", "", "", ""},
		{"all", "PUT", "/v1/tasks/a", `{"payload": {"type": "LOG"`, "", ""},
		{"all", "PUT", "/v1/tasks/a", `{"payload": {"message": "hi"}, "due": "now", "priority": 1000, "jitter": "5m"}`, "", ""},
		{"all", "PUT", "/v1/tasks/a", `{"payload": {"type": "NO TYPE"}}`, "", ""},
		{"all", "PUT", "/v1/tasks/a", `{"payload": {"type": "LOG"}, "queue": "E-Mail"}`, "", ""},
		{"all", "PUT", "/v1/tasks/a", `{"payload": {"type": "LOG"}, "expiration": 1e9}`, "", ""},
		{"all", "PUT", "/v1/tasks/a", `{"payload": {"type": "LOG"}, "cron": "0 25 * * *"}`, "", ""},
		{"all", "PUT", "/v1/tasks/a", `{"payload": {"type": "LOG"}, "time_zone": "UTC"}`, "", ""},
		{"all", "PUT", "/v1/tasks/a", hello, "Content-Type", "text/plain"},
		{"", "PUT", "/v1/tasks/a", hello, "Content-Type", "text/plain"}, // without a key that is all it is told
		{"all", "PUT", "/v1/tasks/a", nested(65), "", ""},
		{"all", "PUT", "/v1/tasks/a", padded(1<<20 + 1), "", ""},
		{"all", "PUT", "/v1/tasks/a%0Ab", hello, "", ""},
		{"all", "PUT", "/v1/tasks/keyed", strings.Replace(hello, "hi", "ho", 1), "Idempotency-Key", "k"},
		{"all", "PUT", "/v1/tasks/task", hello, "If-Match", `"99999"`},
		{"all", "PATCH", "/v1/tasks/task", `{"status": "COMPLETED"}`, "", ""},
		{"all", "PATCH", "/v1/tasks/task", `{"Priority": 1}`, "", ""},
		{"all", "PATCH", "/v1/tasks/task", `{"payload": {"type": null}}`, "", ""},
		{"all", "DELETE", "/v1/tasks/running", "", "", ""},
		{"all", "POST", "/v1/tasks/bulk", `{"tasks": [` + hello + `, {"payload": {"type": "LOG"}, "overlap": "skip"}]}`, "", ""},
		{"all", "POST", "/v1/tasks/bulk", `{"tasks": [` + hello + `]}`, "If-Match", "*"},
		{"all", "POST", "/v1/dead-letters/retry", `{}`, "", ""},
		{"all", "POST", "/v1/queues/E-Mail/pause", "", "", ""},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header, c.value}
		}
		got := s.call(c.caller, c.method, c.path, c.body, headers...)
		if got.status < 400 || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: answer %d %s %s", c.method, c.path, got.status, got.header.Get("Content-Type"), got.text)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, []byte(got.text), "", "  "); err != nil {
			t.Errorf("%s %s: %s: %v", c.method, c.path, got.text, err)
		}
		body := c.body
		if len(body) > 200 {
			body = fmt.Sprintf("%s... (%d bytes)", body[:60], len(body))
		}
		fmt.Fprintf(&text, "%s %s\n", c.method, c.path)
		if c.header != "" {
			fmt.Fprintf(&text, "%s: %s\n", c.header, c.value)
		}
		if body != "" {
			fmt.Fprintf(&text, "%s\n", body)
		}
		fmt.Fprintf(&text, "%d\n%s\n\n", got.status, pretty.String())
	}
	golden(t, "testdata/errors.golden", text.String())
}
