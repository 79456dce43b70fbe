package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled"
)

// serverSQL identifies a server and a database. A primary and its standby have different start times. The time is a
// number, because the session's connection may write times in any style.
const serverSQL = `
SELECT d.oid::bigint AS database, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS began
FROM pg_database AS d WHERE d.datname = current_database()`

type serverRow struct {
	Database int64
	Began    int64
}

// pooler checks, as a node does at its start, whether the connections go through a pooler. The session's connection
// must not, because it would share its locks with other clients.
func (e *examination) pooler(ctx context.Context) error {
	pooled := scheduled.CheckDirect(ctx, e.tx.Conn())
	if pooled != nil && !errors.Is(pooled, scheduled.ErrPooler) {
		return pooled
	}
	here, err := row[serverRow](ctx, e, serverSQL)
	if err != nil {
		return err
	}
	session, err := e.config.Connect(ctx)
	if err != nil {
		e.fail("correct TASKTABLE_SESSION_DATABASE_URL (Config.Connect)", "a node's session cannot connect: %s",
			line(err.Error()))
		return nil
	}
	defer closeConn(ctx, session)
	direct := scheduled.CheckDirect(ctx, session)
	switch {
	case errors.Is(direct, scheduled.ErrPooler):
		e.fail("TASKTABLE_SESSION_DATABASE_URL=postgres://… with host and port of Postgres itself (Config.Connect in "+
			"your program)",
			"a node's session goes through a pooler: nodes refuse to start, because other clients would share their "+
				"locks")
		return nil
	case direct != nil:
		return direct
	}
	found, err := session.Query(ctx, serverSQL, pgx.QueryExecModeExec)
	if err != nil {
		return fmt.Errorf("ask the session's server: %w", err)
	}
	there, err := pgx.CollectExactlyOneRow(found, pgx.RowToStructByName[serverRow])
	if err != nil {
		return fmt.Errorf("ask the session's server: %w", err)
	}
	switch {
	case there != here:
		e.fail("give both URLs the same server and database",
			"TASKTABLE_SESSION_DATABASE_URL leads to another server or database than DATABASE_URL: "+
				"what is scheduled on one is looked for on the other")
	case pooled != nil:
		e.ok("the pool goes through a pooler, and the session does not")
	default:
		e.ok("no pooler: the session's locks are its own")
	}
	return nil
}

// closeConn closes a connection, even if ctx has ended. It waits a second at most.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
