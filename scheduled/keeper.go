package scheduled

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
)

// keeper looks each second after the claims in this node's hands: it ends the handlers of cancelled and lost tasks, has
// edited ones released that still wait, and renews the leases of those that wait long for a slot. NOTIFY only hastens it.
type keeper struct {
	worker *worker
	vitals *vitals
}

// every is a second, or less where the start allowance is short: a lease must be renewed before it is over.
func (k *keeper) every() time.Duration { return min(time.Second, k.worker.config.StartAllowance/4) }

// run works until ctx is done.
func (k *keeper) run(ctx context.Context) {
	ticker := time.NewTicker(k.every())
	defer ticker.Stop()
	writable := time.NewTicker(writableEvery)
	defer writable.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.runOnce(ctx)
		case <-writable.C:
			writable.Reset(k.askPool(ctx))
		}
	}
}

const (
	// writableEvery is how often the pool is asked whether it still leads to a server that takes writes, and so whether it is answered.
	writableEvery = 10 * time.Second
	// answerLimit is how long an answer of the engine's pool may take. Then it counts as none.
	answerLimit = 5 * time.Second
	// poolAgain is when the pool is asked again after that.
	poolAgain = 2 * time.Second
	// linkLeast is how many bytes a second a link carries at least. A statement with large payloads has as much more
	// time.
	linkLeast = 32 << 10
)

// limitFor is how long a statement may take that carries so many bytes.
func limitFor(bytes int) time.Duration {
	return answerLimit + time.Duration(bytes)*time.Second/linkLeast
}

// askPool asks over the engine's pool what River runs on this node, and has claims released that the node never got.
// The pool connects anew if it leads to a standby. The session sees that for itself; but the two may go different ways,
// past a proxy or not, and River, which could fetch nothing over such connections, keeps them. It returns when to ask
// again.
func (k *keeper) askPool(ctx context.Context) (again time.Duration) {
	asking, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var strays []strayJob
	err := k.worker.enginePool.AcquireFunc(asking, func(conn *pgxpool.Conn) (err error) {
		strays, err = k.worker.statements.lookAtPool(asking, conn.Conn(), k.worker.settler.node, k.worker.jobsInHand())
		return err
	})
	k.worker.heard(err)
	switch {
	case err == nil:
		k.vitals.answers(true)
		for _, stray := range strays {
			k.worker.releasing.Go(func() { k.worker.release(stray) })
		}
		return writableEvery
	case ctx.Err() != nil:
		return writableEvery
	case errors.Is(err, errReadOnly):
		k.worker.log.Warn("the pool's connections lead to a standby; connecting anew", "error", err)
		k.worker.enginePool.Reset()
	default:
		k.worker.log.Warn("the engine's pool was not answered; asking again", "error", err, "in", poolAgain)
	}
	k.vitals.answers(false)
	return poolAgain
}

// runOnce does one pass over the claims that are not quite new.
func (k *keeper) runOnce(ctx context.Context) {
	runs := k.worker.inHand(k.every() / 2)
	if len(runs) == 0 {
		return
	}
	k.endLapsed(runs)
	if err := k.recheck(ctx, runs); err != nil {
		k.worker.log.Warn("running tasks not rechecked", "tasks", len(runs), "error", err)
	}
	if err := k.writeStarts(ctx, runs); err != nil {
		k.worker.log.Warn("starts of running tasks not written", "error", err)
	}
	if err := k.renew(runs); err != nil {
		k.worker.log.Warn("leases of waiting tasks not renewed", "error", err)
	}
}

// endLapsed ends claims whose lease is over although their handlers still run: they ignore their contexts. Nobody else
// looks for such claims while this node lives. An outcome that is being recorded comes first.
func (k *keeper) endLapsed(runs []*run) {
	for _, r := range runs {
		if loss, over := r.lapsed(time.Now()); over {
			r.batch.end(r, loss)
		}
	}
}

func (k *keeper) recheck(ctx context.Context, runs []*run) error {
	holds := make([]hold, len(runs))
	for i, r := range runs {
		holds[i] = r.hold
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	states, err := k.worker.statements.recheck(ctx, k.worker.enginePool, holds)
	k.worker.heard(err)
	if err != nil {
		return err
	}
	for _, state := range states {
		r := k.worker.byFence(state.Fence)
		switch {
		case r == nil: // settled meanwhile
		case !state.Held:
			k.worker.changed(r, handlers.ErrLeaseLost)
		case state.Cancelled:
			k.worker.changed(r, handlers.ErrCancelled)
		case !state.Current:
			k.worker.changed(r, nil) // a running handler may finish: its outcome is recorded as superseded
		}
	}
	return nil
}

// renew keeps tasks that wait for a slot from being taken for lost.
func (k *keeper) renew(runs []*run) error {
	allowance := k.worker.config.StartAllowance
	var holds []hold
	for _, r := range runs {
		r.mu.Lock()
		if r.lease == nil && time.Since(r.renewed) > allowance/2 {
			holds = append(holds, r.hold)
		}
		r.mu.Unlock()
	}
	if len(holds) == 0 {
		return nil
	}
	renewed, err := k.worker.extend(holds, nil)
	if err != nil {
		return err
	}
	for fence := range renewed {
		if r := k.worker.byFence(fence); r != nil {
			r.mu.Lock()
			r.renewed = time.Now()
			r.mu.Unlock()
		}
	}
	return nil
}

// one looks at a single claim: what a notification names.
func (k *keeper) one(ctx context.Context, fence int64) {
	r := k.worker.byFence(fence)
	if r == nil {
		return
	}
	if err := k.recheck(ctx, []*run{r}); err != nil {
		k.worker.log.Warn("running task not rechecked", "task", r.ID, "revision", r.Revision, "attempt", r.Attempt, "error", err)
	}
}
