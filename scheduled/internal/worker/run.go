package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// run is a claim that this node holds.
type run struct {
	taskdb.Claim
	job   *job
	place int       // in the job
	since time.Time // when the node got the claim

	returned bool // the handler has returned; guarded by Worker.mu
	told     bool // the log says that the handler hangs; for lookForHung alone

	decided atomic.Bool // the attempt begins, or the claim was given up before that; one excludes the other
	ended   atomic.Bool // the task is being settled or was forgotten, and no later outcome counts

	mu      sync.Mutex
	attempt *attempt      // nil while the task waits
	gone    chan struct{} // see givenUp
}

// inHand lists the claims that this node has held for at least this long.
func (w *Worker) inHand(least time.Duration) []*run {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*run
	for _, r := range w.runs {
		if time.Since(r.since) >= least {
			found = append(found, r)
		}
	}
	return found
}

func (w *Worker) byFence(fence int64) *run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[fence]
}

func claimsOf(runs []*run) []taskdb.Claim {
	claims := make([]taskdb.Claim, len(runs))
	for i, r := range runs {
		claims[i] = r.Claim
	}
	return claims
}

// begun is the attempt, or nil while the task waits.
func (r *run) begun() *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempt
}

// span returns a context with the span of the attempt, for the log. Before the attempt begins, the context has no
// span.
func (r *run) span() context.Context {
	if a := r.begun(); a != nil {
		return a.lease
	}
	return context.Background()
}

// changed reacts to a change of the row. If the handler runs and there is a cause, it ends the handler's context. If
// the task still waits, it gives up the claim.
func (r *run) changed(cause error) {
	a := r.begun()
	switch {
	case a != nil && cause != nil:
		a.lease.cancel(cause)
	case a == nil && !r.decided.Swap(true):
		close(r.givenUp())
		r.job.end(r, taskdb.Released(r.Claim, "edited or cancelled before it started"))
	}
}

// givenUp returns a channel that is closed when the claim is given up while the task waits, so that the batch does not
// keep its River job and its place for nothing. Most tasks do not wait, so that they need no channel.
func (r *run) givenUp() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone == nil {
		r.gone = make(chan struct{})
	}
	return r.gone
}
