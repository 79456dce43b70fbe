package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// brief makes leases short: the expected time and a second.
func brief(c *Config) { c.StartAllowance = time.Second }

// A handler that takes too long has its context ended in time, and its attempt counts.
func TestDeadline(t *testing.T) {
	s := newBench(t)
	s.node(brief)
	s.Add("a", func(task *store.Task) { task.ExpectedExecutionTime = 2 * time.Second })
	a := s.Begins("a")
	row := enginetest.Await(t, s.Pool, "a", patience, store.StatusExecuting)
	if deadline, ok := a.Ctx.Deadline(); !ok || deadline.Sub(a.StartedAt) > 3*time.Second ||
		deadline.Sub(a.StartedAt) < time.Second {
		t.Errorf("the context's deadline is %s after the start", deadline.Sub(a.StartedAt))
	}
	// Before the lease: an obedient handler's outcome is to be recorded in time.
	if deadline, _ := a.Ctx.Deadline(); row.LeaseExpiresAt.Sub(deadline) < 200*time.Millisecond {
		t.Errorf("the context's deadline is %s before the lease's end", row.LeaseExpiresAt.Sub(deadline))
	}
	if cause := a.Ends(t, patience); !errors.Is(cause, handlers.ErrDeadline) {
		t.Errorf("the context ended by %v", cause)
	}
	again := s.Begins("a")
	if again.Attempt != 2 {
		t.Errorf("attempt %d", again.Attempt)
	}
	if got := s.ErrorOf("a"); got != handlers.ErrDeadline.Error() {
		t.Errorf("recorded as %q", got)
	}
	again.End <- nil
	s.Is("a", store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
}

// The timeout of a task ends the context before the expected time of five minutes is over, also if the handler extends
// its lease. The wait before the retry is the task's own. The deadline ends the second attempt, and the task expires.
func TestTimeoutBackoffAndDeadline(t *testing.T) {
	s := newBench(t)
	s.node(brief)
	deadline := time.Now().Add(9 * time.Second)
	s.Add("a", func(task *store.Task) {
		task.Timeout, task.Backoff, task.Deadline = 4*time.Second, "2s", deadline
		task.ExpectedExecutionTime = 0
	})
	a := s.Begins("a")
	if err := a.Extend(t.Context(), time.Hour); err != nil { // moves neither end
		t.Error(err)
	}
	if cause := a.Ends(t, patience); !errors.Is(cause, handlers.ErrDeadline) {
		t.Errorf("the context ended by %v", cause)
	}
	if took := time.Since(a.StartedAt); took < 3*time.Second || took > 6*time.Second {
		t.Errorf("the context ended %s after the start", took)
	}
	ended := time.Now()
	again := s.Begins("a")
	if wait := again.StartedAt.Sub(ended); again.Attempt != 2 || wait < 1500*time.Millisecond || wait > 5*time.Second {
		t.Errorf("attempt %d, after %s", again.Attempt, wait)
	}
	if cause := again.Ends(t, patience); !errors.Is(cause, handlers.ErrDeadline) || time.Now().Before(deadline.Add(-time.Second)) {
		t.Errorf("the context ended by %v, %s before the deadline", cause, time.Until(deadline))
	}
	s.Is("a", store.StatusExpired, taskdb.OutcomeRetried, taskdb.OutcomeRetried, taskdb.OutcomeExpired)
}

// A handler that does not mind its context loses the task: it runs again, and what the first one says
// later does not count.
func TestLeaseLapses(t *testing.T) {
	s := newBench(t)
	s.node(brief, handlers.Handle(s.HandleDeaf))
	for _, id := range []string{"a", "last"} {
		s.Add(id, func(task *store.Task) {
			task.ExpectedExecutionTime = 500 * time.Millisecond
			if id == "last" {
				task.MaxAttempts = 1
			}
		})
	}
	a, last := s.Begins("a"), s.Begins("last")
	second := s.Begins("a")
	if second.Attempt != 2 || second.Fence <= a.Fence || second.Revision != a.Revision ||
		second.IdempotencyKey() != a.IdempotencyKey() {
		t.Errorf("the second run: %+v after %+v", second.Execution, a.Execution)
	}
	if cause := a.Ends(t, patience); !errors.Is(cause, handlers.ErrDeadline) {
		t.Errorf("the context ended by %v", cause)
	}
	if err := a.Extend(t.Context(), time.Minute); err == nil {
		t.Error("a lost lease was extended")
	}
	a.Note("too late")
	a.End <- nil
	second.Note("the second")
	second.End <- nil
	if row := s.Is(
		"a", store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted,
	); taskdb.TextOf(row.Message) != "the second" ||
		row.Attempt != 2 {
		t.Errorf("message %q, attempt %d", taskdb.TextOf(row.Message), row.Attempt)
	}
	if row := s.Is("last", store.StatusFailed, taskdb.OutcomeLost); taskdb.TextOf(row.Message) != "its lease ended" {
		t.Errorf("message %q", taskdb.TextOf(row.Message))
	}
	last.End <- nil
	s.Add("after", nil) // what comes after shows that the late outcomes have been dealt with
	s.Begins("after").End <- nil
	s.Is("after", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("a", store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted)
	s.Is("last", store.StatusFailed, taskdb.OutcomeLost)
	s.Idle("a", "last")
}

// A handler has its ExpectedExecutionTime from its start, no more and no less, whatever the start allowance; the
// lease outlives it.
func TestHandlerHasItsExpectedTime(t *testing.T) {
	t.Parallel()
	for name, allowance := range map[string]time.Duration{
		"short allowance": time.Second, "long allowance": time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			s.node(func(c *Config) { c.StartAllowance = allowance })
			for _, expected := range []time.Duration{100 * time.Millisecond, 40 * time.Second} {
				id := expected.String()
				scheduled := time.Now()
				s.Add(id, func(task *store.Task) { task.ExpectedExecutionTime = expected })
				a := s.Begins(id)
				deadline, _ := a.Ctx.Deadline()
				if left := time.Until(deadline); left > expected || deadline.Sub(scheduled) < expected {
					t.Errorf("of %s the handler has %s", expected, left)
				}
				if expected < time.Second {
					if cause := a.Ends(t, patience); !errors.Is(cause, handlers.ErrDeadline) {
						t.Errorf("the context ended by %v", cause)
					}
					a = s.Begins(id)
					deadline, _ = a.Ctx.Deadline()
				}
				if row, err := s.Tasks.Get(t.Context(), s.Pool, id); err != nil ||
					row.LeaseExpiresAt.Sub(deadline) < allowance/4 {
					t.Errorf("%v: the lease ends %s after the context", err, row.LeaseExpiresAt.Sub(deadline))
				}
				a.End <- nil
			}
		})
	}
}

// A node ends a claim in its hand whose lease is over, though its handler goes on, and though nobody leads. The line of
// the history says when the attempt began, and on which node.
func TestNodeEndsLapsedClaims(t *testing.T) {
	s := newBench(t)
	var mu sync.Mutex
	var dead, again []failures.Failure
	note := func(to *[]failures.Failure) func(context.Context, failures.Failure) {
		return func(_ context.Context, one failures.Failure) {
			mu.Lock()
			defer mu.Unlock()
			*to = append(*to, one)
		}
	}
	tr := s.prepare(func(c *Config) {
		c.StartAllowance = 5 * time.Second // a loaded machine needs some until the handler begins
		c.Failures = failures.New(failures.Config{Dead: note(&dead), Lost: note(&again), Log: enginetest.Logger()})
	}, handlers.Handle(s.HandleDeaf))
	tr.begin()
	for _, id := range []string{"again", "last"} {
		s.Add(id, func(task *store.Task) {
			task.ExpectedExecutionTime = 500 * time.Millisecond
			if id == "last" {
				task.MaxAttempts = 1
			}
		})
		tr.batch(1, 0)
	}
	first, last := s.Begins("again"), s.Begins("last")
	s.Is("again", store.StatusQueued, taskdb.OutcomeLost)
	if row := s.Is("last", store.StatusFailed, taskdb.OutcomeLost); taskdb.TextOf(row.Message) != "its lease ended" {
		t.Errorf("message %q", taskdb.TextOf(row.Message))
	}
	s.Counts("lines of lost claims name their node and their start", 2,
		`SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE outcome = 'LOST' AND node = $1 AND started_at IS NOT NULL AND type = 'JOB'
			AND error = 'its lease ended'`, tr.config.Number)
	first.End <- nil // too late: it does not count
	last.End <- nil
	s.Sees("their River jobs are removed", `SELECT count(*) = 0 FROM tasktable.river_job`)
	s.Is("again", store.StatusQueued, taskdb.OutcomeLost)
	s.Is("last", store.StatusFailed, taskdb.OutcomeLost)
	mu.Lock()
	defer mu.Unlock()
	if len(dead) != 1 || dead[0].ID != "last" || dead[0].Outcome != taskdb.OutcomeLost || len(again) != 1 ||
		again[0].ID != "again" {
		t.Errorf("told of the dead %+v and of the lost %+v", dead, again)
	}
}

func TestExtendKeepsTheLease(t *testing.T) {
	s := newBench(t)
	s.node(brief)
	s.Add("a", func(task *store.Task) { task.ExpectedExecutionTime = 3 * time.Second })
	a := s.Begins("a")
	row := enginetest.Await(t, s.Pool, "a", patience, store.StatusExecuting)
	for _, d := range []time.Duration{0, -time.Second} {
		if err := a.Extend(t.Context(), d); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("extended by %s: %v", d, err)
		}
	}
	asked := time.Now()
	s.OK(a.Extend(t.Context(), time.Minute))
	if deadline, _ := a.Ctx.Deadline(); deadline.Sub(asked) < 58*time.Second {
		t.Errorf("the context's deadline is %s after it was asked for", deadline.Sub(asked))
	}
	if err := a.Extend(t.Context(), time.Second); err != nil { // never shorter
		t.Fatal(err)
	}
	s.Passes(row.LeaseExpiresAt.Add(1200 * time.Millisecond)) // the leader has looked since
	if a.Ctx.Err() != nil {
		t.Errorf("the context ended")
	}
	// Not while its row is locked, and not once it is cancelled.
	unlock := enginetest.Lock(t, s.Pool, "a")
	if err := a.Extend(t.Context(), time.Hour); err == nil {
		t.Error("extended, though the row is locked")
	}
	unlock()
	if a.Ctx.Err() != nil {
		t.Error("the context ended because the row was locked")
	}
	s.Did(s.Tasks.Cancel(t.Context(), s.Pool, "a"))
	if cause := a.Ends(t, patience); !errors.Is(cause, handlers.ErrCancelled) {
		t.Errorf("cause %v", cause)
	}
	if err := a.Extend(t.Context(), time.Hour); !errors.Is(err, handlers.ErrCancelled) {
		t.Errorf("extended when cancelled: %v", err)
	}
	s.Is("a", store.StatusCancelled, taskdb.OutcomeSuperseded)
}
