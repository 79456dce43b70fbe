package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// following is a client of /v1/events.
type following struct {
	*service

	lines  *bufio.Scanner
	lastID string
	end    func()
}

func (s *service) follow(caller, lastID string) *following {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), enginetest.Patience)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/events", http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+caller)
	if lastID != "" {
		request.Header.Set("Last-Event-Id", lastID)
	}
	response, err := s.client.Do(request) //nolint:bodyclose // end closes it
	if err != nil {
		s.Fatal(err)
	}
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
		s.Fatalf("answer %d, %s", response.StatusCode, got)
	}
	f := &following{service: s, lines: bufio.NewScanner(response.Body), lastID: lastID}
	f.end = func() { cancel(); _ = response.Body.Close() }
	s.Cleanup(f.end)
	return f
}

// next returns the next event.
func (f *following) next() api.Event {
	f.Helper()
	var event api.Event
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch {
		case name == "id":
			f.lastID = value
		case name == "data":
			if err := json.Unmarshal([]byte(value), &event); err != nil {
				f.Fatal(err)
			}
		case name == "" && event.Kind != "":
			return event
		}
	}
	f.Fatalf("the stream ended: %v", f.lines.Err())
	return event
}

// changeOf waits for a change of a task.
func (f *following) changeOf(id string) api.Change {
	f.Helper()
	for {
		if event := f.next(); event.Change != nil && event.Change.TaskID == id {
			return *event.Change
		}
	}
}

// nextIsOf fails the test unless the next event is a change of a task.
func (f *following) nextIsOf(id string) {
	f.Helper()
	if event := f.next(); event.Change == nil || event.Change.TaskID != id {
		f.Fatalf("the next event is %+v, want a change of %s", event, id)
	}
}

func (s *service) schedule(ctx context.Context, db store.DB, id string) {
	s.Helper()
	task := store.Task{ID: id, Payload: store.JSON(`{"type": "LOG"}`), At: time.Now().Add(time.Hour)}
	if _, err := store.New(store.Config{Service: "svc"}).Schedule(ctx, db, task); err != nil {
		s.Fatal(err)
	}
}

// A transaction that commits late is not skipped, although lines with higher numbers were sent before. This holds for a
// client that stays, and for one that comes back.
func TestEventsOfALateCommit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.schedule(t.Context(), s.pool, "before")
	stays, leaves := s.follow("all", ""), s.follow("all", "")
	late, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Rollback(context.WithoutCancel(t.Context())) }()
	inner, err := late.Begin(t.Context()) // a savepoint has a transaction id of its own
	if err != nil {
		t.Fatal(err)
	}
	s.schedule(t.Context(), inner, "late")
	if err := inner.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.schedule(t.Context(), s.pool, "early")
	early := stays.changeOf("early")
	leaves.changeOf("early")
	leaves.end()
	s.schedule(t.Context(), s.pool, "next")
	stays.changeOf("next") // the stream has read after "early" and before the commit
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := stays.changeOf("late"); got.Revision >= early.Revision || got.Verb != "schedule" {
		t.Errorf("the late change is %+v, after revision %d", got, early.Revision)
	}
	back := s.follow("all", leaves.lastID)
	seen := map[string]bool{}
	for !seen["late"] || !seen["next"] {
		if event := back.next(); event.Change != nil {
			seen[event.Change.TaskID] = true
		}
	}
}

func TestEventsSayWhatHappened(t *testing.T) {
	t.Parallel()
	s := newService(t)
	f := s.follow("all", "")
	s.schedule(t.Context(), s.pool, "a")
	s.exec(`INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at,
		finished_at, outcome, error) VALUES (7000, 'a', 'LOG', 1, 1, now(), clock_timestamp(), 'FAILED', 'broken')`)
	s.wants(http.StatusOK, "all", "POST", "/v1/tasks/a/cancel", "")
	var got []string
	for len(got) < 3 {
		switch event := f.next(); {
		case event.Change != nil:
			got = append(got, event.Change.Verb+" "+event.Change.Outcome)
		case event.Execution != nil:
			got = append(got, string(event.Execution.Outcome)+" "+*event.Execution.Error)
		}
	}
	if want := "schedule created, FAILED broken, cancel cancelled"; strings.Join(got, ", ") != want {
		t.Errorf("events %q, want %s", got, want)
	}
}

func TestEventsFromAWrongID(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, id := range []string{
		"x", "1-1", "2-1", "1.2.3", "-1", "1--2", "1.-2", "99999999999999999999", "01", "1.0", "0",
		"9000000000000000000",          // of another server
		strings.Repeat("1-", 40) + "1", // of more open transactions than an id has
	} {
		s.wants(http.StatusUnprocessableEntity, "all", "GET", "/v1/events", "", "Last-Event-Id", id)
	}
	s.wants(http.StatusForbidden, "scheduler", "GET", "/v1/events", "")
}

// A client that breaks off in the middle of a backlog misses nothing of the rest, and gets nothing twice.
func TestEventsFromTheMiddle(t *testing.T) {
	t.Parallel()
	s := newService(t)
	begin := s.follow("all", "")
	for _, id := range []string{"a", "b", "c"} { // a transaction each
		s.schedule(t.Context(), s.pool, id)
	}
	begin.changeOf("a")
	begin.end()
	again := s.follow("all", begin.lastID)
	again.nextIsOf("b")
	again.end()
	s.follow("all", again.lastID).nextIsOf("c")
}

// Transactions that write at the same time and commit in any order lose no event, and no event comes twice, wherever
// the client breaks off. A transaction of somebody else that stays open holds up nothing.
func TestEventsOfTransactionsAtOnce(t *testing.T) {
	t.Parallel()
	const writers, each = 6, 8
	s := newService(t)
	s.exec(`CREATE TABLE foreign_work (n int)`)
	open, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := open.Exec(t.Context(), `INSERT INTO foreign_work VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	f := s.follow("all", "")
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range each {
				tx, err := s.pool.Begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for line := range 1 + (w+n)%3 {
					s.schedule(t.Context(), tx, fmt.Sprint(w, "/", n, "/", line))
				}
				if _, err = tx.Exec(t.Context(), `SELECT pg_sleep(random() / 4)`); err == nil {
					err = tx.Commit(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	want := 0
	for w := range writers {
		for n := range each {
			want += 1 + (w+n)%3
		}
	}
	seen := map[string]bool{}
	for len(seen) < want {
		id := f.next().Change.TaskID
		if seen[id] {
			t.Errorf("%s comes twice", id)
		}
		if seen[id] = true; len(seen)%7 == 0 {
			f.end()
			f = s.follow("all", f.lastID)
		}
	}
	group.Wait()
	s.schedule(t.Context(), s.pool, "last")
	f.nextIsOf("last")
}

// The pages of a large transaction have each line once, in the order of the numbers, although another transaction has
// drawn numbers between them, and although nobody has drawn most numbers before its last lines.
func TestEventsOfALargeTransaction(t *testing.T) {
	t.Parallel()
	const lines, sparse = 12000, 300
	s := newService(t)
	f := s.follow("all", "")
	s.exec(`INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by)
		SELECT 1000 + 2 * n, 'other', 'schedule', 'created', 'svc' FROM generate_series(1, 3000) AS n`)
	s.exec(`WITH changes AS (
			INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by)
			SELECT 1001 + 2 * n + CASE WHEN n > $1 THEN 100000 * (n - $1) ELSE 0 END, 'large', 'schedule', 'created', 'svc'
			FROM generate_series(1, $1::int + $2::int) AS n WHERE n % 3 > 0)
		INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, finished_at,
			outcome)
		SELECT 1001 + 2 * n + CASE WHEN n > $1 THEN 100000 * (n - $1) ELSE 0 END, 'large', 'LOG', 1, 1, now(), now(),
			'COMPLETED'
		FROM generate_series(1, $1::int + $2::int) AS n WHERE n % 3 = 0`, lines, sparse)
	for n := 1; n <= lines+sparse; {
		var number int64
		switch event := f.next(); {
		case event.Change != nil && event.Change.TaskID == "large":
			number = event.Change.Revision
		case event.Execution != nil:
			number = event.Execution.Fence
		default:
			continue
		}
		want := 1001 + 2*int64(n) + 100000*max(int64(n-lines), 0)
		if number != want {
			t.Fatalf("line %d has the number %d, want %d", n, number, want)
		}
		if n++; n == 7000 {
			f.end()
			f = s.follow("all", f.lastID)
		}
	}
	s.schedule(t.Context(), s.pool, "last")
	f.nextIsOf("last")
}

// Lines that a dump has brought from another server have its transaction ids. They are no events when this server comes
// to these ids.
func TestEventsOfADump(t *testing.T) {
	t.Parallel()
	s := newService(t)
	f := s.follow("all", "")
	s.exec(`INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, tx)
		SELECT 8000 + n, 'restored', 'schedule', 'created', 'svc', txid_current() + n FROM generate_series(1, 50) AS n`)
	for n := range 100 {
		s.schedule(t.Context(), s.pool, fmt.Sprint(n))
	}
	for n := range 100 {
		f.nextIsOf(fmt.Sprint(n))
	}
}

// One caller does not take all streams.
func TestStreamsOfOneCaller(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var open []*following
	for range 10 {
		open = append(open, s.follow("reader", ""))
	}
	refused := s.wants(http.StatusTooManyRequests, "reader", "GET", "/v1/events", "")
	if refused.header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	s.follow("all", "")
	open[0].end()
	until(t, "a stream is free again", func() bool {
		return s.call("reader", "GET", "/v1/events", "").status == http.StatusOK
	})
}
