package scheduled

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// brief makes leases short: the expected time and a second.
func brief(c *Config) { c.StartAllowance = time.Second }

// passes waits until the database's clock has passed a time.
func (s *stage) passes(at time.Time) {
	s.t.Helper()
	enginetest.Eventually(s.t, time.Until(at)+5*time.Second, "the time comes", func() bool {
		return s.count(`SELECT (clock_timestamp() > $1)::int`, at) == 1
	})
}

// A handler that takes too long has its context ended in time, and its attempt counts.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(brief)
	s.schedule("a", func(task *store.Task) { task.ExpectedExecutionTime = 2 * time.Second })
	a := s.begins("a")
	row := enginetest.Await(t, s.pool, "a", patience, store.StatusExecuting)
	if deadline, ok := a.ctx.Deadline(); !ok || deadline.Sub(a.StartedAt) > 3*time.Second ||
		deadline.Sub(a.StartedAt) < time.Second {
		t.Errorf("the context's deadline is %s after the start", deadline.Sub(a.StartedAt))
	}
	// Before the lease: an obedient handler's outcome is to be recorded in time.
	if deadline, _ := a.ctx.Deadline(); row.LeaseExpiresAt.Sub(deadline) < 200*time.Millisecond {
		t.Errorf("the context's deadline is %s before the lease's end", row.LeaseExpiresAt.Sub(deadline))
	}
	if cause := a.ends(t, patience); !errors.Is(cause, handlers.ErrDeadline) {
		t.Errorf("the context ended by %v", cause)
	}
	again := s.begins("a")
	if again.Attempt != 2 {
		t.Errorf("attempt %d", again.Attempt)
	}
	if got := s.errorOf("a"); got != handlers.ErrDeadline.Error() {
		t.Errorf("recorded as %q", got)
	}
	again.end <- nil
	s.is("a", store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
}

// A handler that does not mind its context loses the task: it runs again, and what the first one says
// later does not count.
func TestLeaseLapses(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(brief, handlers.Handle(s.handleDeaf))
	for _, id := range []string{"a", "last"} {
		s.schedule(id, func(task *store.Task) {
			task.ExpectedExecutionTime = 500 * time.Millisecond
			if id == "last" {
				task.MaxAttempts = 1
			}
		})
	}
	a, last := s.begins("a"), s.begins("last")
	second := s.begins("a")
	if second.Attempt != 2 || second.Fence <= a.Fence || second.Revision != a.Revision ||
		second.IdempotencyKey() != a.IdempotencyKey() {
		t.Errorf("the second run: %+v after %+v", second.Execution, a.Execution)
	}
	if cause := a.ends(t, patience); !errors.Is(cause, handlers.ErrDeadline) {
		t.Errorf("the context ended by %v", cause)
	}
	if err := a.Extend(t.Context(), time.Minute); err == nil {
		t.Error("a lost lease was extended")
	}
	a.Note("too late")
	a.end <- nil
	second.Note("the second")
	second.end <- nil
	if row := s.is(
		"a", store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted,
	); taskdb.TextOf(row.Message) != "the second" ||
		row.Attempt != 2 {
		t.Errorf("message %q, attempt %d", taskdb.TextOf(row.Message), row.Attempt)
	}
	if row := s.is("last", store.StatusFailed, taskdb.OutcomeLost); taskdb.TextOf(row.Message) != "its lease ended" {
		t.Errorf("message %q", taskdb.TextOf(row.Message))
	}
	last.end <- nil
	s.schedule("after", nil) // what comes after shows that the late outcomes have been dealt with
	s.begins("after").end <- nil
	s.is("after", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.is("a", store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted)
	s.is("last", store.StatusFailed, taskdb.OutcomeLost)
	s.idle("a", "last")
}

// A handler has its ExpectedExecutionTime from its start, no more and no less, whatever the start allowance; the
// lease outlives it.
func TestHandlerHasItsExpectedTime(t *testing.T) {
	t.Parallel()
	for name, allowance := range map[string]time.Duration{
		"short allowance": time.Second, "long allowance": time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.node(func(c *Config) { c.StartAllowance = allowance })
			for _, expected := range []time.Duration{100 * time.Millisecond, 40 * time.Second} {
				id := expected.String()
				scheduled := time.Now()
				s.schedule(id, func(task *store.Task) { task.ExpectedExecutionTime = expected })
				a := s.begins(id)
				deadline, _ := a.ctx.Deadline()
				if left := time.Until(deadline); left > expected || deadline.Sub(scheduled) < expected {
					t.Errorf("of %s the handler has %s", expected, left)
				}
				if expected < time.Second {
					if cause := a.ends(t, patience); !errors.Is(cause, handlers.ErrDeadline) {
						t.Errorf("the context ended by %v", cause)
					}
					a = s.begins(id)
					deadline, _ = a.ctx.Deadline()
				}
				if row, err := s.tasks.Get(t.Context(), s.pool, id); err != nil ||
					row.LeaseExpiresAt.Sub(deadline) < allowance/4 {
					t.Errorf("%v: the lease ends %s after the context", err, row.LeaseExpiresAt.Sub(deadline))
				}
				a.end <- nil
			}
		})
	}
}

// A node ends a claim in its hand whose lease is over, though its handler goes on, and though nobody leads. The line of
// the history says when the attempt began, and on which node.
func TestNodeEndsLapsedClaims(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var mu sync.Mutex
	var dead []Failure
	var again []Failure
	tr := s.prepare(func(c *Config) {
		brief(c)
		c.OnDead = func(_ context.Context, one Failure) {
			mu.Lock()
			defer mu.Unlock()
			dead = append(dead, one)
		}
		c.OnLost = func(_ context.Context, one Failure) {
			mu.Lock()
			defer mu.Unlock()
			again = append(again, one)
		}
	}, handlers.Handle(s.handleDeaf))
	s.nobodyLeads()
	for _, id := range []string{"again", "last"} {
		s.schedule(id, func(task *store.Task) {
			task.ExpectedExecutionTime = 500 * time.Millisecond
			if id == "last" {
				task.MaxAttempts = 1
			}
		})
		tr.oneBatch("default", 1)
	}
	// The node makes it as long as its own settings say.
	s.exec(`UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp()`)
	tr.run()
	first, last := s.begins("again"), s.begins("last")
	s.is("again", store.StatusQueued, taskdb.OutcomeLost)
	if row := s.is("last", store.StatusFailed, taskdb.OutcomeLost); taskdb.TextOf(row.Message) != "its lease ended" {
		t.Errorf("message %q", taskdb.TextOf(row.Message))
	}
	if n := s.count(`SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE outcome = 'LOST' AND node = $1 AND started_at IS NOT NULL AND type = 'JOB'
			AND error = 'its lease ended'`, tr.session.Number); n != 2 {
		t.Errorf("%d lines of lost claims name their node and their start, want 2", n)
	}
	first.end <- nil // too late: it does not count
	last.end <- nil
	enginetest.Eventually(t, patience, "their River jobs are removed", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.river_job`) == 0
	})
	s.is("again", store.StatusQueued, taskdb.OutcomeLost)
	s.is("last", store.StatusFailed, taskdb.OutcomeLost)
	mu.Lock()
	defer mu.Unlock()
	if len(dead) != 1 || dead[0].ID != "last" || dead[0].Outcome != taskdb.OutcomeLost || len(again) != 1 ||
		again[0].ID != "again" {
		t.Errorf("told of the dead %+v and of the lost %+v", dead, again)
	}
}

func TestExtendKeepsTheLease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(brief)
	s.schedule("a", func(task *store.Task) { task.ExpectedExecutionTime = 3 * time.Second })
	a := s.begins("a")
	row := enginetest.Await(t, s.pool, "a", patience, store.StatusExecuting)
	for _, d := range []time.Duration{0, -time.Second} {
		if err := a.Extend(t.Context(), d); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("extended by %s: %v", d, err)
		}
	}
	asked := time.Now()
	if err := a.Extend(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if deadline, _ := a.ctx.Deadline(); deadline.Sub(asked) < 58*time.Second {
		t.Errorf("the context's deadline is %s after it was asked for", deadline.Sub(asked))
	}
	if err := a.Extend(t.Context(), time.Second); err != nil { // never shorter
		t.Fatal(err)
	}
	s.passes(row.LeaseExpiresAt.Add(1200 * time.Millisecond)) // the leader has looked since
	if a.ctx.Err() != nil {
		t.Errorf("the context ended")
	}
	// Not while its row is locked, and not once it is cancelled.
	unlock := enginetest.Lock(t, s.pool, "a")
	if err := a.Extend(t.Context(), time.Hour); err == nil {
		t.Error("extended, though the row is locked")
	}
	unlock()
	if a.ctx.Err() != nil {
		t.Error("the context ended because the row was locked")
	}
	if _, err := s.tasks.Cancel(t.Context(), s.pool, "a"); err != nil {
		t.Fatal(err)
	}
	if cause := a.ends(t, patience); !errors.Is(cause, handlers.ErrCancelled) {
		t.Errorf("cause %v", cause)
	}
	if err := a.Extend(t.Context(), time.Hour); !errors.Is(err, handlers.ErrCancelled) {
		t.Errorf("extended when cancelled: %v", err)
	}
	s.is("a", store.StatusCancelled, taskdb.OutcomeSuperseded)
}

// A task that waits long for a slot is not taken for lost, however short its lease is: it is not claimed, or
// its claim goes back.
func TestWaitForASlotIsNotALoss(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const n = 8
	queues := map[string]int{}
	for i := range n {
		queues[fmt.Sprint("q", i)] = 1
	}
	s.node(func(c *Config) { c.StartAllowance, c.Queues = time.Second, queues })
	long := make([]*act, n)
	for i := range n {
		s.schedule(fmt.Sprint("long ", i), func(task *store.Task) {
			task.Queue, task.ExpectedExecutionTime = fmt.Sprint("q", i), time.Minute
		})
	}
	for i := range n {
		long[i] = s.begins(fmt.Sprint("long ", i))
	}
	begin := time.Now()
	for i := range n { // spread over the second between two looks
		s.schedule(fmt.Sprint("short ", i), func(task *store.Task) {
			task.Queue, task.ExpectedExecutionTime, task.At = fmt.Sprint("q", i), 100*time.Millisecond, begin.Add(
				time.Duration(i)*time.Second/n,
			)
		})
	}
	enginetest.Eventually(t, patience, "five seconds have passed", func() bool {
		return s.count(`SELECT (clock_timestamp() > $1)::int`, begin.Add(5*time.Second)) == 1
	})
	if n := s.count(`SELECT count(*)::int FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`); n != 0 {
		t.Errorf("%d waiting tasks were taken for lost", n)
	}
	for i := range n {
		s.idle(fmt.Sprint("short ", i))
		long[i].end <- nil
		short := s.begins(fmt.Sprint("short ", i))
		if short.Attempt != 1 {
			t.Errorf("short %d runs as attempt %d", i, short.Attempt)
		}
		short.end <- nil
		s.is(fmt.Sprint("long ", i), store.StatusCompleted, taskdb.OutcomeCompleted)
		enginetest.Await(t, s.pool, fmt.Sprint("short ", i), patience, store.StatusCompleted)
		history := enginetest.Outcomes(t, s.pool, fmt.Sprint("short ", i))
		for n, outcome := range history {
			if last := n == len(history)-1; last != (outcome == taskdb.OutcomeCompleted) ||
				!last && outcome != taskdb.OutcomeReleased {
				t.Errorf("short %d has the history %v", i, history)
			}
		}
	}
}
