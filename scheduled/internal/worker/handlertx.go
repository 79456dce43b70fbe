package worker

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// handlerTx is a handler's transaction, of pgx or of database/sql.
type handlerTx struct {
	querier  pg.DB
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

// beginTx begins the transaction that the variant's handler takes. It also returns the function that runs the handler
// in that transaction.
func (w *Worker) beginTx(ctx context.Context, variant *handlers.Variant) (handlerTx, handlers.Handler, error) {
	settings := fmt.Sprintf(
		handlerSettingsSQL, taskdb.HandlerName(w.config.Statements.Schema.String(), w.config.Number),
	)
	if variant.Kind == handlers.KindSQLTx {
		return w.beginSQLTx(ctx, variant, settings)
	}
	tx, err := w.config.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginHandlerSQL + settings})
	if err != nil {
		return handlerTx{}, nil, err
	}
	return handlerTx{querier: tx, commit: tx.Commit, rollback: tx.Rollback},
		func(ctx context.Context, e *handlers.Execution) error { return variant.RunTx(ctx, tx, e) }, nil
}

// beginSQLTx begins the transaction of a handler that takes a *sql.Tx.
func (w *Worker) beginSQLTx(
	ctx context.Context, variant *handlers.Variant, settings string,
) (handlerTx, handlers.Handler, error) {
	tx, err := w.sqlDB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return handlerTx{}, nil, err
	}
	// The simple protocol is needed, because the text has several statements.
	if _, err := tx.ExecContext(ctx, settings, pgx.QueryExecModeSimpleProtocol); err != nil {
		_ = tx.Rollback()
		return handlerTx{}, nil, err
	}
	return handlerTx{
			querier: pg.SQLQuerier{DB: store.SQL(tx)}, commit: func(context.Context) error { return tx.Commit() },
			rollback: func(context.Context) error { return tx.Rollback() },
		},
		func(ctx context.Context, e *handlers.Execution) error { return variant.RunSQLTx(ctx, tx, e) }, nil
}
