package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// answering calls in the background, and returns a channel of the answer.
func (s *service) answering(caller, method, path, body string, headers ...string) <-chan reply {
	answered := make(chan reply, 1)
	go func() { answered <- s.send(caller, method, path, body, headers...) }()
	return answered
}

// A call that waits answers when a handler has completed the task.
func TestWaitForATask(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	looks := s.pool.Stat().AcquireCount()
	answered := s.answering("all", "GET", "/v1/tasks/task?wait=1m", "")
	until(t, "the call has looked at the task twice", func() bool { return s.pool.Stat().AcquireCount() > looks+1 })
	select {
	case got := <-answered:
		t.Fatalf("answer %d %s before the task has ended", got.status, got.text)
	default:
	}
	s.runDue(nil, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	got := <-answered
	if got.status != 200 || got.field("status") != "COMPLETED" {
		t.Errorf("answer %d %s, want COMPLETED", got.status, got.text)
	}
	if tag := s.wants(200, "all", "GET", "/v1/tasks/task?wait=1m", "").header.Get("ETag"); tag != got.header.Get("ETag") {
		t.Errorf("ETag %s, later %s", got.header.Get("ETag"), tag)
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	began := time.Now()
	got := s.wants(200, "all", "GET", "/v1/tasks/task?wait=200ms", "")
	if took := time.Since(began); got.field("status") != "QUEUED" || took < 200*time.Millisecond {
		t.Errorf("%s after %v, want QUEUED after 200ms", got.text, took)
	}
	gone := s.answering("all", "GET", "/v1/tasks/task?wait=1m", "")
	s.exec(`SELECT tasktable.delete('task')`)
	if got := <-gone; got.status != 404 {
		t.Errorf("answer %d %s of a task that was deleted meanwhile", got.status, got.text)
	}
	s.says(s.wants(404, "all", "GET", "/v1/tasks/none?wait=1m", ""), "no such task")
}

func TestWaitValues(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusCompleted)
	for _, wait := range []string{"0", "0s", "1ns", "60s", "1m", "1m0s", "59.999s", "5", "0.5"} {
		s.wants(200, "all", "GET", "/v1/tasks/task?wait="+wait, "")
	}
	for _, wait := range []string{"-1s", "61s", "1m1ns", "1h", "61", "soon", "1e9s", "9999999999999999h", "NaN", "\x00", "٣s"} {
		got := s.wants(422, "all", "GET", "/v1/tasks/task?wait="+url.QueryEscape(wait), "")
		s.says(got, "wait must be from 0s to 1m, such as 30s")
	}
}

// A server has a ReadTimeout against slow clients. It must not end a call that has arrived and waits.
func TestWaitOutlastsReadTimeout(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	server := httptest.NewUnstartedServer(s.api.Handler())
	server.Config.ReadTimeout = time.Second
	server.Start()
	t.Cleanup(server.Close)
	s.url, s.client = server.URL, server.Client()
	if got := s.wants(200, "all", "GET", "/v1/tasks/task?wait=1500ms", ""); got.field("status") != "QUEUED" {
		t.Errorf("answer %s", got.text)
	}
}

// A call that waits ends with its client, and holds no connection of the pool.
func TestWaitEndsWithItsClient(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/tasks/task?wait=1m", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer all")
	ended := make(chan error, 1)
	go func() {
		response, err := s.client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		ended <- err
	}()
	acquired := s.pool.Stat().AcquireCount()
	until(t, "the call looks at the task", func() bool { return s.pool.Stat().AcquireCount() > acquired+1 })
	until(t, "the call holds no connection", func() bool { return s.pool.Stat().AcquiredConns() == 0 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call has an answer, want none")
	}
	until(t, "the log has the call", func() bool { return strings.Contains(s.log.String(), "status=499") })
}
