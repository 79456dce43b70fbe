package api_test

import (
	"strings"
	"testing"
)

// A caller gives tasks for the death, and reads them as it gave them. The queue is added. An edit of another field keeps
// them.
func TestIfDead(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const given = `[{"id": "undo", "payload": {"type": "TEST", "n": 1.00}, "scheduled_at": "2100-01-01T00:00:00Z",
		"priority": 7, "queue": "mail", "expiration": 172800, "expected_execution_time": 7.5, "max_attempts": 3,
		"entity": "event:2", "if_finished": "rearm", "jitter": 1.5, "retention": 86400},
		{"payload": {"type": "TEST"}, "queue": "default"}]`
	put := func(ifDead string) string {
		return `{"payload": {"type": "TEST"}, "scheduled_at": "2100-01-01T00:00:00Z", "if_dead": ` + ifDead + `}`
	}
	content := func(priority, ifDead string) string {
		return `{"payload": {"type": "TEST"}, "scheduled_at": "2100-01-01T00:00:00Z", "queue": "default",
			"expected_execution_time": 300, "max_attempts": 10` + priority + ifDead + `}`
	}
	s.wants(201, "all", "PUT", pathOf("one"), put(given))
	sameContent(t, "given", contentOf(s, "one"), content("", `, "if_dead": `+given))
	if got := s.wants(200, "all", "PUT", pathOf("one"), put(given)); got.field("outcome") != "unchanged" {
		t.Errorf("the same: %s", got.field("outcome"))
	}
	s.wants(200, "all", "PATCH", pathOf("one"), `{"priority": 1}`)
	sameContent(t, "patched", contentOf(s, "one"), content(`, "priority": 1`, `, "if_dead": `+given))
	s.wants(200, "all", "PATCH", pathOf("one"), `{"if_dead": null}`)
	sameContent(t, "removed", contentOf(s, "one"), content(`, "priority": 1`, ""))

	for ifDead, part := range map[string]string{
		`[{"payload": {"type": "A B"}}]`:                                                              "if_dead: task 1: type must be",
		`[{"payload": {"type": "TEST"}, "id": "one"}]`:                                                "if_dead: task 1: id must not be",
		`[{"payload": {"type": "TEST"}, "cron": "@daily"}]`:                                           "unexpected property",
		`[{"payload": {"type": "TEST"}, "if_dead": []}]`:                                              "unexpected property",
		"[" + strings.Repeat(`{"payload": {"type": "TEST"}},`, 10) + `{"payload": {"type": "TEST"}}]`: "10",
	} {
		if got := s.wants(422, "all", "PUT", pathOf("one"), put(ifDead)); !strings.Contains(got.text, part) {
			t.Errorf("%s: %s, want one that says %s", ifDead, got.text, part)
		}
	}
}
