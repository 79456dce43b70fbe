package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Claims as claimSQL does, for four fifths of its cost: it locks no row before it writes it, and so waits a moment for one that an
// application's transaction has locked, and then gives up. A row that was edited since it was picked has another revision, and is left for
// the next pass.
const claimFreeSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), lane AS MATERIALIZED (
    SELECT * FROM unnest($4::text[], $5::text[], $6::int[], $7::int[], $8::int[], $11::int[], $12::int[], $13::timestamptz[]) AS l (queue, type, priority, pool, room, near, cost, head)
), picked AS MATERIALIZED (
    SELECT ranked.tid, ranked.revision, ranked.next_attempt_at, ranked.expired
    FROM (
        SELECT head.*, CASE WHEN head.next_attempt_at > clock.now THEN least(lane.near, lane.room) ELSE lane.room END AS room,
            sum(lane.cost) OVER (PARTITION BY lane.pool ORDER BY head.next_attempt_at > clock.now, lane.priority DESC, head.next_attempt_at ROWS UNBOUNDED PRECEDING) AS place
        FROM lane CROSS JOIN clock CROSS JOIN LATERAL (
            SELECT t.ctid AS tid, t.revision, t.next_attempt_at,
                ` + expiredColumn + `
            FROM tasktable.scheduled_tasks AS t
            WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
                AND t.next_attempt_at >= CASE WHEN lane.head <= '1970-01-01' THEN '-infinity' ELSE lane.head END
                AND t.next_attempt_at <= clock.now + $2::interval AND t.id <> ALL ($10::text[])
            ORDER BY t.next_attempt_at
            LIMIT least(lane.room / lane.cost + 1, $9::int)
        ) AS head
    ) AS ranked
    WHERE ranked.place <= ranked.room
    ORDER BY ranked.place
    LIMIT $9::int
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t ` + claimSet + `
    FROM picked AS chosen CROSS JOIN clock
    -- Seen again where the row was written meanwhile. coalesce, as in claimSQL: not by the index of waiting tasks.
    WHERE t.ctid = chosen.tid AND coalesce(t.next_attempt_at = chosen.next_attempt_at, false) AND t.revision = chosen.revision AND t.cron IS NULL
    RETURNING t.id, t.type, t.queue, t.priority, t.fence, t.revision, t.attempt, t.scheduled_at,
        -- -infinity would not fit the client's times.
        greatest(chosen.next_attempt_at, '1970-01-01'::timestamptz) AS due, ` + bytesColumn + `
` + claimResult + `
ORDER BY priority DESC, due, id`

const sessionLockSQL = `SELECT set_config('lock_timeout', '200ms', true)`

// claimFree is claim where nobody is likely to have locked a task: it fails, as isLocked tells, if somebody has, and with it the
// transaction.
func (s statements) claimFree(
	ctx context.Context, q batcher, now *time.Time, lookAhead, allowance time.Duration, lanes []laneBudget, most int, aside ...string,
) (taken []claimed, err error) {
	c := columnsOfLanes(lanes, roomOf(lanes))
	var batch pgx.Batch
	batch.Queue(briefLockSQL)
	batch.Queue(s.schema.SQL(claimFreeSQL), now, lookAhead, allowance, c.queues, c.types, c.priorities, c.pools, c.rooms, most, notNil(aside), c.nears, c.costs, c.heads)
	batch.Queue(sessionLockSQL)
	results := q.SendBatch(ctx, &batch)
	defer func() {
		if err = errors.Join(err, results.Close()); err != nil {
			taken, err = nil, fmt.Errorf("claim: %w", err)
		}
	}()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	var row claimed // by columns, as the gate reads its own
	columns := []any{&row.ID, &row.Type, &row.Queue, &row.Priority, &row.Fence, &row.Revision, &row.Attempt, &row.Due, &row.Bytes}
	_, err = pgx.ForEachRow(rows, columns, func() error { taken = append(taken, row); return nil })
	return taken, err
}
