package api_test

import (
	"net/http"
	"strings"
	"testing"
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
