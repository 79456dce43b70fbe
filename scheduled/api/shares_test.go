package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

// unread is a body that nobody may read.
type unread struct{ read atomic.Bool }

func (b *unread) Read([]byte) (int, error) {
	b.read.Store(true)
	return 0, errors.New("the body was read")
}

// Bodies of strangers, and of callers who may not call, take no memory.
func TestBodiesAreReadOfCallersAlone(t *testing.T) {
	t.Parallel()
	s := newService(t)
	post := func(caller string) int {
		body := &unread{}
		request := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/tasks", body)
		request.ContentLength = api.MaxBodyBytes
		answer := s.serve(caller, request)
		if body.read.Load() != (caller == "all") {
			t.Errorf("as %q: answer %d, body read: %v", caller, answer.Code, body.read.Load())
		}
		return answer.Code
	}
	for caller, want := range map[string]int{"": 401, "stranger": 401, "reader": 403, "all": 400} {
		if got := post(caller); got != want {
			t.Errorf("as %q: answer %d, want %d", caller, got, want)
		}
	}
	got := 403 // until the caller is above its rate
	for tries := 0; got == 403 && tries < 1000; tries++ {
		got = post("slow")
	}
	if got != 429 {
		t.Errorf("above its rate: answer %d", got)
	}
}

// One caller does not fill the memory with bodies that arrive slowly.
func TestBodiesOfOneCaller(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan bool, 8), make(chan bool, 8)
	post := func(caller string, body io.Reader) int {
		request := httptest.NewRequestWithContext(ctx, "POST", "/v1/tasks", body)
		request.ContentLength = api.MaxBodyBytes
		return s.serve(caller, request).Code
	}
	for range 8 {
		go func() {
			post("all", slowBody{begun, ctx.Done()})
			ended <- true
		}()
	}
	for range 8 {
		<-begun
	}
	body := &unread{}
	if got := post("all", body); got != 429 || body.read.Load() {
		t.Errorf("a ninth body of 1 MiB: answer %d, read: %v", got, body.read.Load())
	}
	s.wants(201, "scheduler", "POST", "/v1/tasks", hello)
	cancel()
	for range 8 {
		<-ended
	}
	s.wants(201, "all", "POST", "/v1/tasks", hello)
}

// slowBody says that it is read, and then gives nothing until the end.
type slowBody struct {
	begun chan<- bool
	end   <-chan struct{}
}

func (b slowBody) Read([]byte) (int, error) {
	b.begun <- true
	<-b.end
	return 0, io.ErrUnexpectedEOF
}

// A caller that reads a lot at once waits for itself, and not others for it.
func TestReadsOfOneCaller(t *testing.T) {
	t.Parallel()
	s := newService(t)
	lock, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lock.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_tasks`); err != nil {
		t.Fatal(err)
	}
	var under []<-chan reply
	for range 4 {
		under = append(under, s.answering("reader", "GET", "/v1/tasks", ""))
	}
	until(t, "four calls wait for the lock", func() bool { return s.pool.Stat().AcquiredConns() == 5 })
	refused := s.wants(429, "reader", "GET", "/v1/tasks", "")
	s.says(refused, "one key may have 4 calls under way at once")
	if refused.header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	under = append(under, s.answering("all", "GET", "/v1/tasks", ""))
	until(t, "a call of another caller waits for the lock", func() bool { return s.pool.Stat().AcquiredConns() == 6 })
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, answered := range under {
		if got := <-answered; got.status != 200 {
			t.Errorf("answer %d %s", got.status, got.text)
		}
	}
	s.wants(200, "reader", "GET", "/v1/tasks", "")
}

// A caller whose calls wait for a lock does not take the connections of the others' calls.
func TestChangesOfOneCaller(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	lock, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lock.Exec(t.Context(), `SELECT FROM tasktable.scheduled_tasks FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	under := []<-chan reply{
		s.answering("all", "PATCH", "/v1/tasks/task", `{"priority": 1}`), // it has a body
		s.answering("all", "POST", "/v1/tasks/task/pause", ""),
		s.answering("all", "POST", "/v1/tasks/task/run-now", ""),
		s.answering("all", "DELETE", "/v1/tasks/task", ""),
	}
	until(t, "four calls wait for the lock", func() bool { return s.pool.Stat().AcquiredConns() == 5 })
	for path, body := range map[string]string{"/v1/tasks/task/resume": "", "/v1/tasks": hello} {
		refused := s.wants(429, "all", "POST", path, body)
		s.says(refused, "one key may have 4 calls under way at once")
	}
	s.wants(201, "scheduler", "POST", "/v1/tasks", hello)
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, answered := range under {
		if got := <-answered; got.status >= 500 || got.status == 429 {
			t.Errorf("answer %d %s", got.status, got.text)
		}
	}
	s.wants(201, "all", "POST", "/v1/tasks", hello)
}

// One caller does not take all calls that wait, and many of them cost the database as much as one.
func TestWaitsOfOneCaller(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.make("task", store.StatusQueued)
	answers := make(chan reply, 11)
	for range cap(answers) {
		go func() { answers <- s.send("reader", "GET", "/v1/tasks/task?wait=1m", "") }()
	}
	got := <-answers // the others wait
	if got.status != 429 || got.header.Get("Retry-After") == "" {
		t.Fatalf("answer %d %s", got.status, got.text)
	}
	s.says(got, "one key may have 10 calls with wait under way at once")
	s.wants(200, "reader", "GET", "/v1/tasks/task", "") // without wait
	s.wants(200, "all", "GET", "/v1/tasks/task?wait=1ms", "")

	began, before := time.Now(), s.pool.Stat().AcquireCount()
	until(t, "they have looked often", func() bool { return s.pool.Stat().AcquireCount() >= before+15 })
	looks, took := s.pool.Stat().AcquireCount()-before, time.Since(began)
	if most := int64(took/(200*time.Millisecond)) + 12; looks > most { // some have just begun
		t.Errorf("ten calls have looked %d times in %s, want %d at most", looks, took, most)
	}
	s.exec(`SELECT tasktable.cancel('task')`)
	for range cap(answers) - 1 {
		if got := <-answers; got.status != 200 || got.field("status") != "CANCELLED" {
			t.Errorf("answer %d %s", got.status, got.text)
		}
	}
}

// A key that is revoked ends the calls of its caller that take long.
func TestRevokedWhileItWaits(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	s := newService(t, func(config *api.Config) {
		known := config.Authenticate
		config.Authenticate = func(r *http.Request) (api.Caller, error) {
			if revoked.Load() {
				return api.Caller{}, api.ErrUnauthenticated
			}
			return known(r)
		}
	})
	s.make("task", store.StatusQueued)
	waits := s.answering("all", "GET", "/v1/tasks/task?wait=1m", "")
	stream := s.follow("all", "")
	s.schedule(t.Context(), s.pool, "first")
	stream.changeOf("first")
	began := time.Now()
	revoked.Store(true)
	if got := <-waits; got.status != 401 {
		t.Errorf("the call that waits: answer %d %s", got.status, got.text)
	}
	for stream.lines.Scan() {
		continue
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stream ended after %s", took)
	}
}

// large schedules tasks with payloads of a quarter of a MiB, whose ids are in the order of their times.
func (s *service) large(count int) {
	s.Helper()
	s.exec(fmt.Sprintf(`SELECT tasktable.schedule(jsonb_build_object('type', 'LOG', 'text', repeat('&', 262000)),
		id => 'large-' || lpad(n::text, 3, '0'), scheduled_at => now() + interval '1 day' + n * interval '1 second')
		FROM generate_series(1, %d) AS n`, count))
}

// editLargely gives a task so many payloads of a quarter of a MiB, one after the other.
func (s *service) editLargely(id string, times int) {
	s.Helper()
	for i := range times {
		s.exec(`SELECT tasktable.schedule(jsonb_build_object('type', 'LOG', 'n', $2::int, 'text', repeat('&', 260000)),
			id => $1, scheduled_at => now() + interval '1 day')`, id, i)
	}
}

const mostAnswer = 5 << 20

// An answer has a bound, however large the payloads are.
func TestListsOfLargeTasks(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.large(60)
	var seen []string
	for cursor := ""; ; {
		got := s.wants(200, "all", "GET", "/v1/tasks?limit=1000"+cursor, "")
		var page api.TaskPage
		if got.json(t, &page); len(got.text) > mostAnswer || len(page.Tasks) == 0 {
			t.Fatalf("%d tasks in %d bytes", len(page.Tasks), len(got.text))
		}
		for _, task := range page.Tasks {
			seen = append(seen, task.ID)
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	for i := range 60 {
		if want := fmt.Sprintf("large-%03d", i+1); len(seen) != 60 || seen[i] != want {
			t.Fatalf("the pages have %d tasks, %v", len(seen), seen)
		}
	}
	// The tasks of the first page are larger than an answer, and are not read.
	var second api.TaskPage
	s.wants(200, "all", "GET", "/v1/tasks?limit=30&page=2", "").json(t, &second)
	if len(second.Tasks) < 10 || second.Tasks[0].ID != "large-031" || second.NextCursor == "" {
		t.Errorf("the second page has %d tasks", len(second.Tasks))
	}
	var none api.TaskPage
	s.wants(200, "all", "GET", "/v1/tasks?limit=30&page=3", "").json(t, &none)
	if len(none.Tasks) != 0 || none.NextCursor != "" {
		t.Errorf("the page after the last has %d tasks", len(none.Tasks))
	}
}

// The history of a task with many large payloads is shortened. The latest changes are told.
func TestChangesOfALargeTask(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.editLargely("a", 20)
	got := s.wants(200, "all", "GET", "/v1/tasks/a/changes?limit=1000", "")
	var history api.Changes
	if got.json(t, &history); !history.Shortened || len(got.text) > mostAnswer || len(history.Changes) < 5 {
		t.Fatalf("%d changes in %d bytes, shortened: %v", len(history.Changes), len(got.text), history.Shortened)
	}
	latest := history.Changes[len(history.Changes)-1]
	if latest.Revision != s.row("a").Revision {
		t.Errorf("the last change has the revision %d, the task %d", latest.Revision, s.row("a").Revision)
	}
	story := s.wants(200, "all", "GET", "/v1/tasks/a/why", "")
	if len(story.text) > 1<<20 || strings.Count(story.text, `"payload.md5"`) < 19 {
		t.Errorf("the story has %d bytes", len(story.text))
	}
	s.wants(422, "all", "GET", "/v1/tasks/a/changes?limit=1001", "")
	s.wants(422, "all", "GET", "/v1/tasks/a/executions?limit=1001", "")
}

// A stream sends large events in small pages, each once and in order.
func TestEventsOfLargeTasks(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.schedule(t.Context(), s.pool, "before")
	f := s.follow("all", "")
	s.editLargely("a", 20)
	f.lines.Buffer(nil, 2<<20)
	var last int64
	for range 20 {
		change := f.changeOf("a")
		if change.Revision <= last {
			t.Errorf("revision %d after %d", change.Revision, last)
		}
		last = change.Revision
	}
}

// A place that is very far back is refused, because each page from there would read all of the history again.
func TestEventsFromFarBack(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.wants(200, "all", "GET", "/v1/events", "", "Last-Event-Id", "1") // the history is short
	s.exec(`INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at,
		finished_at, outcome) SELECT n, 'a', 'LOG', 1, 1, now(), now() - interval '1 day', 'COMPLETED'
		FROM generate_series(1000000, 1100000) AS n`)
	got := s.wants(422, "all", "GET", "/v1/events", "", "Last-Event-Id", "1")
	s.says(got, "Last-Event-ID is more than 100000 events old")
	var now string
	if err := s.pool.QueryRow(t.Context(), `SELECT txid_current()::text`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	s.wants(200, "all", "GET", "/v1/events", "", "Last-Event-Id", now)
	if text := s.log.String(); strings.Contains(text, "status=500") {
		t.Error(text)
	}
}
