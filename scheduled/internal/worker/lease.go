package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// lostAfter is how long after the end of a claim's lease the node ends the claim as lost. If a handler reports an
// outcome in the meantime, that outcome is recorded.
const lostAfter = time.Second

// leaseContext is a handler's context. Its deadline can be moved later, because the handler may extend its lease. The
// deadline of a context of the standard library is fixed.
type leaseContext struct {
	context.Context
	cancel func(cause error)

	mu       sync.Mutex
	deadline time.Time
	lease    time.Time // the end of the lease, by this process's clock; never later than the end in the database
	timer    *time.Timer
	latest   time.Time // the context ends at it, wherever the deadline is moved: the task's own; zero: it has none

	expected time.Duration // how long the handler may take
	timeout  time.Duration // of the task; 0: it has none
}

func withLease(parent context.Context, deadline, leaseEnd, latest time.Time) *leaseContext {
	ctx, end := context.WithCancelCause(parent)
	lease := &leaseContext{Context: ctx, cancel: end, deadline: deadline, lease: leaseEnd, latest: latest}
	lease.timer = time.AfterFunc(time.Until(lease.end()), lease.lapse)
	return lease
}

// Deadline is the time at which the context ends. It may move later.
func (l *leaseContext) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end(), true
}

func (l *leaseContext) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.end()); left > 0 { // the handler extended the lease while the timer fired
		l.timer.Reset(left)
		return
	}
	// The lock is held, so that extend cannot succeed between the decision and the end.
	l.cancel(handlers.ErrDeadline)
}

// extend moves the deadline and the end of the lease later, never earlier. It reports whether the context still
// lives. A context that has ended does not come back to life.
func (l *leaseContext) extend(deadline, leaseEnd time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Err() != nil {
		return false
	}
	if leaseEnd.After(l.lease) {
		l.lease = leaseEnd
	}
	if deadline.After(l.deadline) {
		l.deadline = deadline
		l.timer.Reset(time.Until(l.end()))
	}
	return true
}

// end is when the context ends. The task's own end does not count for short, because a longer lease would not move it.
func (l *leaseContext) end() time.Time {
	if !l.latest.IsZero() && l.latest.Before(l.deadline) {
		return l.latest
	}
	return l.deadline
}

// startTime begins the handler's time. Until now the context's deadline was the end of the lease, less a margin, so
// that the wait for a transaction's connection did not use up the handler's time.
func (l *leaseContext) startTime() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if deadline := now.Add(l.expected); deadline.Before(l.deadline) {
		l.deadline = deadline
	}
	if end := now.Add(l.timeout); l.timeout > 0 && (l.latest.IsZero() || end.Before(l.latest)) {
		l.latest = end
	}
	l.timer.Reset(time.Until(l.end()))
}

// short reports whether the time left is less than the handler is expected to take, and `more`.
func (l *leaseContext) short(more time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.deadline) < l.expected+more
}

// leaseEnd is the time at which the lease ends. It may move later.
func (l *leaseContext) leaseEnd() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// close frees the timer and ends the context.
func (l *leaseContext) close() {
	l.timer.Stop()
	l.cancel(context.Canceled)
}

// leaseMargin is how long the lease outlives the handler's context, so that the outcome of a handler that obeys its
// context is recorded before the claim counts as lost. It is at most half of the start allowance, because the task
// needs the other half to wait for its start.
func (w *Worker) leaseMargin() time.Duration { return min(5*time.Second, w.config.StartAllowance/2) }

// extend makes the handler's context last for at least d from now, and the lease longer than that by the start
// allowance. If d is nil, it uses the time that the task is expected to run. It asks within the handler's context,
// because a handler that asks must not outlive its context. Others may run its task by then.
func (a *attempt) extend(d *time.Duration) error {
	asked, lease, err := a.extendLease(a.lease, a.run.Claim, d)
	if err == nil {
		deadline := asked.Add(lease - a.leaseMargin())
		if d != nil {
			deadline = asked.Add(*d)
		}
		if a.lease.extend(deadline, asked.Add(lease)) {
			return nil
		}
	}
	if cause := context.Cause(a.lease); cause != nil {
		return fmt.Errorf("extend task %s: %w", a.run.ID, cause)
	}
	return err
}

// extendLease makes the lease of a claim last for d and the start allowance, as Queries.Extend does. It returns how
// long the lease lasts from the time at which it asked.
func (w *Worker) extendLease(
	ctx context.Context, claim taskdb.Claim, d *time.Duration,
) (asked time.Time, lease time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	asked = time.Now()
	lease, done, err := w.config.Statements.Extend(ctx, w.config.EnginePool, claim, w.config.StartAllowance, d)
	if err == nil && !done {
		err = fmt.Errorf("extend task %s: %w, or its row is locked", claim.ID, handlers.ErrLeaseLost)
	}
	return asked, lease, err
}

// endLapsed ends claims whose lease is over although their handlers still run, because the handlers ignore their
// contexts. Nothing else looks for such claims while this node lives. If an outcome is being recorded, that outcome
// wins.
func (w *Worker) endLapsed(runs []*run) {
	for _, r := range runs {
		if a := r.begun(); a != nil && time.Now().After(a.lease.leaseEnd().Add(lostAfter)) {
			w.overruns(r)
			a.end(r, a.lost("its lease ended"))
		}
	}
}

// lost is the settlement that records the claim as lost while the handler runs.
func (a *attempt) lost(why string) taskdb.Settlement {
	a.run.mu.Lock()
	startedAt := a.startedAt
	a.run.mu.Unlock()
	loss := taskdb.Lost(a.run.Claim, why)
	loss.Type, loss.ScheduledAt, loss.StartedAt = a.execution.Type, new(a.execution.ScheduledAt), &startedAt
	return loss
}
