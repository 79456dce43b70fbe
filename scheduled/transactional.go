package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// errFenceLost rolls a transactional handler back: its task is another's now.
var errFenceLost = errors.New("the claim was taken back while the handler ran; its transaction is rolled back")

// attemptTx runs a transactional handler and settles its task in the handler's own transaction, so that its writes and its
// completion commit together. It reports whether the task is settled; if not, the outcome is recorded like any other's.
func (b *batch) attemptTx(ctx context.Context, r *run, variant *handlers.Variant, e *handlers.Execution) (done bool, err error) {
	select { // fewer than the pool has, so that handlers waiting here leave it connections for its other users
	case b.txSlots <- struct{}{}:
		defer func() { <-b.txSlots }()
	case <-ctx.Done():
		return false, fmt.Errorf("wait for a transaction: %w", context.Cause(ctx))
	}
	if variant.Kind == handlers.KindSQLTx {
		return b.attemptSQLTx(ctx, r, variant, e)
	}
	tx, err := b.config.Pool.Begin(ctx)
	if err != nil {
		return false, fmt.Errorf("begin the handler's transaction: %w", err)
	}
	// Not ctx: the rollback must happen after ctx is done, and after a panic or Goexit, too.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := variant.RunTx(ctx, tx, e); err != nil {
		return false, err
	}
	if err := b.settleTx(ctx, tx, r, e); err != nil {
		return false, err
	}
	if err := tx.Commit(ctx); err != nil {
		// Committed or not is unknown. Recording a failure is safe: if the commit happened, the fence is gone, and nothing is
		// recorded.
		return false, fmt.Errorf("commit the handler's transaction: %w", err)
	}
	return true, nil
}

func (b *batch) attemptSQLTx(ctx context.Context, r *run, variant *handlers.Variant, e *handlers.Execution) (done bool, err error) {
	tx, err := b.sqlDB.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("begin the handler's transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := variant.RunSQLTx(ctx, tx, e); err != nil {
		return false, err
	}
	if err := b.settleTx(ctx, sqlQuerier{store.SQL(tx)}, r, e); err != nil {
		return false, err
	}
	if err := tx.Commit(); err != nil {
		return false, fmt.Errorf("commit the handler's transaction: %w", err)
	}
	return true, nil
}

// settleTx settles a completed attempt in tx. A row that an application has locked is waited for: nobody else waits with it.
func (b *batch) settleTx(ctx context.Context, tx querier, r *run, e *handlers.Execution) error {
	outcome := conclude(r.hold, e, nil, nil, b.config.Backoff)
	if outcome.Outcome != outcomeCompleted {
		return handlers.Permanent(errors.New(*outcome.Error)) // an effect that cannot be applied
	}
	for {
		done, err := b.statements.settleAll(ctx, tx, nil, &b.settler.node, b.settler.service, []settlement{outcome})
		switch {
		case err != nil:
			return err
		case len(done) == 1 && done[0].Settled:
			if done[0].DueSoon {
				b.settler.dueSoon()
			}
			return nil
		case len(done) == 1 && done[0].Held:
			select {
			case <-ctx.Done():
				return fmt.Errorf("settle task %s: its row is locked: %w", r.ID, context.Cause(ctx))
			case <-time.After(20 * time.Millisecond):
			}
		default:
			return errFenceLost
		}
	}
}

// sqlQuerier makes a querier of a store.DB: the engine's statements then run in a database/sql transaction, too.
type sqlQuerier struct{ store.DB }

func (q sqlQuerier) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return pgconn.CommandTag{}, rows.Err()
}
