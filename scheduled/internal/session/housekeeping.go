package session

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"
)

// Housekeeping runs the transactions of retention, the leader's walk, table statistics and others on the engine's pool.
// They hold at most half of its connections at once. Otherwise they could hold all connections of a small pool. Then
// claims would wait too long for their start, and outcomes for their record, and the node would end itself.
// Transactions that wait for a connection get one in their order. Housekeeping is safe for concurrent use.
type Housekeeping struct {
	pool  *pgxpool.Pool
	turns *semaphore.Weighted
}

// NewHousekeeping makes the housekeeping of a pool. It has half of the pool's connections, and at least one.
func NewHousekeeping(pool *pgxpool.Pool) *Housekeeping {
	return &Housekeeping{pool, semaphore.NewWeighted(max(int64(pool.Config().MaxConns)/2, 1))}
}

// Do runs do in a transaction. Postgres ends a statement of it that takes longer than limit, or that waits for a lock
// for 200 ms. The whole transaction may take AnswerLimit longer. do must not call Do.
func (h *Housekeeping) Do(ctx context.Context, limit time.Duration, do func(context.Context, pgx.Tx) error) error {
	if err := h.turns.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for other housekeeping: %w", err)
	}
	defer h.turns.Release(1)
	ctx, cancel := context.WithTimeout(ctx, limit+AnswerLimit)
	defer cancel()
	begin := fmt.Sprintf("BEGIN; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = 200", limit.Milliseconds())
	return pgx.BeginTxFunc(ctx, h.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return do(ctx, tx) })
}
