package api_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

// The task that patches change begins with its payload.
const (
	payload = `{"payload": {"type": "TEST", "n": 12345678901234567890, "x": 1.00, "in": {"a": 1, "b": [1, {"c": null}]}}`
	rest    = `, "scheduled_at": "2100-01-01T00:00:00Z", "priority": 7, "queue": "mail", "expiration": 60,
		"expected_execution_time": 7.5, "max_attempts": 9, "entity": "event:1", "tenant_id": "acme", "jitter": 1.5,
		"retention": 86400}`
)

// The cases of RFC 7396, applied to a task. Each has the whole content after the call.
func TestPatch(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, c := range map[string]struct{ patch, outcome, after string }{
		"nothing":        {`{}`, "unchanged", payload + rest},
		"the same":       {`{"priority": 7}`, "unchanged", payload + rest},
		"spaces":         {" {\n \"payload\" : { \"x\" : null } } ", "rescheduled", `{"payload": {"type": "TEST", "n": 12345678901234567890, "in": {"a": 1, "b": [1, {"c": null}]}}` + rest},
		"a new field":    {`{"payload": {"y": 0.10}}`, "rescheduled", `{"payload": {"type": "TEST", "n": 12345678901234567890, "x": 1.00, "y": 0.10, "in": {"a": 1, "b": [1, {"c": null}]}}` + rest},
		"an inner field": {`{"payload": {"in": {"a": 2}}}`, "rescheduled", `{"payload": {"type": "TEST", "n": 12345678901234567890, "x": 1.00, "in": {"a": 2, "b": [1, {"c": null}]}}` + rest},
		"an inner null":  {`{"payload": {"in": {"a": null, "z": null}}}`, "rescheduled", `{"payload": {"type": "TEST", "n": 12345678901234567890, "x": 1.00, "in": {"b": [1, {"c": null}]}}` + rest},
		"an array":       {`{"payload": {"in": {"b": [null, {"d": null}]}}}`, "rescheduled", `{"payload": {"type": "TEST", "n": 12345678901234567890, "x": 1.00, "in": {"a": 1, "b": [null, {"d": null}]}}` + rest},
		"by a scalar":    {`{"payload": {"in": "text"}}`, "rescheduled", `{"payload": {"type": "TEST", "n": 12345678901234567890, "x": 1.00, "in": "text"}` + rest},
		"by an object":   {`{"payload": {"x": {"a": {"b": null}}}}`, "rescheduled", `{"payload": {"type": "TEST", "n": 12345678901234567890, "x": {"a": {}}, "in": {"a": 1, "b": [1, {"c": null}]}}` + rest},
		"a type":         {`{"payload": {"type": "OTHER"}}`, "rescheduled", `{"payload": {"type": "OTHER", "n": 12345678901234567890, "x": 1.00, "in": {"a": 1, "b": [1, {"c": null}]}}` + rest},
		"a large number": {`{"payload": {"n": 98765432109876543210.123456789}}`, "rescheduled", `{"payload": {"type": "TEST", "n": 98765432109876543210.123456789, "x": 1.00, "in": {"a": 1, "b": [1, {"c": null}]}}` + rest},
		"a priority": {`{"priority": -1}`, "rescheduled", payload + `, "scheduled_at": "2100-01-01T00:00:00Z", "priority": -1, "queue": "mail", "expiration": 60,
			"expected_execution_time": 7.5, "max_attempts": 9, "entity": "event:1", "tenant_id": "acme", "jitter": 1.5, "retention": 86400}`},
		"a time": {`{"scheduled_at": "2100-01-01T01:00:00.5+01:00"}`, "rescheduled", payload + `, "scheduled_at": "2100-01-01T00:00:00.5Z", "priority": 7, "queue": "mail", "expiration": 60,
			"expected_execution_time": 7.5, "max_attempts": 9, "entity": "event:1", "tenant_id": "acme", "jitter": 1.5, "retention": 86400}`},
		"defaults": {`{"priority": null, "queue": null, "expiration": null, "expected_execution_time": null, "max_attempts": null, "entity": null, "tenant_id": null, "jitter": null, "retention": null, "cron": null}`, "rescheduled",
			payload + `, "scheduled_at": "2100-01-01T00:00:00Z", "queue": "default", "expected_execution_time": 300, "max_attempts": 10}`},
		"the time keeps": {`{"scheduled_at": null}`, "unchanged", payload + rest},
		"it recurs": {`{"cron": "0 9 * * *", "overlap": "allow"}`, "rescheduled", payload + `, "cron": "0 9 * * *", "time_zone": "UTC", "overlap": "allow", "catch_up": "latest",
			"catch_up_paused": "none", "catch_up_limit": 100` + rest},
	} {
		s.run(name, func(s *service) {
			s.wants(201, "all", "PUT", pathOf(name), payload+rest)
			sameContent(s.T, "before", contentOf(s, name), payload+rest)
			got := s.wants(200, "all", "PATCH", pathOf(name), c.patch)
			if got.field("outcome") != c.outcome {
				s.Errorf("outcome %s, want %s", got.field("outcome"), c.outcome)
			}
			sameContent(s.T, "after", contentOf(s, name), c.after)
			if tag := s.call("all", "GET", pathOf(name), "").header.Get("ETag"); tag != got.header.Get("ETag") {
				s.Errorf("the ETag of the task is %s, and that of the call %s", tag, got.header.Get("ETag"))
			}
		})
	}
}

func TestPatchRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(201, "all", "PUT", "/v1/tasks/task", payload+rest)
	for name, c := range map[string]struct {
		status     int
		body, says string
	}{
		"no body":                   {400, ``, "request body is required"},
		"null":                      {422, `null`, "body: expected object"},
		"an array":                  {422, `[{"priority": 1}]`, "body: expected object"},
		"an unknown field":          {422, `{"due": null}`, "body.due: unexpected property"},
		"a field of the answer":     {422, `{"revision": 1}`, "body.revision: unexpected property"},
		"a status of the engine":    {422, `{"status": "COMPLETED"}`, "body.status: expected value to be one of"},
		"no status":                 {422, `{"status": null}`, "body.status: must not be null"},
		"a status and a field":      {422, `{"status": "PAUSED", "priority": 1}`, "status must be the only field"},
		"a status and a null":       {422, `{"status": "CANCELLED", "priority": null}`, "status must be the only field"},
		"the id":                    {422, `{"id": "other"}`, "body.id: unexpected property"},
		"a null field in capitals":  {422, `{"QUEUE": null}`, "body.QUEUE: unexpected property; write queue"},
		"no payload":                {422, `{"payload": null}`, "body.payload: must not be null"},
		"no type":                   {422, `{"payload": {"type": null}}`, "type"},
		"another type":              {422, `{"payload": {"type": "a b"}}`, "type must be 2 to 127 letters"},
		"a number as type":          {422, `{"payload": {"type": 1}}`, "type"},
		"a payload of another kind": {422, `{"payload": [1]}`, "body.payload: expected object"},
		"a priority":                {422, `{"priority": 1000}`, "body.priority: must be between -100 and 100"},
		"a text":                    {422, `{"priority": "1"}`, "body.priority: expected integer"},
		"an overlap without cron":   {422, `{"overlap": "allow"}`, "cron is missing"},
		"a large payload":           {422, `{"payload": {"a": "` + strings.Repeat("a", 256<<10) + `"}}`, "payload must"},
	} {
		s.run(name, func(s *service) {
			s.says(s.wants(c.status, "all", "PATCH", "/v1/tasks/task", c.body), c.says)
		})
	}
	s.hasLines("task", "schedule created svc")
	s.says(s.wants(404, "all", "PATCH", "/v1/tasks/other", `{"priority": 1}`), "no such task")
	s.absent("other")
}

// A patch of a recurring task keeps its recurrence, and cron null ends it, with what belongs to cron.
func TestPatchOfRecurring(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const recurs = `{"payload": {"type": "TEST"}, "scheduled_at": "2100-01-01T00:00:00Z", "cron": "0 9 * * *",
		"time_zone": "Europe/Vienna", "overlap": "allow", "catch_up": "all", "catch_up_paused": "latest",
		"catch_up_limit": 3, "ends_at": "2200-01-01T00:00:00Z", "max_occurrences": 4, "queue": "default",
		"expected_execution_time": 300, "max_attempts": 10}`
	s.wants(201, "all", "PUT", "/v1/tasks/r", recurs)
	s.wants(200, "all", "PATCH", "/v1/tasks/r", `{"max_occurrences": null, "time_zone": null, "catch_up": "none"}`)
	sameContent(t, "recurring", contentOf(s, "r"), `{"payload": {"type": "TEST"}, "scheduled_at": "2100-01-01T00:00:00Z",
		"cron": "0 9 * * *", "time_zone": "UTC", "overlap": "allow", "catch_up": "none", "catch_up_paused": "latest",
		"catch_up_limit": 3, "ends_at": "2200-01-01T00:00:00Z", "queue": "default", "expected_execution_time": 300,
		"max_attempts": 10}`)
	s.says(s.wants(422, "all", "PATCH", "/v1/tasks/r", `{"cron": null, "overlap": "skip"}`), "cron is missing")
	if row := s.row("r"); row.Cron == nil || *row.Cron != "0 9 * * *" {
		t.Errorf("cron %v after a refused patch", row.Cron)
	}
	s.wants(200, "all", "PATCH", "/v1/tasks/r", `{"cron": null}`)
	sameContent(t, "no longer recurring", contentOf(s, "r"), `{"payload": {"type": "TEST"},
		"scheduled_at": "2100-01-01T00:00:00Z", "queue": "default", "expected_execution_time": 300, "max_attempts": 10}`)
}

// A patch of a task that has ended does not run it again, unless it says so.
func TestPatchOfFinished(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("done", store.StatusCompleted)
	s.make("cancelled", store.StatusCancelled)
	for _, id := range []string{"done", "cancelled"} {
		before := s.row(id)
		s.says(s.wants(409, "all", "PATCH", "/v1/tasks/"+id, `{"priority": 3}`), "give scheduled_at")
		if after := s.row(id); after.Status != before.Status || after.Revision != before.Revision {
			t.Errorf("%s is %s at revision %d", id, after.Status, after.Revision)
		}
	}
	for _, c := range []struct{ patch, outcome, status string }{
		{`{"scheduled_at": "2100-01-02T00:00:00Z", "if_finished": "keep"}`, "finished", "COMPLETED"},
		{`{"scheduled_at": "2100-01-03T00:00:00Z"}`, "rearmed", "QUEUED"},
	} {
		if got := s.wants(200, "all", "PATCH", "/v1/tasks/done", c.patch); got.field("outcome") != c.outcome {
			t.Errorf("%s: outcome %s, want %s", c.patch, got.field("outcome"), c.outcome)
		}
		if row := s.row("done"); string(row.Status) != c.status {
			t.Errorf("%s: status %s, want %s", c.patch, row.Status, c.status)
		}
	}
}

// A payload that would fail is refused at once.
func TestCheckPayload(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *api.Config) {
		c.CheckPayload = func(taskType string, _ []byte) error {
			if taskType == "BROKEN" {
				return errors.New("payload field url is missing")
			}
			return nil
		}
	})
	s.make("a", store.StatusQueued)
	for path, body := range map[string]string{
		"PUT /v1/tasks/b":     `{"payload": {"type": "BROKEN"}}`,
		"POST /v1/tasks":      `{"payload": {"type": "BROKEN"}}`,
		"POST /v1/tasks/bulk": `{"tasks": [` + hello + `, {"payload": {"type": "BROKEN"}}]}`,
		"PATCH /v1/tasks/a":   `{"payload": {"type": "BROKEN"}}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		s.says(s.wants(422, "all", method, path, body), "payload field url is missing")
	}
	s.wants(201, "all", "PUT", "/v1/tasks/b", hello)
}

// A patch of the status is a call of its verb.
func TestPatchOfStatus(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, c := range []struct {
		before         store.Status
		wanted         string
		outcome, after string
	}{
		{store.StatusQueued, "PAUSED", "paused", "PAUSED"}, {store.StatusPaused, "PAUSED", "unchanged", "PAUSED"},
		{store.StatusPaused, "QUEUED", "queued", "QUEUED"}, {store.StatusQueued, "CANCELLED", "cancelled", "CANCELLED"},
		{store.StatusFailed, "QUEUED", "finished", "FAILED"},
	} {
		id := string(c.before) + " " + c.wanted
		s.make(id, c.before)
		tag := s.wants(200, "all", "GET", pathOf(id), "").header.Get("ETag")
		body := `{"status": "` + c.wanted + `"}`
		s.wants(412, "all", "PATCH", pathOf(id), body, "If-Match", `"99999"`)
		got := s.wants(200, "scheduler", "PATCH", pathOf(id), body, "If-Match", tag)
		if after := s.row(id); got.field("outcome") != c.outcome || string(after.Status) != c.after {
			t.Errorf("%s: %s, status %s; want %s and %s", id, got.text, after.Status, c.outcome, c.after)
		}
	}
	s.says(s.wants(404, "all", "PATCH", "/v1/tasks/none", `{"status": "PAUSED"}`), "no such task")
	s.wants(403, "reader", "PATCH", pathOf("QUEUED PAUSED"), `{"status": "QUEUED"}`)
}
