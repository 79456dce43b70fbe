package scheduled

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// handlerTx is a handler's transaction, of pgx or of database/sql.
type handlerTx struct {
	querier  taskdb.DB
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

// handlerName is the application_name of the transactions of a node's handlers. Two schemas of one database may have
// nodes with the same number, so the name also has the schema's key. It does not have the schema's name, which may be
// too long: Postgres cuts application_name at 63 bytes.
func handlerName(schema string, node int64) string {
	return fmt.Sprintf("tasktable handler of node %d (%08x)", node, uint32(taskdb.LockClass(schema, "node")))
}

// beginTx begins the transaction that the variant's handler takes. It also returns the function that runs the handler
// in that transaction.
func (b *batch) beginTx(ctx context.Context, variant *handlers.Variant) (handlerTx, handlers.Handler, error) {
	settings := fmt.Sprintf(handlerSettingsSQL, handlerName(b.config.Schema, b.settler.node))
	if variant.Kind == handlers.KindSQLTx {
		return b.beginSQLTx(ctx, variant, settings)
	}
	tx, err := b.config.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginHandlerSQL + settings})
	if err != nil {
		return handlerTx{}, nil, err
	}
	return handlerTx{querier: tx, commit: tx.Commit, rollback: tx.Rollback},
		func(ctx context.Context, e *handlers.Execution) error { return variant.RunTx(ctx, tx, e) }, nil
}

// beginSQLTx begins the transaction of a handler that takes a *sql.Tx.
func (b *batch) beginSQLTx(
	ctx context.Context, variant *handlers.Variant, settings string,
) (handlerTx, handlers.Handler, error) {
	tx, err := b.sqlDB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return handlerTx{}, nil, err
	}
	// The simple protocol is needed, because the text has several statements.
	if _, err := tx.ExecContext(ctx, settings, pgx.QueryExecModeSimpleProtocol); err != nil {
		_ = tx.Rollback()
		return handlerTx{}, nil, err
	}
	return handlerTx{
			querier: sqlQuerier{store.SQL(tx)}, commit: func(context.Context) error { return tx.Commit() },
			rollback: func(context.Context) error { return tx.Rollback() },
		},
		func(ctx context.Context, e *handlers.Execution) error { return variant.RunSQLTx(ctx, tx, e) }, nil
}

// A role may end the backends of a role whose rights it has. For other backends Postgres would report an error, so
// these are left out. A backend that runs a statement is not ended, because it may be about to commit, and then the
// attempt has completed.
const endHandlersSQL = `
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = $1 AND pg_has_role(usesysid, 'USAGE')
    AND state IN ('idle in transaction', 'idle in transaction (aborted)')`

// endHandlers ends the transactions of a dead node's handlers. A process that is frozen, or cut off from the network,
// neither commits them nor rolls them back, and the next attempts would wait for their locks. If the leader has no
// right to end them, they last until the process goes on.
func (l *leader) endHandlers(ctx context.Context, tx pgx.Tx, node int64) {
	var ended int
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		return savepoint.QueryRow(ctx, endHandlersSQL, handlerName(l.session.schema, node)).Scan(&ended)
	})
	switch {
	case err != nil:
		l.log.Warn("the transactions of a dead node's handlers cannot be ended; they keep their locks",
			"dead", node, "error", err)
	case ended > 0:
		l.log.Warn("the transactions of a dead node's handlers were ended", "dead", node, "transactions", ended)
	}
}
