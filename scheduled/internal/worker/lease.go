package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
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

	expected time.Duration // how long the handler may take
}

func withLease(parent context.Context, deadline, leaseEnd time.Time) *leaseContext {
	ctx, end := context.WithCancelCause(parent)
	lease := &leaseContext{Context: ctx, cancel: end, deadline: deadline, lease: leaseEnd}
	lease.timer = time.AfterFunc(time.Until(deadline), lease.lapse)
	return lease
}

// Deadline is the time at which the context ends. It may move later.
func (l *leaseContext) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline, true
}

func (l *leaseContext) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.deadline); left > 0 { // the handler extended the lease while the timer fired
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
		l.timer.Reset(time.Until(deadline))
	}
	return true
}

// startTime begins the handler's time. Until now the context's deadline was the end of the lease, less a margin, so
// that the wait for a transaction's connection did not use up the handler's time.
func startTime(ctx context.Context) {
	lease, ok := ctx.(*leaseContext)
	if !ok {
		return // the context of a test
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if deadline := time.Now().Add(lease.expected); deadline.Before(lease.deadline) {
		lease.deadline = deadline
		lease.timer.Reset(time.Until(deadline))
	}
}

// short reports whether the time left is less than the handler is expected to take and `more`. A nil context has time.
func (l *leaseContext) short(more time.Duration) bool {
	if l == nil {
		return false
	}
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

// leaseFor returns the end of the attempt's lease. The lease must outlive the handler's time by a margin. If the task
// has waited so long that the lease is too short, leaseFor extends it. If that fails, why gives the reason, and the
// task must not start.
func (b *batch) leaseFor(r *Run, answer taskdb.GateAnswer, gateAt time.Time) (end time.Time, why string) {
	expected := time.Duration(answer.Expected * float64(time.Second))
	end = gateAt.Add(time.Duration(answer.Lease * float64(time.Second)))
	if needed := expected + b.leaseMargin() + GateValid; time.Until(end) >= needed {
		return end, ""
	}
	asked := time.Now()
	extended, err := b.extend([]taskdb.Claim{r.Claim}, nil)
	if err != nil {
		b.config.Log.Warn("lease not extended",
			"task", r.ID, "type", answer.Type, "revision", r.Revision, "attempt", r.Attempt, "error", err)
		return end, "the node lost touch with the database"
	}
	lease, done := extended[r.Fence]
	if !done {
		return end, "its lease is too short, and its row is locked"
	}
	return asked.Add(lease), ""
}

// leaseMargin is how long the lease outlives the handler's context, so that the outcome of a handler that obeys its
// context is recorded before the claim counts as lost. It is at most half of the start allowance, because the task
// needs the other half to wait for its start.
func (w *Worker) leaseMargin() time.Duration { return min(5*time.Second, w.config.StartAllowance/2) }

// running is an attempt under way.
type running struct {
	*Run
	execution *handlers.Execution
	ctx       *leaseContext
	began     time.Time
	done      chan attempted
}

// extendRunning does the work of Execution.Extend.
func (b *batch) extendRunning(ctx *leaseContext, r *Run, d time.Duration) error {
	if cause := causeOf(ctx); cause != nil {
		return fmt.Errorf("extend task %s: %w", r.ID, cause)
	}
	d = min(d, store.MaxExpectedExecutionTime)
	return b.extendLease(ctx, r, &d)
}

// extend makes leases longer. If an application has locked a row, the claim keeps the lease that it has.
func (w *Worker) extend(holds []taskdb.Claim, d *time.Duration) (map[int64]time.Duration, error) {
	ctx, cancel := context.WithTimeout(w.settling, session.AnswerLimit)
	defer cancel()
	return w.config.Statements.Extend(ctx, w.config.EnginePool, holds, w.config.StartAllowance, d)
}

// extendLease makes the handler's context last at least d from now, and the lease longer than that by the start
// allowance. If d is nil, it uses the time that the task is expected to run.
func (b *batch) extendLease(ctx *leaseContext, r *Run, d *time.Duration) error {
	asked := time.Now()
	extended, err := b.extend([]taskdb.Claim{r.Claim}, d)
	if err != nil {
		return err
	}
	lease, done := extended[r.Fence]
	if !done {
		return fmt.Errorf("extend task %s: %w, or its row is locked", r.ID, handlers.ErrLeaseLost)
	}
	deadline := asked.Add(lease - b.leaseMargin())
	if d != nil {
		deadline = asked.Add(*d)
	}
	if !ctx.extend(deadline, asked.Add(lease)) { // the context ended while the database answered
		return fmt.Errorf("extend task %s: %w", r.ID, causeOf(ctx))
	}
	return nil
}

// renew extends the leases of tasks that wait for a slot, so that they do not count as lost.
func (w *Worker) renew(runs []*Run) error {
	allowance := w.config.StartAllowance
	var holds []taskdb.Claim
	for _, r := range runs {
		r.mu.Lock()
		if r.lease == nil && time.Since(r.renewed) > allowance/2 {
			holds = append(holds, r.Claim)
		}
		r.mu.Unlock()
	}
	if len(holds) == 0 {
		return nil
	}
	renewed, err := w.extend(holds, nil)
	if err != nil {
		return err
	}
	for fence := range renewed {
		if r := w.byFence(fence); r != nil {
			r.mu.Lock()
			r.renewed = time.Now()
			r.mu.Unlock()
		}
	}
	return nil
}

// endLapsed ends claims whose lease is over although their handlers still run, because the handlers ignore their
// contexts. Nothing else looks for such claims while this node lives. If an outcome is being recorded, that outcome
// wins.
func (w *Worker) endLapsed(runs []*Run) {
	for _, r := range runs {
		if loss, over := r.lapsed(time.Now()); over {
			w.hung.claimEnds(r, loss.Type, w.isTx(r.batch.kind))
			r.batch.end(r, loss)
		}
	}
}

// lapsed reports whether the lease ended more than lostAfter ago and the handler still runs. If so, it returns the
// settlement that records the claim as lost.
func (r *Run) lapsed(now time.Time) (loss taskdb.Settlement, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == nil || !now.After(r.lease.leaseEnd().Add(lostAfter)) {
		return taskdb.Settlement{}, false
	}
	loss = taskdb.Lost(r.Claim, "its lease ended")
	startedAt, scheduledAt := r.startedAt, r.execution.ScheduledAt
	loss.Type, loss.ScheduledAt, loss.StartedAt = r.execution.Type, &scheduledAt, &startedAt
	return loss, true
}
