package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/outcome"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// errFenceLost makes the transaction of a handler roll back, because the handler's claim was taken back and the task
// may have a new holder.
var errFenceLost = errors.New("the claim was taken back while the handler ran; its transaction is rolled back")

// callInTx calls a transactional handler, and settles its task in the handler's own transaction, so that the handler's
// writes and the completion of the task commit together. It returns what was settled. If nothing was, the outcome is
// recorded like that of any other handler. If others use the pool too, the wait for a connection may be long.
func (a *attempt) callInTx(ctx context.Context) (*taskdb.SettleResult, error) {
	tx, err := a.beginTx(ctx)
	if err != nil { // the handler has not begun, so this uses up no attempt
		return nil, notReady(fmt.Errorf("its transaction: %w", err))
	}
	// The rollback does not use ctx, because it must also happen after ctx is done, and after a panic or Goexit.
	defer func() { _ = tx.rollback(context.WithoutCancel(ctx)) }()
	if err := a.call(ctx, tx.querier, tx.handler); err != nil {
		return nil, err
	}
	done, err := a.settleTx(ctx, tx.querier)
	if err != nil {
		return nil, err
	}
	// The commit does not use ctx. The settlement has told the node that the claim has ended, which ends ctx, and
	// this must not stop the commit.
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	if err := tx.commit(committing); err != nil {
		// Nobody knows whether the transaction is committed. It is safe to record a failure. If the commit happened,
		// the fence is gone, and the node records nothing.
		return nil, fmt.Errorf("commit the handler's transaction: %w", err)
	}
	if done.DueSoon { // the leader can see the task's new due time only after the commit
		a.config.DueSoon()
	}
	return done, nil
}

// commitLimit is how long a commit may take. Only a server that does not answer at all takes longer.
const commitLimit = 10 * time.Second

// settleTx settles a completed attempt in tx. If an application has locked the row, settleTx waits for it, because no
// other task has to wait with this one.
func (a *attempt) settleTx(ctx context.Context, tx pg.DB) (*taskdb.SettleResult, error) {
	outcome := outcome.Decide(a.run.Claim, a.execution, nil, nil, a.config.Backoff)
	if outcome.Outcome != taskdb.OutcomeCompleted {
		return nil, handlers.Permanent(errors.New(*outcome.Error)) // an effect that cannot be applied
	}
	outcome.InTx = true
	// From here on the transaction holds the lock on the task's row. If the node is cut off now, the server must end
	// the transaction soon, so that the leader can take the task back.
	const settings = `SELECT set_config('idle_in_transaction_session_timeout', '5s', true),
		set_config('lock_timeout', '0', true)`
	if _, err := tx.Exec(ctx, settings); err != nil {
		return nil, fmt.Errorf("settle task %s: %w", a.run.ID, err)
	}
	for {
		done, err := a.config.Statements.SettleAll(
			ctx, tx, nil, &a.config.Number, a.config.Service, []taskdb.Settlement{outcome},
		)
		switch {
		case err != nil:
			return nil, err
		case len(done) == 1 && done[0].Settled:
			return &done[0], nil
		case len(done) == 1 && done[0].Held:
			// Postgres sees a transaction that waits for a lock. If the application's transaction waits for this one
			// too, Postgres ends one of the two.
			if err := a.config.Statements.WaitInOrder(ctx, tx, outcome); err != nil {
				return nil, err
			}
		default:
			return nil, errFenceLost
		}
	}
}

// handlerTx is a handler's transaction, of pgx or of database/sql.
type handlerTx struct {
	querier  pg.DB
	handler  handlers.Handler // runs in the transaction
	commit   func(context.Context) error
	rollback func(context.Context) error
}

// The isolation is given, whatever the database's default is. An edit that is committed while the handler runs must
// be seen when its task is settled.
const beginHandlerSQL = `BEGIN ISOLATION LEVEL READ COMMITTED; `

// If this machine vanishes while the handler runs, the transaction's locks must not last for hours, because the next
// attempt waits for them. The leader finds the transactions of a dead node by their application_name.
const handlerSettingsSQL = `SET LOCAL tcp_keepalives_idle = 1; SET LOCAL tcp_keepalives_interval = 1;
SET LOCAL tcp_keepalives_count = 3; SET LOCAL application_name = '%s'`

// beginTx begins the transaction that the handler takes.
func (a *attempt) beginTx(ctx context.Context) (handlerTx, error) {
	settings := fmt.Sprintf(
		handlerSettingsSQL, taskdb.HandlerName(a.config.Statements.Schema.String(), a.config.Number),
	)
	if a.variant.Kind == handlers.KindSQLTx {
		return a.beginSQLTx(ctx, settings)
	}
	tx, err := a.config.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginHandlerSQL + settings})
	if err != nil {
		return handlerTx{}, err
	}
	return handlerTx{
		querier: tx, commit: tx.Commit, rollback: tx.Rollback,
		handler: func(ctx context.Context, e *handlers.Execution) error { return a.variant.RunTx(ctx, tx, e) },
	}, nil
}

// beginSQLTx begins the transaction of a handler that takes a *sql.Tx.
func (a *attempt) beginSQLTx(ctx context.Context, settings string) (handlerTx, error) {
	tx, err := a.sqlDB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return handlerTx{}, err
	}
	// The simple protocol is needed, because the text has several statements.
	if _, err := tx.ExecContext(ctx, settings, pgx.QueryExecModeSimpleProtocol); err != nil {
		_ = tx.Rollback()
		return handlerTx{}, err
	}
	return handlerTx{
		querier:  pg.SQLQuerier{DB: store.SQL(tx)},
		commit:   func(context.Context) error { return tx.Commit() },
		rollback: func(context.Context) error { return tx.Rollback() },
		handler:  func(ctx context.Context, e *handlers.Execution) error { return a.variant.RunSQLTx(ctx, tx, e) },
	}, nil
}
