package scheduled

import (
	"context"
	"sync"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// lostAfter is how long after the end of its lease the node ends a claim as lost. An outcome that a handler reports in
// the meantime is recorded first.
const lostAfter = time.Second

// leaseContext is a handler's context. Its deadline can be moved later, because the handler may extend its lease. The
// standard library's deadlines are fixed when made.
type leaseContext struct {
	context.Context
	end func(cause error)

	mu       sync.Mutex
	deadline time.Time
	lease    time.Time // the end of the lease, by this process's clock; no later than the database has it
	timer    *time.Timer

	expected time.Duration // how long the handler may take
}

func withLease(parent context.Context, deadline, leaseEnd time.Time) *leaseContext {
	ctx, end := context.WithCancelCause(parent)
	lease := &leaseContext{Context: ctx, end: end, deadline: deadline, lease: leaseEnd}
	lease.timer = time.AfterFunc(time.Until(deadline), lease.lapse)
	return lease
}

// Deadline is when the context ends, as it stands now. It may move later.
func (l *leaseContext) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline, true
}

func (l *leaseContext) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.deadline); left > 0 { // extended while the timer fired
		l.timer.Reset(left)
		return
	}
	l.end(handlers.ErrDeadline) // under the lock, so that extend cannot succeed between the decision and the end
}

// extend moves the deadline and the end of the lease later, never earlier. It reports whether the context still lives:
// a context that has ended stays so.
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

// startTime has the handler's time begin: until now its context ended with the lease, less a margin, so that a wait for a transaction's
// connection did not count.
func startTime(ctx context.Context) {
	lease, ok := ctx.(*leaseContext)
	if !ok {
		return // a test's
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if deadline := time.Now().Add(lease.expected); deadline.Before(lease.deadline) {
		lease.deadline = deadline
		lease.timer.Reset(time.Until(deadline))
	}
}

// leaseEnd is when the lease ends, as it stands now.
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
