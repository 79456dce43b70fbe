package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/session"
)

var idleBench = Bench{
	Name: "idle", Short: "What nodes with nothing to do ask of the database",
	Long: `Counts the transactions of one idle node during a minute, River's own included, and then those of three
nodes. It counts them in the client, because the server's own count comes up to a minute late. A transaction that
carries several statements is one round trip. The empty statements with which the pool tests its connections count
too.`,
	Verified: "the nodes lived through the minute", measure: measureIdle,
}

const idleSettle = 5 * time.Second // statements at the start do not count as idle

func measureIdle(ctx context.Context, config Config, result *Result) error {
	for _, one := range []struct {
		nodes      int
		suffix, of string
	}{{1, "", "one node"}, {3, "_3", "three nodes together"}} {
		transactions, statements, err := idle(ctx, config, one.nodes)
		if err != nil {
			return err
		}
		result.add("transactions_per_minute"+one.suffix, float64(transactions), "of "+one.of)
		result.add("statements_per_minute"+one.suffix, float64(statements), "of "+one.of)
	}
	return nil
}

// counter counts the statements that connections send. It sees the engine's connections, because they take over the
// settings of the pool that the engine gets.
type counter struct{ transactions, statements atomic.Int64 }

var (
	_ pgx.QueryTracer = (*counter)(nil)
	_ pgx.BatchTracer = (*counter)(nil)
)

// TraceQueryStart counts a statement. It counts a transaction if none is open, so for a single statement or for
// BEGIN.
func (c *counter) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	if conn.PgConn().TxStatus() == 'I' {
		c.transactions.Add(1)
	}
	return ctx
}

// TraceQueryEnd counts nothing.
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart counts a round trip of several statements as a transaction.
func (c *counter) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	c.statements.Add(int64(data.Batch.Len()))
	if conn.PgConn().TxStatus() == 'I' {
		c.transactions.Add(1)
	}
	return ctx
}

// TraceBatchQuery counts nothing.
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd counts nothing.
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// ping is the rule of the engine's pool for when to test a connection. It counts the test as a transaction.
func (c *counter) ping(_ context.Context, params pgxpool.ShouldPingParams) bool {
	if params.IdleDuration <= session.PingAfter {
		return false
	}
	c.statements.Add(1)
	c.transactions.Add(1)
	return true
}

func idle(ctx context.Context, config Config, nodes int) (transactions, statements int64, err error) {
	counted := &counter{}
	err = within(ctx, config, func(d *database) (err error) {
		d.Tracer, d.Ping = counted, counted.ping
		for range nodes {
			n, err := startNode(ctx, d, config, 0, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, n.stop()) }()
		}
		if err := pass(ctx, idleSettle); err != nil {
			return err
		}
		config.Say("%d idle: counting for %s", nodes, config.Idle)
		counted.transactions.Store(0)
		counted.statements.Store(0)
		if err := pass(ctx, config.Idle); err != nil {
			return err
		}
		transactions, statements = counted.transactions.Load(), counted.statements.Load()
		var alive int
		if err := d.Scan(ctx, `SELECT count(*) FROM tasktable.nodes WHERE dead_at IS NULL`, nil, &alive); err != nil {
			return err
		}
		if alive != nodes {
			return failed("%d of %d nodes live", alive, nodes)
		}
		return nil
	})
	perMinute := func(counted int64) int64 {
		return int64(float64(counted) * time.Minute.Seconds() / config.Idle.Seconds())
	}
	return perMinute(transactions), perMinute(statements), err
}

// pass waits for a duration, or until ctx ends.
func pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
