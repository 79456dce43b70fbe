package worker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// checkEvery is how often the node checks the claims in its hands. NOTIFY only makes it check sooner.
const checkEvery = time.Second

// checkLoop looks after the claims in this node's hands until ctx is done.
func (w *Worker) checkLoop(ctx context.Context) {
	loop.Repeat(ctx, checkEvery, func() time.Duration {
		w.lookForHung()
		w.RecheckAll(ctx)
		return checkEvery
	})
}

const (
	// writableEvery is how often the node asks the pool whether it still leads to a server that takes writes. This
	// also shows whether the pool answers.
	writableEvery = 10 * time.Second
	// poolAgain is when the node asks the pool again after that.
	poolAgain = 2 * time.Second
)

// askPool asks over the engine's pool which jobs River runs on this node, and releases the claims that the node never
// received. It returns when to ask again.
//
// If the pool leads to a standby, askPool makes it connect anew. The session notices a standby by itself. But the
// pool and the session may reach different servers, because one may go through a proxy and the other not. River could
// fetch nothing over connections to a standby, and would still keep them.
func (w *Worker) askPool(ctx context.Context) (again time.Duration) {
	asking, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	strays, err := w.config.Statements.LookAtPool(asking, w.config.EnginePool, w.config.Number, w.jobsInHand())
	w.config.Answered(err)
	switch {
	case err == nil:
		for _, stray := range strays {
			w.releasing.Go(func() { w.releaseStray(stray) })
		}
		return writableEvery
	case ctx.Err() != nil:
		return writableEvery
	case errors.Is(err, pg.ErrReadOnly):
		w.config.Log.Warn("the engine's pool leads to a standby; it connects again", "error", err)
		w.config.EnginePool.Reset()
	default:
		w.config.Log.Warn("the engine's pool was not answered; asking again", "error", err, "in", poolAgain)
	}
	return poolAgain
}

// RecheckAll checks the claims in hand that are not quite new. It ends the handlers of cancelled and lost tasks, gives
// up the claims of tasks that still wait and were edited, cancelled or lost, and ends claims whose lease is over.
func (w *Worker) RecheckAll(ctx context.Context) {
	runs := w.inHand(checkEvery / 2)
	if len(runs) == 0 {
		return
	}
	w.endLapsed(runs)
	w.recheck(ctx, runs)
	w.writeStarts(ctx, runs)
}

// Recheck checks the claim with this fence, because its row has changed.
func (w *Worker) Recheck(ctx context.Context, fence string) {
	number, _ := strconv.ParseInt(fence, 10, 64) // no claim has the number 0
	if r := w.byFence(number); r != nil {
		w.recheck(ctx, []*run{r})
	}
}

func (w *Worker) recheck(ctx context.Context, runs []*run) {
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	states, err := w.config.Statements.Recheck(ctx, w.config.EnginePool, claimsOf(runs))
	if w.config.Answered(err); err != nil {
		w.config.Log.Warn("node could not recheck its running tasks", "tasks", len(runs), "error", err)
		return
	}
	for _, state := range states {
		r := w.byFence(state.Fence)
		switch {
		case r == nil: // it was settled meanwhile
		case !state.Held:
			r.changed(handlers.ErrLeaseLost)
		case state.Cancelled:
			r.changed(handlers.ErrCancelled)
		case !state.Current:
			r.changed(nil) // a running handler may finish, and its outcome is recorded as superseded
		}
	}
}

// longRun is how long an attempt runs before the node writes its start to its row. For shorter attempts only the
// history has the start, so that they cost no extra write.
const longRun = time.Second

// writeStarts writes the start and the node of attempts that have run for long to their rows. If an application has
// locked a row, the next look writes it.
func (w *Worker) writeStarts(ctx context.Context, runs []*run) {
	var claims []taskdb.Claim
	var starts []time.Time
	for _, r := range runs {
		r.mu.Lock()
		if a := r.attempt; a != nil && !a.called.IsZero() && !a.written && time.Since(a.called) >= longRun {
			claims, starts = append(claims, r.Claim), append(starts, a.startedAt)
		}
		r.mu.Unlock()
	}
	if len(claims) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	written, err := w.config.Statements.Start(ctx, w.config.EnginePool, w.config.Number, claims, starts)
	if err != nil {
		w.config.Log.Warn("node could not write the starts of its running tasks", "error", err)
	}
	for _, fence := range written {
		if r := w.byFence(fence); r != nil {
			r.mu.Lock()
			r.attempt.written = true
			r.mu.Unlock()
		}
	}
}
