package worker

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// leaseRenewer checks each second the claims in this node's hands. It ends the handlers of cancelled and lost tasks. It
// releases tasks that still wait and were edited. It has the leases of tasks that wait long for a slot renewed, and
// the claims ended whose lease is over (both in lease.go). NOTIFY only makes it check sooner.
type leaseRenewer struct {
	worker *Worker
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
	writable := time.NewTicker(WritableEvery)
	defer writable.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.runOnce(ctx)
		case <-writable.C:
			writable.Reset(k.AskPool(ctx))
		}
	}
}

const (
	// WritableEvery is how often the node asks the pool whether it still leads to a server that takes writes. This
	// also shows whether the pool answers.
	WritableEvery = 10 * time.Second
	// PoolAgain is when the node asks the pool again after that.
	PoolAgain = 2 * time.Second
)

// AskPool asks over the engine's pool which jobs River runs on this node, and releases the claims that the node never
// received. It returns when to ask again.
//
// If the pool leads to a standby, AskPool makes it connect anew. The session notices a standby by itself. But the
// pool and the session may reach different servers, because one may go through a proxy and the other not. River could
// fetch nothing over connections to a standby, and would still keep them.
func (k *leaseRenewer) AskPool(ctx context.Context) (again time.Duration) {
	asking, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	var strays []taskdb.StrayJob
	err := k.worker.config.EnginePool.AcquireFunc(asking, func(conn *pgxpool.Conn) (err error) {
		strays, err = k.worker.config.Statements.LookAtPool(
			asking, conn.Conn(), k.worker.config.Number, k.worker.JobsInHand(),
		)
		return err
	})
	k.worker.config.Heard(err)
	switch {
	case err == nil:
		for _, stray := range strays {
			k.worker.releasing.Go(func() { k.worker.Release(stray) })
		}
		return WritableEvery
	case ctx.Err() != nil:
		return WritableEvery
	case errors.Is(err, pg.ErrReadOnly):
		k.worker.config.Log.Warn("the engine's pool leads to a standby; it connects again", "error", err)
		k.worker.config.EnginePool.Reset()
	default:
		k.worker.config.Log.Warn("the engine's pool was not answered; asking again", "error", err, "in", PoolAgain)
	}
	return PoolAgain
}

// runOnce checks once the claims that are not quite new.
func (k *leaseRenewer) runOnce(ctx context.Context) {
	k.worker.lookForHung(time.Now())
	runs := k.worker.InHand(k.every() / 2)
	if len(runs) == 0 {
		return
	}
	k.worker.endLapsed(runs)
	if err := k.recheck(ctx, runs); err != nil {
		k.worker.config.Log.Warn("node could not recheck its running tasks", "tasks", len(runs), "error", err)
	}
	if err := k.WriteStarts(ctx, runs); err != nil {
		k.worker.config.Log.Warn("node could not write the starts of its running tasks", "error", err)
	}
	if err := k.worker.renew(runs); err != nil {
		k.worker.config.Log.Warn("node could not renew the leases of its waiting tasks", "error", err)
	}
}

func (k *leaseRenewer) recheck(ctx context.Context, runs []*Run) error {
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	states, err := k.worker.config.Statements.Recheck(ctx, k.worker.config.EnginePool, claimsOf(runs))
	k.worker.config.Heard(err)
	if err != nil {
		return err
	}
	for _, state := range states {
		r := k.worker.byFence(state.Fence)
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
	return nil
}

// one checks the single claim that a notification names.
func (k *leaseRenewer) one(ctx context.Context, fence int64) {
	r := k.worker.byFence(fence)
	if r == nil {
		return
	}
	if err := k.recheck(ctx, []*Run{r}); err != nil {
		k.worker.config.Log.Warn("node could not recheck a running task",
			"task", r.ID, "revision", r.Revision, "attempt", r.Attempt, "error", err)
	}
}

// LongRun is how long an attempt runs before the node writes its start to its row. For shorter attempts only the
// history has the start, so that they cost no extra write.
const LongRun = time.Second

// unwritten returns when the attempt started. ok is true if the attempt has run for long and its row does not show
// the start yet.
func (r *Run) unwritten(now time.Time) (startedAt time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.attempt
	if a == nil || a.called.IsZero() || a.written || now.Sub(a.called) < LongRun {
		return time.Time{}, false
	}
	return a.startedAt, true
}

// WriteStarts writes the start and the node of attempts that have run for long to their rows. If an application has
// locked a row, the next look writes it.
func (k *leaseRenewer) WriteStarts(ctx context.Context, runs []*Run) error {
	now := time.Now()
	var claims []taskdb.Claim
	var starts []time.Time
	for _, r := range runs {
		if startedAt, ok := r.unwritten(now); ok {
			claims, starts = append(claims, r.Claim), append(starts, startedAt)
		}
	}
	if len(claims) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	written, err := k.worker.config.Statements.Start(
		ctx, k.worker.config.EnginePool, k.worker.config.Number, claims, starts,
	)
	if err != nil {
		return err
	}
	for _, fence := range written {
		if r := k.worker.byFence(fence); r != nil {
			r.mu.Lock()
			r.attempt.written = true
			r.mu.Unlock()
		}
	}
	return nil
}
