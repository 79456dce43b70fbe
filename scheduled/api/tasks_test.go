package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

const hello = `{"payload": {"type": "LOG", "message": "hi"}, "scheduled_at": "2030-01-01T12:00:00Z"}`

func TestPut(t *testing.T) {
	t.Parallel()
	s := newService(t)
	created := s.wants(http.StatusCreated, "all", "PUT", "/v1/tasks/hello", hello)
	if created.field("outcome") != "created" || created.header.Get("ETag") == "" {
		t.Errorf("created: %s, ETag %s", created.text, created.header.Get("ETag"))
	}
	again := s.wants(http.StatusOK, "all", "PUT", "/v1/tasks/hello", hello)
	if again.field("outcome") != "unchanged" || again.header.Get("ETag") != created.header.Get("ETag") {
		t.Errorf("again: %s, ETag %s", again.text, again.header.Get("ETag"))
	}
	moved := s.wants(http.StatusOK, "all", "PUT", "/v1/tasks/hello", strings.Replace(hello, "2030", "2031", 1))
	if moved.field("outcome") != "rescheduled" || moved.header.Get("ETag") == created.header.Get("ETag") {
		t.Errorf("moved: %s, ETag %s", moved.text, moved.header.Get("ETag"))
	}
	got := s.wants(http.StatusOK, "all", "GET", "/v1/tasks/hello", "")
	for field, want := range map[string]string{
		"id": "hello", "status": "QUEUED", "scheduled_at": "2031-01-01T12:00:00Z", "expected_execution_time": "300",
		"scheduled_by": "svc", "type": "LOG", "payload": "map[message:hi type:LOG]",
	} {
		if got.field(field) != want {
			t.Errorf("%s is %q, want %q", field, got.field(field), want)
		}
	}
	if got.header.Get("ETag") != moved.header.Get("ETag") {
		t.Errorf("ETag %s, want %s", got.header.Get("ETag"), moved.header.Get("ETag"))
	}
}

// The store checks each field, and the answer names the field.
func TestInvalidTasksChangeNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, c := range map[string]struct {
		status     int
		body, says string
	}{
		"no JSON":           {400, `{"payload": `, "body: unexpected end of JSON input"},
		"two values":        {400, `{} {}`, "body: invalid character '{' after top-level value"},
		"an array":          {422, `[]`, "body: expected object"},
		"null":              {422, `null`, "body: expected object"},
		"no payload":        {422, `{}`, "body: expected required property payload to be present"},
		"a null payload":    {422, `{"payload": null}`, "body.payload: must not be null"},
		"an array payload":  {422, `{"payload": []}`, "body.payload: expected object"},
		"no type":           {422, `{"payload": {"n": 1}}`, "body.payload: expected required property type to be present"},
		"Type for type":     {422, `{"payload": {"Type": "LOG"}}`, "type"},
		"both":              {422, `{"payload": {"Type": "LOG", "type": "ö"}}`, "body.payload.type: expected length >= 2"},
		"a number as type":  {422, `{"payload": {"type": 1}}`, "body.payload.type: expected string"},
		"a type too short":  {422, `{"payload": {"type": "A"}}`, "body.payload.type: expected length >= 2"},
		"a type of spaces":  {422, `{"payload": {"type": "  "}}`, "type must be 2 to 127 letters, digits"},
		"an unknown field":  {422, `{"payload": {"type": "LOG"}, "due": "now"}`, "body.due: unexpected property"},
		"a priority":        {422, `{"payload": {"type": "LOG"}, "priority": 101}`, "body.priority: must be between -100 and 100"},
		"a queue":           {422, `{"payload": {"type": "LOG"}, "queue": "No Queue"}`, "body.queue: must be 1 to 64 of a-z, 0-9, inner"},
		"a time":            {422, `{"payload": {"type": "LOG"}, "scheduled_at": "soon"}`, "body.scheduled_at: expected a time such as"},
		"the zero time":     {422, `{"payload": {"type": "LOG"}, "scheduled_at": "0001-01-01T00:00:00Z"}`, "scheduled_at must be after 0001"},
		"NUL in an entity":  {422, `{"payload": {"type": "LOG"}, "entity": "a\u0000"}`, "entity must be at most 512 bytes of UTF-8"},
		"NUL in a payload":  {422, `{"payload": {"type": "LOG", "a": "\u0000"}}`, "payload must"},
		"a long entity":     {422, `{"payload": {"type": "LOG"}, "entity": "` + strings.Repeat("ö", 300) + `"}`, "entity must be at most 512 bytes"},
		"a large payload":   {422, `{"payload": {"type": "LOG", "a": "` + strings.Repeat("a", 256<<10) + `"}}`, "payload must"},
		"an expiration":     {422, `{"payload": {"type": "LOG"}, "expiration": 1e300}`, "body.expiration: must be between 1µs and 10 years, in seconds"},
		"a negative one":    {422, `{"payload": {"type": "LOG"}, "expiration": -1}`, "body.expiration: must be between 1µs"},
		"no cron":           {422, `{"payload": {"type": "LOG"}, "overlap": "skip"}`, "cron is missing"},
		"a cron":            {422, `{"payload": {"type": "LOG"}, "cron": "61 * * * *"}`, "cron"},
		"a zone":            {422, `{"payload": {"type": "LOG"}, "cron": "@daily", "time_zone": "Mars/Base"}`, "time_zone"},
		"an overlap":        {422, `{"payload": {"type": "LOG"}, "cron": "@daily", "overlap": "no"}`, "body.overlap: must be skip, allow or cancel_running"},
		"a text as seconds": {422, `{"payload": {"type": "LOG"}, "jitter": "5m"}`, "body.jitter: expected number"},
	} {
		s.run(name, func(s *service) {
			s.says(s.wants(c.status, "all", "PUT", "/v1/tasks/bad", c.body), c.says)
		})
	}
	s.absent("bad")
}

// Every id can be written in a path, if it is percent-encoded.
func TestIDsInPaths(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, id := range []string{
		"a/b", "a b", "a%2Fb", "ä€😀", "?", "#", "a?b=c&d", "bulk", "%", "+", "a..b", "{id}", strings.Repeat("i", 512), `"\'`,
		"Daily report of shop 7: Köln",
	} {
		s.run(id, func(s *service) {
			s.wants(201, "all", "PUT", pathOf(id), hello)
			if got := s.wants(200, "all", "GET", pathOf(id), ""); got.field("id") != id {
				t.Errorf("id %q, want %q", got.field("id"), id)
			}
			s.wants(200, "all", "POST", pathOf(id)+"/pause", "")
			if row := s.row(id); row.Status != store.StatusPaused {
				t.Errorf("status %s", row.Status)
			}
			s.wants(200, "all", "DELETE", pathOf(id), "")
		})
	}
	for path, says := range map[string]string{
		"/v1/tasks/":                            "no such path",
		"/v1/tasks//pause":                      "no such path",
		"/v1/tasks/.":                           "no such path",
		"/v1/tasks/../tasks/hello":              "no such path",
		"/v1/tasks/a/b":                         "no such path",
		"/v1/tasks/%00":                         "id must be at most 512 bytes of UTF-8 without control characters",
		"/v1/tasks/a%00b":                       "id must be at most 512 bytes of UTF-8 without control characters",
		"/v1/tasks/%FF":                         "id must be at most 512 bytes of UTF-8 without control characters",
		"/v1/tasks/a%0Ab":                       "id must be at most 512 bytes of UTF-8 without control characters",
		"/v1/tasks/" + strings.Repeat("i", 513): "path.id: expected length <= 512",
		"/v1/tasks/" + strings.Repeat("ö", 512): "id must be at most 512 bytes",
	} {
		s.says(s.call("all", "PUT", path, hello), says)
	}
	dots := s.wants(201, "all", "PUT", "/v1/tasks/%2E%2E", hello)
	if dots.field("id") != ".." {
		t.Errorf("id %q, want two dots", dots.field("id"))
	}
}

func TestPost(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.wants(201, "all", "POST", "/v1/tasks", hello)
	second := s.wants(201, "all", "POST", "/v1/tasks", hello)
	if len(first.field("id")) != 36 || first.field("id") == second.field("id") {
		t.Errorf("ids %q and %q, want two new ones", first.field("id"), second.field("id"))
	}
	s.hasLines(first.field("id"), "schedule created svc")
	s.refuses("all", "POST", "/v1/tasks", map[string]string{
		strings.Replace(hello, "{", `{"id": "a\u0000b", `, 1): "id must be at most 512 bytes",
	})
	named := strings.Replace(hello, "{", `{"id": "named", `, 1)
	s.wants(201, "all", "POST", "/v1/tasks", named)
	again := s.wants(200, "all", "POST", "/v1/tasks", named)
	if again.field("outcome") != "unchanged" || again.header.Get("ETag") == "" {
		t.Errorf("again: %s, ETag %s", again.text, again.header.Get("ETag"))
	}
	put := s.wants(200, "all", "PUT", "/v1/tasks/named", hello)
	if put.text != again.text {
		t.Errorf("PUT of the same answers %s, POST %s", put.text, again.text)
	}
}

// A field that is missing in a PUT gets its default. Only the time stays.
func TestPutSaysEverything(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const full = `{"payload": {"type": "LOG", "n": 12345678901234567890.5}, "scheduled_at": "2100-01-01T00:00:00Z",
		"priority": 7, "queue": "mail", "expiration": 0.25, "expected_execution_time": 7.5, "max_attempts": 9,
		"entity": "event:1", "tenant_id": "acme", "jitter": 1.5, "retention": 86400}`
	s.wants(201, "all", "PUT", "/v1/tasks/full", full)
	sameContent(t, "full", contentOf(s, "full"), `{"payload": {"type": "LOG", "n": 12345678901234567890.5},
		"scheduled_at": "2100-01-01T00:00:00Z", "priority": 7, "queue": "mail", "expiration": 0.25,
		"expected_execution_time": 7.5, "max_attempts": 9, "entity": "event:1", "tenant_id": "acme", "jitter": 1.5,
		"retention": 86400}`)
	s.wants(200, "all", "PUT", "/v1/tasks/full", `{"payload": {"type": "LOG"}}`)
	sameContent(t, "after", contentOf(s, "full"), `{"payload": {"type": "LOG"},
		"scheduled_at": "2100-01-01T00:00:00Z", "queue": "default", "expected_execution_time": 300, "max_attempts": 10}`)
}
