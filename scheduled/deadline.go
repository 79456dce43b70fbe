package scheduled

import (
	"context"
	"sync"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// leaseContext is a context whose deadline can be moved later: the handler's, which ends with the lease. The standard
// library's deadlines are fixed when made.
type leaseContext struct {
	context.Context
	end func(cause error)

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer
}

func withLease(parent context.Context, deadline time.Time) *leaseContext {
	ctx, end := context.WithCancelCause(parent)
	lease := &leaseContext{Context: ctx, end: end, deadline: deadline}
	lease.timer = time.AfterFunc(time.Until(deadline), lease.lapse)
	return lease
}

// Deadline is the lease's end as it stands now; it may move later.
func (l *leaseContext) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline, true
}

func (l *leaseContext) lapse() {
	l.mu.Lock()
	left := time.Until(l.deadline)
	if left > 0 { // extended while the timer fired
		l.timer.Reset(left)
	}
	l.mu.Unlock()
	if left <= 0 {
		l.end(handlers.ErrDeadline)
	}
}

// extend moves the deadline later, never earlier.
func (l *leaseContext) extend(deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if deadline.After(l.deadline) {
		l.deadline = deadline
		l.timer.Reset(time.Until(deadline))
	}
}

// close frees the timer and ends the context.
func (l *leaseContext) close() {
	l.timer.Stop()
	l.end(context.Canceled)
}
