package scheduled

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// asideSQL gives a database another clock: functions of the same names, found before Postgres's own. No application
// can tell that from a server whose clock is off, nor from a clock of its own that is off. (A Go program's clock
// cannot be faked from outside: it asks the kernel directly, past any preloaded library.)
const asideSQL = `
CREATE SCHEMA aside;
CREATE FUNCTION aside.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
	SELECT pg_catalog.clock_timestamp() + interval '%[1]s' $$;
CREATE FUNCTION aside.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS $$
	SELECT pg_catalog.statement_timestamp() + interval '%[1]s' $$;
CREATE FUNCTION aside.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS $$
	SELECT pg_catalog.transaction_timestamp() + interval '%[1]s' $$;
CREATE FUNCTION aside.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT pg_catalog.now() + interval '%[1]s' $$;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET search_path = aside, pg_catalog, public',
current_database()); END $$`

func TestClocksAnHourApartChangeNothing(t *testing.T) {
	t.Parallel()
	for _, off := range []string{"1 hour", "-1 hour"} {
		t.Run(off, func(t *testing.T) {
			f := newBench(t)
			f.Exec(fmt.Sprintf(asideSQL, off))
			f.Pool.Reset() // connections made before have the true clock
			if apart := time.Since(f.Now()).Abs(); apart < 59*time.Minute {
				t.Fatalf("the clocks are %s apart", apart)
			}
			runByTheDatabasesClock(t, f)
		})
	}
}

func runByTheDatabasesClock(t *testing.T, f *bench) {
	limit := enginetest.Limits(t, f.Pool)
	now := func() time.Time { return enginetest.Ask[time.Time](f.Bench, `SELECT clock_timestamp()`) }
	v := newVisitor()
	failed := false
	stop := startNode(
		t, f.nodes, nil, handlers.Handle(v.handle),
		handlers.Handle(func(context.Context, *handlers.Task[quick]) error {
			if !failed {
				failed = true
				return handlers.RetryAfter(700*time.Millisecond, errors.New("once"))
			}
			return nil
		}),
	)
	begin := time.Now()
	running := enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: "now"}})
	execution := enginetest.Receive(t, v.began, patience, "what is due now runs")
	if took := time.Since(begin); took > limit(2*time.Second) {
		t.Errorf("what was due now began after %s", took)
	}
	if d := now().Sub(execution.StartedAt).Abs(); d > limit(5*time.Second) {
		t.Errorf("StartedAt is %s from the database's clock", d)
	}
	if jobs := f.Count(`SELECT count(*) FROM tasktable.river_job
		WHERE scheduled_at BETWEEN clock_timestamp() - interval '61 minutes'
			AND clock_timestamp() - interval '59 minutes'`); jobs != f.Count(
		`SELECT count(*) FROM tasktable.river_job`,
	) || jobs == 0 {
		t.Error("a River job's time is not by the database's clock")
	}
	f.Counts("the lease is not by the database's clock", 1, `SELECT count(*) FROM tasktable.scheduled_tasks
		WHERE lease_expires_at BETWEEN clock_timestamp() + interval '4 minutes'
			AND clock_timestamp() + interval '7 minutes'`)
	if _, err := enginetest.Tasks.Cancel(t.Context(), f.Pool, running.ID); err != nil {
		t.Fatal(err)
	}
	if cause := enginetest.Receive(
		t, v.ended, patience, "the cancelled handler's context ends",
	); !errors.Is(cause, handlers.ErrCancelled) {
		t.Errorf("cause %v", cause)
	}

	soon := enginetest.Schedule(t, f.Pool, store.Task{
		Payload: enginetest.Job{Name: "soon"}, At: now().Add(1500 * time.Millisecond),
	})
	late := enginetest.Schedule(t, f.Pool, store.Task{
		Payload: enginetest.Job{Name: "late"}, At: now().Add(-time.Minute), Expiration: 30 * time.Second,
	})
	later := enginetest.Schedule(t, f.Pool, store.Task{
		Payload: enginetest.Job{Name: "later"}, At: now().Add(30 * time.Minute),
	})
	retried := enginetest.Schedule(t, f.Pool, store.Task{Payload: quick{Name: "retried"}, Expiration: 20 * time.Second})
	ran := enginetest.Receive(t, v.began, patience, "what is due soon runs")
	lag := ran.StartedAt.Sub(ran.ScheduledAt)
	t.Logf("%s began %s after its time", ran.ID, lag)
	if ran.ID != soon.ID || lag < 0 || lag > limit(time.Second) {
		t.Errorf("%s began %s after its time", ran.ID, lag)
	}
	enginetest.Await(t, f.Pool, late.ID, patience, store.StatusExpired)
	enginetest.Await(t, f.Pool, retried.ID, patience, store.StatusCompleted)
	f.Never("an attempt began before its time", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE started_at < due_at`)
	if row := enginetest.Await(t, f.Pool, later.ID, patience, store.StatusQueued); row.Attempt != 0 ||
		len(v.began) != 0 {
		t.Error("what is due in half an hour has begun")
	}
	close(v.let)
	enginetest.Await(t, f.Pool, soon.ID, patience, store.StatusCompleted)
	stop()
}
