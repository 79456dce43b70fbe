package scheduled

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// handlerTx is a handler's transaction, of either kind.
type handlerTx struct {
	querier  querier
	commit   func(context.Context) error
	rollback func(context.Context) error
}

// An edit that is committed while the handler runs must be seen when its task is settled, whatever the database's
// default isolation.
const beginHandlerSQL = `BEGIN ISOLATION LEVEL READ COMMITTED; `

// If this machine vanishes while the handler runs, its locks must not outlive it for hours: the next attempt waits for
// them. By the name the leader finds the transactions of a node that is dead.
const handlerSettingsSQL = `SET LOCAL tcp_keepalives_idle = 1; SET LOCAL tcp_keepalives_interval = 1;
SET LOCAL tcp_keepalives_count = 3; SET LOCAL application_name = '%s'`

// handlerName is the application_name of the transactions of a node's handlers. Two schemas of one database may have
// nodes with the same number, so it has the schema's key, too. The schema's name may be too long: Postgres cuts
// application_name at 63 bytes.
func handlerName(schema string, node int64) string {
	return fmt.Sprintf("tasktable handler of node %d (%08x)", node, uint32(lockClass(schema, "node")))
}

// beginTx begins the transaction that the variant's handler takes, and returns what runs the handler in it.
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

// beginSQLTx begins the transaction of a handler that takes one of database/sql.
func (b *batch) beginSQLTx(
	ctx context.Context, variant *handlers.Variant, settings string,
) (handlerTx, handlers.Handler, error) {
	tx, err := b.sqlDB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return handlerTx{}, nil, err
	}
	// By the simple protocol, because the text has several statements.
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

// A role may end the backends of a role whose rights it has. For others Postgres would report an error. A backend that runs a statement
// goes on: it may be about to commit, and then the attempt has completed.
const endHandlersSQL = `
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = $1 AND pg_has_role(usesysid, 'USAGE')
    AND state IN ('idle in transaction', 'idle in transaction (aborted)')`

// endHandlers ends the transactions of a dead node's handlers. A process that is frozen, or cut off from the network,
// neither commits nor rolls them back, and the next attempts would wait for their locks. Where the leader has no right
// to end them, they last until the process goes on.
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
