package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
)

// waitLimit is reached only if something hangs.
const waitLimit = time.Minute

// pathOf returns the path of a task.
func pathOf(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

// base is the content of the tasks that make inserts.
const base = `{"payload": {"type": "TEST", "n": 1}, "scheduled_at": "2100-01-01T00:00:00Z", "entity": "event:1"}`

// make inserts a task and brings it to a status, as the engine's statements do.
func (s *service) make(id string, status store.Status) {
	s.Helper()
	s.wants(201, "all", "PUT", pathOf(id), base)
	s.bring(id, status)
}

// bring brings a queued task to a status, as the engine's statements do.
func (s *service) bring(id string, status store.Status) {
	s.Helper()
	const claim = `UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', next_attempt_at = NULL,
		fence = nextval('tasktable.task_numbers'), lease_expires_at = clock_timestamp() + interval '1 hour',
		attempt = attempt + 1, started_at = clock_timestamp() WHERE id = $1`
	const end = `UPDATE tasktable.scheduled_tasks SET status = $2::text, fence = NULL, lease_expires_at = NULL,
		finished_at = clock_timestamp(), last_status_update = clock_timestamp(), message = 'it was so',
		result = '{"r": 12345678901234567890}' WHERE id = $1`
	switch status {
	case store.StatusQueued:
	case store.StatusPaused:
		s.wants(200, "all", "POST", pathOf(id)+"/pause", "")
	case store.StatusExecuting:
		s.asEngine(claim, id)
	default:
		s.asEngine(claim, id)
		s.asEngine(end, id, string(status))
	}
}

// asEngine runs a statement whose changes of a status count as the engine's own.
func (s *service) asEngine(sql string, args ...any) {
	s.Helper()
	err := pgx.BeginFunc(s.Context(), s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(s.Context(), `SELECT set_config('tasktable_change.context', 'engine', true)`); err != nil {
			return err
		}
		_, err := tx.Exec(s.Context(), sql, args...)
		return err
	})
	if err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// absent fails the test if there is a task of the id.
func (s *service) absent(id string) {
	s.Helper()
	if _, err := store.New(store.Config{}).Get(s.Context(), s.pool, id); !errors.Is(err, store.ErrNotFound) {
		s.Errorf("task %s: error %v, want that there is no such task", id, err)
	}
}

// lines returns the recorded changes of a task as "verb outcome by".
func (s *service) lines(id string) []string {
	s.Helper()
	history, err := store.New(store.Config{}).History(s.Context(), s.pool, id)
	if err != nil {
		s.Fatal(err)
	}
	lines := []string{}
	for _, change := range history.Changes {
		lines = append(lines, change.Verb+" "+change.Outcome+" "+change.ChangedBy)
	}
	return lines
}

// hasLines compares the recorded changes of a task.
func (s *service) hasLines(id string, want ...string) {
	s.Helper()
	if got := s.lines(id); !slices.Equal(got, want) {
		s.Errorf("changes of %s: %q, want %q", id, got, want)
	}
}

// value returns the single value of a query.
func value[T any](s *service, sql string, args ...any) T {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), sql, args...)
	if err != nil {
		s.Fatal(err)
	}
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return got
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited too long until %s", what)
		case <-again.C:
		}
	}
}

// untilWaiting waits until so many sessions of the test's database wait for a lock.
func (s *service) untilWaiting(sessions int64) {
	s.Helper()
	until(s.T, "a call waits for a lock", func() bool {
		return value[int64](s, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) >= sessions
	})
}

// runDue runs the tasks that are due at each of the times. Their handler returns the result.
func (s *service) runDue(result error, times ...time.Time) {
	s.Helper()
	registry, err := handlers.NewRegistry(handlers.Func("TEST", func(context.Context) error { return result }))
	if err != nil {
		s.Fatal(err)
	}
	err = pgx.BeginFunc(s.Context(), s.pool, func(tx pgx.Tx) error {
		harness := scheduledtest.New(s.T, tx, registry)
		for _, at := range times {
			harness.RunDueAt(s.Context(), at)
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

// liveNode registers a node, which lives until the test ends, and returns its number.
func (s *service) liveNode(service string) (number int64) {
	s.Helper()
	conn, err := s.pool.Acquire(s.Context()) // its session holds the lock by which a node is known to live
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(conn.Release)
	number = value[int64](s, `INSERT INTO tasktable.nodes (service, version, host, queues, types)
		VALUES ($1, 'v1', 'host/1', '{"default": 10}', '{LOG}') RETURNING number`, service)
	if _, err := conn.Exec(s.Context(), `SELECT pg_advisory_lock((class - CASE WHEN class >= 2147483648 THEN 4294967296
		ELSE 0 END)::int, $1::int) FROM tasktable.lock_class('node') AS class`, number); err != nil {
		s.Fatal(err)
	}
	return number
}

// holding runs do while another transaction has the row of a task locked.
func (s *service) holding(id string, do func(tx pgx.Tx)) {
	s.Helper()
	err := pgx.BeginFunc(s.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(s.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id = $1 FOR UPDATE`, id)
		if err == nil {
			do(tx)
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

// everything returns the state of the tables that calls change, as one text.
func (s *service) everything() string {
	s.Helper()
	return value[string](s, `SELECT concat_ws(E'\n',
		(SELECT jsonb_agg(to_jsonb(t) ORDER BY t.id) FROM tasktable.scheduled_tasks AS t),
		(SELECT count(*) FROM tasktable.scheduled_task_changes),
		(SELECT jsonb_agg(to_jsonb(p)) FROM tasktable.pauses AS p),
		(SELECT count(*) FROM tasktable.api_answers))`)
}

// hasNotChanged compares everything with what it was before.
func (s *service) hasNotChanged(before string) {
	s.Helper()
	if now := s.everything(); now != before {
		s.Errorf("the database changed from\n%s\nto\n%s", before, now)
	}
}

// refuses calls with each body. The answer is 422 and says the text, and nothing changes.
func (s *service) refuses(caller, method, path string, says map[string]string) {
	s.Helper()
	before := s.everything()
	for body, text := range says {
		s.says(s.wants(422, caller, method, path, body), text)
	}
	s.hasNotChanged(before)
}

// refusesQueries reads with each query. The answer is 422 and says the text.
func (s *service) refusesQueries(caller, path string, says map[string]string) {
	s.Helper()
	for query, text := range says {
		s.says(s.wants(422, caller, "GET", path+"?"+query, ""), text)
	}
}

// says fails the test unless the answer is a problem that has the text in its detail or in one of its errors.
func (s *service) says(got reply, text string) {
	s.Helper()
	var refused api.Problem
	got.json(s.T, &refused)
	all := refused.Detail
	for _, one := range refused.Errors {
		all += "\n" + one.Location + ": " + one.Message
	}
	if refused.Status != got.status || got.header.Get("Content-Type") != "application/problem+json" {
		s.Errorf("%d %s %s: not a problem of that status", got.status, got.header.Get("Content-Type"), got.text)
	}
	status, again := api.CodeMeans(api.Code(got.field("code")))
	if status != got.status || again != (got.header.Get("Retry-After") != "") {
		s.Errorf("the code %q is of the status %d, and repeated: %t; answer %d %s, Retry-After %q", got.field("code"),
			status, again, got.status, got.text, got.header.Get("Retry-After"))
	}
	if text == "" || !strings.Contains(all, text) {
		s.Errorf("answer %d %s does not say %q", got.status, got.text, text)
	}
}

// run runs a subtest on the same service.
func (s *service) run(name string, do func(*service)) {
	s.Helper()
	s.Run(name, func(t *testing.T) {
		sub := *s
		sub.T = t
		do(&sub)
	})
}

// contentFields are the fields of a task that a caller chooses.
var contentFields = strings.Fields(`payload scheduled_at priority queue expiration expected_execution_time max_attempts
	entity tenant_id jitter retention cron time_zone overlap catch_up catch_up_paused catch_up_limit ends_at
	max_occurrences if_dead`)

// contentOf returns the content of a task, of which every number is as the API wrote it.
func contentOf(s *service, id string) string {
	s.Helper()
	var all, content = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	s.wants(200, "all", "GET", pathOf(id), "").json(s.T, &all)
	for _, name := range contentFields {
		if field, found := all[name]; found {
			content[name] = field
		}
	}
	text, err := json.Marshal(content)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// sameContent compares two JSON values. Numbers must have the same digits.
func sameContent(t *testing.T, what, got, want string) {
	t.Helper()
	var values [2]any
	for i, text := range []string{got, want} {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&values[i]); err != nil {
			t.Fatalf("%s: %s: %v", what, text, err)
		}
	}
	if !reflect.DeepEqual(values[0], values[1]) {
		t.Errorf("%s: got  %s\nwant %s", what, got, want)
	}
}
