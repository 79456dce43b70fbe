package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestLeaseContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx := withLease(t.Context(), begin.Add(time.Minute), begin.Add(time.Hour), time.Time{})
		defer ctx.close()
		if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(begin.Add(time.Minute)) {
			t.Errorf("deadline %s, %t", deadline, ok)
		}
		time.Sleep(59 * time.Second)
		ctx.extend(begin.Add(2*time.Minute), begin.Add(2*time.Hour))
		ctx.extend(begin.Add(time.Minute), begin) // never earlier
		if end := ctx.leaseEnd(); !end.Equal(begin.Add(2 * time.Hour)) {
			t.Errorf("the lease ends at %s", end)
		}
		time.Sleep(60 * time.Second)
		if ctx.Err() != nil || context.Cause(ctx) != nil {
			t.Errorf("ended after %s: %v", time.Since(begin), context.Cause(ctx))
		}
		if deadline, _ := ctx.Deadline(); !deadline.Equal(begin.Add(2 * time.Minute)) {
			t.Errorf("deadline %s", deadline)
		}
		<-ctx.Done()
		if took := time.Since(begin); took != 2*time.Minute || !errors.Is(context.Cause(ctx), handlers.ErrDeadline) {
			t.Errorf("ended after %s: %v", took, context.Cause(ctx))
		}
		if ctx.extend(time.Now().Add(time.Hour), time.Now().Add(time.Hour)) || ctx.Err() == nil {
			t.Error("a context that had ended is extended")
		}
	})
}

// The deadline of a task's own ends the context, also if the handler starts late or extends its lease.
func TestLeaseContextWithALatestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx := withLease(t.Context(), begin.Add(2*time.Hour), begin.Add(2*time.Hour), begin.Add(time.Minute))
		defer ctx.close()
		time.Sleep(50 * time.Second)
		ctx.expected = time.Hour
		ctx.startTime()
		if ctx.short(0) { // a longer lease would not help, so nobody asks for one
			t.Error("the time left is short")
		}
		if !ctx.extend(begin.Add(3*time.Hour), begin.Add(3*time.Hour)) {
			t.Error("the lease was not extended")
		}
		if deadline, _ := ctx.Deadline(); !deadline.Equal(begin.Add(time.Minute)) {
			t.Errorf("deadline %s", deadline)
		}
		<-ctx.Done()
		if took := time.Since(begin); took != time.Minute || !errors.Is(context.Cause(ctx), handlers.ErrDeadline) {
			t.Errorf("ended after %s: %v", took, context.Cause(ctx))
		}
	})
}

// A handler that asks for a longer lease, and gets no answer, returns when its context ends.
func TestExtendEndsWithTheHandlersContext(t *testing.T) {
	s := newBench(t)
	runs, asks, answered := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w := s.prepare(nil, handlers.Handle(func(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
		close(runs)
		<-asks
		answered <- task.Extend(ctx, time.Minute)
		return nil
	}))
	w.begin()
	s.Add("a", nil)
	w.batch(1, 0)
	enginetest.Receive(t, runs, patience, "the handler runs")
	s.InTx(func(tx pgx.Tx) {
		s.Did(tx.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_tasks IN ACCESS EXCLUSIVE MODE`))
		close(asks)
		s.Sees("Extend waits", `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND query LIKE '%UPDATE%lease_expires_at%'`)
		cut := errors.New("cut off")
		w.Interrupt(cut)
		if err := enginetest.Receive(t, answered, patience, "Extend returns"); !errors.Is(err, cut) {
			t.Errorf("Extend returned %v", err)
		}
	})
	enginetest.Await(t, s.Pool, "a", patience, store.StatusCompleted)
}

// An attempt whose lease has ended before it begins extends the lease first, and has all its time.
func TestAttemptBeginsAfterItsLeaseHasEnded(t *testing.T) {
	s := newBench(t)
	w := s.prepare(nil)
	w.begin()
	s.Add("a", func(task *store.Task) { task.ExpectedExecutionTime = time.Hour })
	claims := s.claim(time.Minute, taskdb.Lane{Queue: "default", Type: "JOB"})
	s.Exec(`UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp() - interval '1 minute'`)
	job := riverjobs.Job{ID: s.insertJob(claims), Queue: "default", Kind: "JOB"}
	w.batches.Go(func() { w.Work(job, claims) })
	a := s.Begins("a")
	if deadline, _ := a.Ctx.Deadline(); time.Until(deadline) < 55*time.Minute {
		t.Errorf("the handler has until %s", deadline)
	}
	a.End <- nil
	s.Is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
}

func TestLeaseContextEndsForOtherReasons(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancelCause(context.Background())
		interrupted := withLease(parent, time.Now().Add(time.Hour), time.Now().Add(time.Hour), time.Time{})
		cancelled := withLease(parent, time.Now().Add(time.Hour), time.Now().Add(time.Hour), time.Time{})
		closed := withLease(parent, time.Now().Add(time.Second), time.Now().Add(time.Second), time.Time{})
		past := withLease(parent, time.Now().Add(-time.Second), time.Now().Add(-time.Second), time.Time{})
		<-past.Done()
		if !errors.Is(context.Cause(past), handlers.ErrDeadline) {
			t.Errorf("a lease that is over: %v", context.Cause(past))
		}
		closed.close()
		time.Sleep(2 * time.Second)
		if !errors.Is(context.Cause(closed), context.Canceled) {
			t.Errorf("closed: %v", context.Cause(closed))
		}
		cancelled.cancel(handlers.ErrCancelled)
		end(handlers.ErrInterrupted)
		<-interrupted.Done()
		for ctx, want := range map[*leaseContext]error{
			interrupted: handlers.ErrInterrupted, cancelled: handlers.ErrCancelled,
		} {
			if !errors.Is(context.Cause(ctx), want) {
				t.Errorf("%v, want %v", context.Cause(ctx), want)
			}
			ctx.close()
		}
	})
}

// A timer that fires while the lease is being extended does not end it.
func TestLeaseContextIsExtendedInTheNick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := withLease(t.Context(), time.Now().Add(time.Second), time.Now().Add(time.Hour), time.Time{})
		defer ctx.close()
		for range 100 {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline) - time.Nanosecond)
			if !ctx.extend(time.Now().Add(time.Second), time.Now().Add(time.Hour)) {
				t.Fatal("it ended while it was extended")
			}
		}
		ctx.lapse() // as a late timer would
		if ctx.Err() != nil {
			t.Errorf("ended: %v", context.Cause(ctx))
		}
	})
}
