package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Run is a claim that this node holds.
type Run struct {
	taskdb.Claim
	job   *job
	place int           // in the job
	poke  chan struct{} // says that the row has changed, so that the task asks the gate before it is due
	Since time.Time     // when the node got the claim

	returned bool // the handler has returned; guarded by hung.mu

	ended atomic.Bool // the task is being settled or was forgotten, and no later outcome counts

	mu      sync.Mutex
	attempt *attempt // nil while the task waits
}

// forget removes a claim that is over, or that the node has given up.
func (j *job) forget(r *Run) {
	j.mu.Lock()
	delete(j.runs, r.Fence)
	j.mu.Unlock()
	if j.window != nil {
		j.window.ends(r.place)
	}
	j.pending.Done()
}

// InHand lists the claims that this node has held for at least this long.
func (w *Worker) InHand(least time.Duration) []*Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*Run
	for _, r := range w.runs {
		if time.Since(r.Since) >= least {
			found = append(found, r)
		}
	}
	return found
}

func (w *Worker) byFence(fence int64) *Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[fence]
}

func claimsOf(runs []*Run) []taskdb.Claim {
	claims := make([]taskdb.Claim, len(runs))
	for i, r := range runs {
		claims[i] = r.Claim
	}
	return claims
}

// begun is the attempt, or nil while the task waits.
func (r *Run) begun() *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempt
}

// Begun reports whether the attempt has begun. Its handler may still wait for its transaction.
func (r *Run) Begun() bool { return r.begun() != nil }

// span returns a context with the span of the attempt, for the log. Before the attempt begins, the context has no
// span.
func (r *Run) span() context.Context {
	if a := r.begun(); a != nil {
		return a.lease
	}
	return context.Background()
}

// changed reacts to a change of the row. If the handler runs and there is a cause, it ends the handler's context. If
// the task still waits, it makes the task ask the gate.
func (r *Run) changed(cause error) {
	if a := r.begun(); a != nil {
		if cause != nil {
			a.lease.cancel(cause)
		}
		return
	}
	select {
	case r.poke <- struct{}{}:
	default: // the task knows already
	}
}
