package scheduled

import (
	"context"
	"sync"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// lostAfter is how long after the end of a claim's lease the node ends the claim as lost. If a handler reports an
// outcome in the meantime, that outcome is recorded.
const lostAfter = time.Second

// leaseContext is a handler's context. Its deadline can be moved later, because the handler may extend its lease. The
// deadline of a context of the standard library is fixed.
type leaseContext struct {
	context.Context
	end func(cause error)

	mu       sync.Mutex
	deadline time.Time
	lease    time.Time // the end of the lease, by this process's clock; never later than the end in the database
	timer    *time.Timer

	expected time.Duration // how long the handler may take
}

func withLease(parent context.Context, deadline, leaseEnd time.Time) *leaseContext {
	ctx, end := context.WithCancelCause(parent)
	lease := &leaseContext{Context: ctx, end: end, deadline: deadline, lease: leaseEnd}
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
	l.end(handlers.ErrDeadline)
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

// leaseEnd is the time at which the lease ends. It may move later.
func (l *leaseContext) leaseEnd() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// close frees the timer and ends the context.
func (l *leaseContext) close() {
	l.timer.Stop()
	l.end(context.Canceled)
}
