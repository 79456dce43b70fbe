package taskdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// completeSQL records attempts that were completed and whose tasks were not edited meanwhile, as nearly all are. It
// costs a little more than half of settleSQL, because it does not lock rows before it writes them. If an
// application's transaction has locked a row, the statement waits a moment and then gives up. It sets this limit
// itself, before it locks the first row.
const completeSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, set_config('lock_timeout', '20ms', true)
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t
    SET status = 'COMPLETED', fence = NULL, lease_expires_at = NULL, started_at = s.started_at, finished_at = clock.now,
        last_status_update = clock.now,
        message = s.message, result = s.result::jsonb
    FROM unnest(` + attemptArrays + `) AS s (` + attemptNames + `)
        CROSS JOIN clock
    -- ANY, because an equality could be merge-joined. With stale statistics that would read the whole primary key.
    WHERE t.id = ANY (ARRAY[s.id]) AND t.fence = s.fence AND t.status = 'EXECUTING' AND t.revision = s.revision
    RETURNING s.fence, s.id, s.type, s.revision, s.attempt, s.scheduled_at, s.due_at, s.started_at, clock.now
), ended AS (
    SELECT u.fence, u.id AS task_id, u.type, u.revision, u.attempt, u.scheduled_at, u.due_at, u.started_at,
        u.now AS finished_at, 'COMPLETED' AS outcome, NULL AS error, $12::bigint AS node
    FROM updated AS u
), ` + recordedSQL + `
SELECT u.fence FROM updated AS u`

// plain reports whether completeSQL can record the settlement.
func (s *Settlement) plain() bool {
	return s.To == store.StatusCompleted && s.Outcome == OutcomeCompleted &&
		s.Effects.Again == nil && len(s.Effects.FollowUps) == 0
}

// Complete records attempts that were completed, and returns those that it recorded. The others are left for Settle.
// If another transaction has locked one of the rows, all are left for Settle. It must not run in a longer transaction,
// because its time limit for locks holds until the end of the transaction.
func (s Queries) Complete(
	ctx context.Context, q pg.DB, now *time.Time, node *int64, settlements []Settlement,
) (done []SettleResult, err error) {
	rows, err := q.Query(ctx, s.Schema.SQL(completeSQL), attemptArgs(now, node, settlements)...)
	if err == nil {
		done = make([]SettleResult, 0, len(settlements))
		one := SettleResult{
			Settled: true, Current: true, Status: string(store.StatusCompleted), Recorded: OutcomeCompleted,
		}
		_, err = pgx.ForEachRow(rows, []any{&one.Fence}, func() error { done = append(done, one); return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("complete %d tasks: %w", len(settlements), err)
	}
	return done, nil
}

// CompleteOrSettle settles attempts that have no effects on other tasks. It uses the cheapest statement for each. If
// it returns an error, it still returns the attempts that are settled.
func (s Queries) CompleteOrSettle(
	ctx context.Context, q pg.DB, node *int64, settlements []Settlement,
) (done []SettleResult, err error) {
	plain, rest := split(settlements, (*Settlement).plain)
	if len(plain) > 0 {
		if done, err = s.Complete(ctx, q, nil, node, plain); err != nil && !pg.IsTimeout(err) && !pg.IsDataError(err) {
			return nil, err
		}
		if len(done) < len(plain) {
			recorded := ByFence(done)
			_, left := split(plain, func(one *Settlement) bool { return recorded[one.Fence].Settled })
			rest = append(rest, left...)
		}
	}
	if len(rest) == 0 {
		return done, nil
	}
	settledRest, err := s.Settle(ctx, q, nil, node, rest)
	return append(done, settledRest...), err
}
