package scheduled

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// leaseRenewer checks each second the claims in this node's hands. It ends the handlers of cancelled and lost tasks. It
// releases tasks that still wait and were edited. It renews the leases of tasks that wait long for a slot. NOTIFY
// only makes it check sooner.
type leaseRenewer struct {
	worker *worker
	vitals *healthState
}

// every is the pause between two checks. It is a second, or less if the start allowance is short, because a lease
// must be renewed before it ends.
func (k *leaseRenewer) every() time.Duration {
	return min(time.Second, k.worker.config.StartAllowance/4)
}

// run works until ctx is done.
func (k *leaseRenewer) run(ctx context.Context) {
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
	// writableEvery is how often the node asks the pool whether it still leads to a server that takes writes. This
	// also shows whether the pool answers.
	writableEvery = 10 * time.Second
	// answerLimit is how long an answer of the engine's pool may take. A later answer counts as no answer.
	answerLimit = 5 * time.Second
	// poolAgain is when the node asks the pool again after that.
	poolAgain = 2 * time.Second
	// minLinkTime is how many bytes a second a link carries at least. A statement with large payloads has more time
	// accordingly.
	minLinkTime = 32 << 10
)

// limitFor is the time limit of a statement that carries the given number of bytes.
func limitFor(bytes int) time.Duration {
	return answerLimit + time.Duration(bytes)*time.Second/minLinkTime
}

// askPool asks over the engine's pool which jobs River runs on this node, and releases the claims that the node never
// received. It returns when to ask again.
//
// If the pool leads to a standby, askPool makes it connect anew. The session notices a standby by itself. But the
// pool and the session may reach different servers, because one may go through a proxy and the other not. River could
// fetch nothing over connections to a standby, and would still keep them.
func (k *leaseRenewer) askPool(ctx context.Context) (again time.Duration) {
	asking, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var strays []taskdb.StrayJob
	err := k.worker.enginePool.AcquireFunc(asking, func(conn *pgxpool.Conn) (err error) {
		strays, err = k.worker.statements.LookAtPool(asking, conn.Conn(), k.worker.settler.node, k.worker.jobsInHand())
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
	case errors.Is(err, taskdb.ErrReadOnly):
		k.worker.log.Warn("the engine's pool leads to a standby; it connects again", "error", err)
		k.worker.enginePool.Reset()
	default:
		k.worker.log.Warn("the engine's pool was not answered; asking again", "error", err, "in", poolAgain)
	}
	k.vitals.answers(false)
	return poolAgain
}

// runOnce checks once the claims that are not quite new.
func (k *leaseRenewer) runOnce(ctx context.Context) {
	runs := k.worker.inHand(k.every() / 2)
	if len(runs) == 0 {
		return
	}
	k.endLapsed(runs)
	if err := k.recheck(ctx, runs); err != nil {
		k.worker.log.Warn("node could not recheck its running tasks", "tasks", len(runs), "error", err)
	}
	if err := k.writeStarts(ctx, runs); err != nil {
		k.worker.log.Warn("node could not write the starts of its running tasks", "error", err)
	}
	if err := k.renew(runs); err != nil {
		k.worker.log.Warn("node could not renew the leases of its waiting tasks", "error", err)
	}
}

// endLapsed ends claims whose lease is over although their handlers still run, because the handlers ignore their
// contexts. Nothing else looks for such claims while this node lives. If an outcome is being recorded, that outcome
// wins.
func (k *leaseRenewer) endLapsed(runs []*run) {
	for _, r := range runs {
		if loss, over := r.lapsed(time.Now()); over {
			r.batch.end(r, loss)
		}
	}
}

func (k *leaseRenewer) recheck(ctx context.Context, runs []*run) error {
	holds := make([]taskdb.Claim, len(runs))
	for i, r := range runs {
		holds[i] = r.Claim
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	states, err := k.worker.statements.Recheck(ctx, k.worker.enginePool, holds)
	k.worker.heard(err)
	if err != nil {
		return err
	}
	for _, state := range states {
		r := k.worker.byFence(state.Fence)
		switch {
		case r == nil: // it was settled meanwhile
		case !state.Held:
			k.worker.changed(r, handlers.ErrLeaseLost)
		case state.Cancelled:
			k.worker.changed(r, handlers.ErrCancelled)
		case !state.Current:
			k.worker.changed(r, nil) // a running handler may finish, and its outcome is recorded as superseded
		}
	}
	return nil
}

// renew extends the leases of tasks that wait for a slot, so that they do not count as lost.
func (k *leaseRenewer) renew(runs []*run) error {
	allowance := k.worker.config.StartAllowance
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

// one checks the single claim that a notification names.
func (k *leaseRenewer) one(ctx context.Context, fence int64) {
	r := k.worker.byFence(fence)
	if r == nil {
		return
	}
	if err := k.recheck(ctx, []*run{r}); err != nil {
		k.worker.log.Warn("node could not recheck a running task",
			"task", r.ID, "revision", r.Revision, "attempt", r.Attempt, "error", err)
	}
}
