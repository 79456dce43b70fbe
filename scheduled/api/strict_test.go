package api_test

import (
	"strings"
	"testing"
)

// An empty or zero value is not a missing one: a template whose variable is empty must not make another task than the
// one that was meant. Each of these calls changes nothing.
func TestEmptyValuesAreRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(201, "all", "PUT", "/v1/tasks/a", hello)
	before := s.everything()
	for _, field := range []string{`"queue": ""`, `"cron": ""`, `"time_zone": ""`, `"entity": ""`, `"tenant_id": ""`,
		`"id": ""`, `"max_attempts": 0`, `"expected_execution_time": 0`, `"expiration": 0`, `"jitter": 0`,
		`"retention": 0`, `"retention": 1e-9`, `"catch_up_limit": 0`, `"max_occurrences": 0`} {
		name := strings.Trim(strings.Split(field, ":")[0], `"`)
		body := strings.Replace(hello, "{", "{"+field+", ", 1)
		s.says(s.wants(422, "all", "PUT", "/v1/tasks/a", body), "body."+name+": must ")
		s.says(s.wants(422, "all", "POST", "/v1/tasks", body), "body."+name+": must ")
		s.says(s.wants(422, "all", "POST", "/v1/tasks/bulk", `{"tasks": [`+body+`]}`), "body.tasks[0]."+name+": must ")
		if name != "id" {
			s.says(s.wants(422, "all", "PATCH", "/v1/tasks/a", "{"+field+"}"), "body."+name+": must ")
		}
	}
	s.says(s.wants(422, "all", "POST", "/v1/tasks", hello, "Idempotency-Key", ""), "header.Idempotency-Key must be one key")
	s.hasNotChanged(before)
}

// A filter without a field selects more tasks, and a limit without a type holds for all. So a variable that is not set
// must not become a field that is missing.
func TestNullIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(201, "all", "PUT", "/v1/tasks/a", hello)
	for field, path := range map[string]string{
		"body.filter.entity": `POST /v1/tasks/delete {"filter": {"entity": null}}`,
		"body.filter.status": `POST /v1/tasks/pause {"filter": {"type": "LOG", "status": null}}`,
		"body.filter.type":   `POST /v1/dead-letters/retry {"filter": {"type": null}}`,
		"body.type":          `PUT /v1/limits/one {"type": null, "max_running": 1}`,
		"body.queue":         `PUT /v1/tasks/a {"payload": {"type": "LOG"}, "queue": null}`,
	} {
		parts := strings.SplitN(path, " ", 3)
		s.refuses("all", parts[0], parts[1], map[string]string{parts[2]: field + ": must not be null"})
	}
}

// Readers differ on which of two fields of one name counts.
func TestTwinsAreRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for body, refused := range map[string]bool{
		`{"payload": {"type": "LOG"}, "priority": 1, "priority": 2}`:                      true,
		`{"payload": {"type": "LOG", "type": "EXEC"}}`:                                    true,
		`{"payload": {"type": "LOG", "t\u0079pe": "EXEC"}}`:                               true,
		`{"payload": {"type": "LOG", "a": [{"b": {}, "c": [1], "b": null}]}}`:             true,
		`{"payload": {"type": "LOG", "a": [{"b": 1}, {"b": 1}], "b": {"a": ["a", "a"]}}}`: false,
		`{"payload": {"type": "LOG", "a": "b", "b": "a", "c": "a"}}`:                      false,
	} {
		if !refused {
			s.wants(201, "all", "POST", "/v1/tasks", body)
			continue
		}
		got := s.wants(400, "all", "POST", "/v1/tasks", body)
		s.says(got, "the body must not have two fields of one name in one object")
	}
}

// encoding/json takes Queue for queue, so that an object could have both.
func TestNamesAreExact(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(201, "all", "PUT", "/v1/tasks/a", hello)
	before := s.everything()
	for _, c := range []struct{ method, path, body, says string }{
		{"PUT", "/v1/tasks/a", `{"Payload": {"type": "LOG"}}`, "body.Payload: unexpected property; write payload"},
		{"POST", "/v1/tasks", `{"payload": {"type": "LOG"}, "queue": "a", "Queue": "b"}`, "body.Queue: "},
		{"POST", "/v1/tasks", `{"payload": {"type": "LOG"}, "\u017fcheduled_at": null}`, "write scheduled_at"},
		{"POST", "/v1/tasks", `{"payload": {"type": "LOG"}, "if_dead": [{"payload": {"type": "LOG"}}, {"ID": "a"}]}`,
			"body.if_dead[1].ID: "},
		{"POST", "/v1/tasks/bulk", `{"tasks": [` + hello + `, {"PAYLOAD": {"type": "LOG"}}]}`, "body.tasks[1].PAYLOAD: "},
		{"POST", "/v1/tasks/bulk", `{"Tasks": [` + hello + `]}`, "body.Tasks: "},
		{"PATCH", "/v1/tasks/a", `{"Priority": 1}`, "body.Priority: "},
		{"POST", "/v1/tasks/a/pause", `{"Until": "2100-01-01T00:00:00Z"}`, "body.Until: "},
		{"POST", "/v1/queues/mail/pause", `{"REASON": "repair"}`, "body.REASON: "},
		{"POST", "/v1/dead-letters/retry", `{"filter": {"Type": "LOG"}}`, "body.filter.Type: "},
		{"POST", "/v1/dead-letters/archive", `{"IDs": ["a"]}`, "body.IDs: unexpected property; write ids"},
	} {
		s.says(s.wants(422, "all", c.method, c.path, c.body), c.says)
	}
	s.hasNotChanged(before)
	s.wants(201, "all", "PUT", "/v1/tasks/b", `{"payload": {"type": "LOG", "Queue": 1, "queue": 2.0}}`) // the handler's
}

// The errors of encoding/json are for programmers in Go.
func TestNumbersAreRefusedInPlainWords(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(201, "all", "PUT", "/v1/tasks/a", hello)
	for body, says := range map[string]string{
		`{"payload": {"type": "LOG"}, "priority": 5.0}`:                  "body.priority: expected integer, written",
		`{"payload": {"type": "LOG"}, "priority": 1e1}`:                  "body.priority: expected integer, written",
		`{"payload": {"type": "LOG"}, "priority": 1e400}`:                "body.priority: expected a number that 64",
		`{"payload": {"type": "LOG", "a": [0, {"b": -1e400}]}}`:          "body.payload.a[1].b: expected a number that 64",
		`{"payload": {"type": "LOG"}, "jitter": 1e400}`:                  "body.jitter: expected a number that 64",
		`{"payload": {"type": "LOG"}, "max_attempts": 9999999999999999}`: "body.max_attempts: must be between 1 and 1000",
	} {
		for _, got := range []reply{
			s.wants(422, "all", "PUT", "/v1/tasks/a", body), s.wants(422, "all", "PATCH", "/v1/tasks/a", body),
		} {
			if s.says(got, says); strings.Contains(got.text, "Go ") || strings.Contains(got.text, "json:") {
				t.Errorf("%s: %s", body, got.text)
			}
		}
	}
	s.wants(201, "all", "PUT", "/v1/tasks/b", `{"payload": {"type": "LOG"}, "jitter": 5.0, "retention": 1e3}`)
}

// A body that only forgets cron does not end a recurring task, and one that has it does not make a plain task recur.
func TestAKindIsKept(t *testing.T) {
	t.Parallel()
	s := newService(t)
	recurs := strings.Replace(hello, "{", `{"cron": "@daily", `, 1)
	with := func(id, body string) string { return strings.Replace(body, "{", `{"id": "`+id+`", `, 1) }
	for id, c := range map[string]struct{ first, then string }{"nightly": {recurs, hello}, "plain": {hello, recurs}} {
		s.wants(201, "all", "PUT", "/v1/tasks/"+id, c.first)
		before := s.everything()
		for _, call := range [][3]string{
			{"PUT", "/v1/tasks/" + id, c.then},
			{"POST", "/v1/tasks", with(id, c.then)},
			{"POST", "/v1/tasks/bulk", `{"tasks": [` + hello + `, ` + with(id, c.then) + `]}`},
		} {
			got := s.wants(409, "all", call[0], call[1], call[2])
			s.says(got, `task "`+id+`"`)
			s.says(s.wants(409, "all", call[0], call[1]+"?replace=false", call[2]), "add ?replace=true")
			if got.field("code") != "kind_differs" || s.everything() != before {
				t.Errorf("%s: %s", call, got.text)
			}
			s.wants(200, "all", call[0], call[1]+"?replace=true", call[2])
			s.wants(200, "all", "PUT", "/v1/tasks/"+id+"?replace=true", c.first)
			before = s.everything()
		}
		s.wants(200, "all", "PUT", "/v1/tasks/"+id, c.first)
	}
}
