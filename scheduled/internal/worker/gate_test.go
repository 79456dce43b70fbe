package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/quiet"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestPartOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		due     int
		average time.Duration
		runs    int
		bytes   int
		limit   int
		want    int
	}{
		"all of a quick type":             {250, 10 * time.Microsecond, averageRuns, 100, maxGateAsks, 250},
		"a type that takes no time":       {250, 0, averageRuns, 100, maxGateAsks, 250},
		"what begins within the validity": {250, 50 * time.Millisecond, averageRuns, 100, maxGateAsks, 5},
		"a slow type":                     {250, time.Minute, averageRuns, 100, maxGateAsks, 1},
		"a type without a measure":        {250, 0, averageRuns - 1, 100, maxGateAsks, 1},
		"large payloads":                  {250, time.Microsecond, averageRuns, 250_000, maxGateAsks, 4},
		"large payloads and slow reads":   {250, time.Microsecond, averageRuns, 250_000, 1, 1},
		"slow reads":                      {250, time.Microsecond, averageRuns, 100, 7, 7},
	} {
		if got := partOf(test.due, average{test.average, test.runs, test.bytes}, test.limit); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// attemptOf is an attempt with an hour's time.
func attemptOf(claim taskdb.Claim, e *handlers.Execution, w *Worker) *attempt {
	end := time.Now().Add(time.Hour)
	return &attempt{
		job: &job{Worker: w}, run: &run{Claim: claim}, execution: e,
		lease: withLease(context.Background(), end, end, time.Time{}),
	}
}

// The gate that is asked again in the handler's transaction judges by the time at which it is asked, not by that at
// which the transaction began, and by what has become of the task since.
func TestGateAgain(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]struct{ sql, verdict string }{
		"nothing": {`SELECT`, ""},
		"expires": {`SELECT pg_sleep(extract(epoch FROM scheduled_at + expiration - clock_timestamp()) + 0.01)
			FROM tasktable.scheduled_tasks`, taskdb.VerdictExpired},
		"is cancelled":    {`SELECT tasktable.cancel('a')`, taskdb.VerdictEdited},
		"is moved":        {`SELECT tasktable.reschedule('a', now() + interval '1 hour')`, taskdb.VerdictEdited},
		"type is paused":  {`SELECT tasktable.pause_scope('type', 'JOB')`, taskdb.VerdictPaused},
		"queue is paused": {`SELECT tasktable.pause_scope('queue', 'default')`, taskdb.VerdictPaused},
		"other is paused": {`SELECT tasktable.pause_scope('queue', 'job'), tasktable.pause_scope('type', 'default'),
			tasktable.pause_scope('type', 'JOBS')`, ""},
		"pause is over": {`SELECT tasktable.pause_scope('all', until => clock_timestamp() + interval '1 millisecond'),
			pg_sleep(0.01)`, ""},
		"is taken back": {`UPDATE tasktable.scheduled_tasks SET fence = nextval('tasktable.task_numbers')`, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			task := store.Task{
				Payload: enginetest.Job{Name: "a"}, At: time.Now().Add(-time.Second), Expiration: time.Hour,
			}
			if meanwhile.verdict == taskdb.VerdictExpired {
				task.Expiration = 4 * time.Second
			}
			b.Schedule(task)
			h := b.Take(time.Now())["a"]
			db := stdlib.OpenDBFromPool(b.Pool)
			defer func() { _ = db.Close() }()
			one, err := b.Pool.Begin(t.Context())
			b.OK(err)
			defer func() { _ = one.Rollback(context.WithoutCancel(t.Context())) }()
			other, err := db.BeginTx(t.Context(), nil)
			b.OK(err)
			defer func() { _ = other.Rollback() }()
			b.Exec(meanwhile.sql)
			config := Config{Statements: b.Queries, Quiet: quiet.New()}
			for kind, tx := range map[string]pg.DB{"pgx": one, "sql": pg.SQLQuerier{DB: store.SQL(other)}} {
				asked := time.Now()
				var e handlers.Execution
				err := attemptOf(h, &e, &Worker{config: config, starting: t.Context()}).gateAgain(t.Context(), tx)
				var refused *refusal
				errors.As(err, &refused)
				switch {
				case err == nil && meanwhile.verdict == "":
					if early := asked.Sub(e.StartedAt); early > 100*time.Millisecond {
						t.Errorf("%s: started %s before it was asked", kind, early)
					}
				case refused == nil || refused.Verdict != meanwhile.verdict &&
					(refused.Verdict != "" || meanwhile.verdict != "none"):
					t.Errorf("%s: %v, want the verdict %q", kind, err, meanwhile.verdict)
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			w := &Worker{config: config, starting: t.Context()}
			err = attemptOf(h, &handlers.Execution{}, w).gateAgain(ended, one)
			if refused := new(refusal); !errors.As(err, &refused) || refused.Verdict != verdictNotReady {
				t.Errorf("with a context that has ended: %v", err)
			}
		})
	}
}

// slowFirst is a connection whose first answers take as long as the start allowance.
type slowFirst struct {
	pg.DB

	slow int // answers
}

func (s *slowFirst) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if s.slow--; s.slow >= 0 {
		if _, err := s.Exec(ctx, "SELECT pg_sleep(1)"); err != nil {
			return nil, err //nolint:wrapcheck // as below
		}
	}
	return s.DB.Query(ctx, sql, args...) //nolint:wrapcheck // it passes the query on
}

// slowUpdateSQL makes the first update of a task take as long as the start allowance.
const slowUpdateSQL = `
CREATE SEQUENCE updates;
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('updates') = 1 THEN
        PERFORM pg_sleep(1);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slow BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION slow()`

// The handler has all its time, however long the gate has taken to answer, or the extension of the lease, and however
// short the start allowance is.
func TestGateAgainKeepsTheHandlersTime(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]struct {
		answers int
		sql     string
	}{"slow answers": {3, "SELECT"}, "slow extension": {0, slowUpdateSQL}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			const expected = 20 * time.Second
			b.Schedule(store.Task{
				Payload: enginetest.Job{Name: "a"}, At: time.Now().Add(-time.Second), ExpectedExecutionTime: expected,
			})
			claim := b.Take(time.Now())["a"]
			b.Exec(`UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp() + interval '21 seconds'`)
			b.Exec(slow.sql)
			config := Config{Statements: b.Queries, EnginePool: b.Pool, Quiet: quiet.New(), StartAllowance: time.Second}
			lease := withLease(t.Context(), time.Now().Add(expected), time.Now().Add(expected+time.Second), time.Time{})
			defer lease.close()
			lease.expected = expected
			var e handlers.Execution
			a := attemptOf(claim, &e, &Worker{config: config, settling: t.Context(), starting: t.Context()})
			a.lease = lease
			b.OK(a.gateAgain(lease, &slowFirst{b.Pool, slow.answers}))
			row, err := enginetest.Tasks.Get(t.Context(), b.Pool, claim.ID)
			deadline, _ := lease.Deadline()
			if err != nil || row.LeaseExpiresAt.Before(e.StartedAt.Add(expected)) || time.Until(deadline) < expected {
				t.Errorf("it begins at %s, and its lease ends at %s, %v", e.StartedAt, row.LeaseExpiresAt, err)
			}
		})
	}
}

// checkHandBacks checks that hand-backs kept the tasks' due times, and that no task was handed back more than once a
// second.
func (s *bench) checkHandBacks(since time.Time) {
	s.T.Helper()
	const (
		movedSQL = `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE due_at <> scheduled_at`
		mostSQL  = `SELECT coalesce(max(n), 0)::int FROM (
			SELECT count(*) AS n FROM tasktable.scheduled_task_executions WHERE outcome = 'RELEASED'
				GROUP BY task_id) AS t`
	)
	if n := s.Count(movedSQL); n != 0 {
		s.T.Errorf("%d claims have a due time that is not the task's", n)
	}
	if n, most := s.Count(mostSQL), int(time.Since(since).Seconds())+1; n > most {
		s.T.Errorf("a task was handed back %d times, want %d at most", n, most)
	}
}

// A task that waited in vain for a connection stays as late as it is: its next claim has the same due time.
func TestHandBackForAPlaceKeepsTheDueTime(t *testing.T) {
	s := newBench(t)
	const n = 6
	let := make(chan struct{})
	s.node(func(c *Config) { c.Slots, c.Places = map[string]int{"default": n}, 1 },
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, _ *handlers.Task[enginetest.Job]) error {
			select {
			case <-let:
			case <-ctx.Done():
			}
			return ctx.Err()
		}))
	began := time.Now()
	for i := range n {
		s.Add(fmt.Sprint(i), nil)
	}
	s.Sees("a claim was handed back", `SELECT count(*) > 0 FROM tasktable.scheduled_task_executions
		WHERE outcome = 'RELEASED'`)
	s.Sees("the rest waits since it was due",
		`SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE coalesce(due_at, next_attempt_at) <> scheduled_at`)
	close(let)
	s.Sees("all have run", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
	s.checkHandBacks(began)
}

// A task whose handler gets no transaction keeps its due time as well, and is not claimed again without a pause.
func TestHandBackWithoutATransactionKeepsTheDueTime(t *testing.T) {
	s := newBench(t)
	s.node(nil,
		handlers.HandleTx(func(context.Context, pgx.Tx, *handlers.Task[enginetest.Job]) error { return nil }))
	s.txPool.Close() // each transaction is refused at once
	began := time.Now()
	for i := range 2 {
		s.Add(fmt.Sprint(i), func(task *store.Task) { task.At = began })
	}
	s.Sees("tasks were handed back three times", `SELECT count(*) = 2 FROM (
		SELECT task_id FROM tasktable.scheduled_task_executions WHERE outcome = 'RELEASED' GROUP BY task_id
			HAVING count(*) >= 3) AS t`)
	s.checkHandBacks(began)
	for i := range 2 { // a node that stops leaves a claim that nobody has fetched to the next
		s.Did(enginetest.Tasks.Cancel(t.Context(), s.Pool, fmt.Sprint(i)))
	}
	s.Sees("no claim is left", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks
		WHERE status <> 'CANCELLED' OR fence IS NOT NULL`)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	var trip roundTrip
	now := time.Now()
	for _, step := range []struct {
		what  string
		after time.Duration // since the answer before
		took  time.Duration
		valid time.Duration
	}{
		{"at first nobody knows", 0, 700 * time.Millisecond, gateValid},
		{"ten seconds, all of them slow: the link is slow", slowFor, 600 * time.Millisecond, 3 * 600 * time.Millisecond},
		{"still slow", slowFor - time.Second, 800 * time.Millisecond, 3 * 600 * time.Millisecond},
		{"another ten seconds", time.Second, 700 * time.Millisecond, 3 * 600 * time.Millisecond},
		{"as long as it is slow", time.Second, 2 * time.Second, 3 * 600 * time.Millisecond},
		{"the quickest counts", time.Second, 500 * time.Millisecond, 3 * 500 * time.Millisecond},
		{"and one quick answer ends it", time.Second, time.Millisecond, gateValid},
		{"slow again", time.Second, 700 * time.Millisecond, gateValid},
		{"the quick answer is in the ten seconds before", slowFor, 700 * time.Millisecond, gateValid},
		{"it is forgotten", slowFor, 700 * time.Millisecond, 3 * 700 * time.Millisecond},
		{"half of the validity is quick enough", time.Second, gateValid / 2, gateValid},
	} {
		now = now.Add(step.after)
		trip.took(step.took, now)
		if valid := trip.valid(); valid != step.valid {
			t.Errorf("%s: valid for %s, want %s", step.what, valid, step.valid)
		}
	}
}
