package maintenance

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// removeBucketsSQL removes buckets of groups and tenants that have been full for an hour, because no row says the same,
// and those of limits that are gone. The hour is for a clock that is set back. It leaves out rows that the leader
// writes, so that neither waits for the other in a circle.
const removeBucketsSQL = `
WITH gone AS (
    DELETE FROM tasktable.limit_buckets AS b WHERE b.ctid = ANY (ARRAY(
        SELECT o.ctid FROM tasktable.limit_buckets AS o
        WHERE o.limit_key <> '' AND (o.full_at < clock_timestamp() - interval '1 hour'
            OR NOT EXISTS (SELECT FROM tasktable.limits AS l WHERE l.name = o.name AND l.per IS NOT NULL))
        LIMIT $1::int FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM gone`

// removedBuckets is how many buckets a transaction removes. The leader may wait for it, so it must be short.
const removedBuckets = 5000

const noteRefusedSQL = `
UPDATE tasktable.nodes AS n SET retention_refused = CASE WHEN n.number = $1::bigint THEN $2::text END
WHERE n.retention_refused IS DISTINCT FROM CASE WHEN n.number = $1::bigint THEN $2::text END`

// endRound logs the result of a round, and removes full buckets until there are few left. If the round could not remove
// some rows, endRound leaves a note in the nodes table for doctor. This note replaces the note of any earlier leader.
func (r *Retention) endRound(ctx context.Context, round Retained) error {
	if round.Rows > 0 {
		r.config.Log.Info("old tasks and history removed", "rows", round.Rows)
	}
	var note *string
	if round.Refused > 0 {
		note = new(fmt.Sprintf("%d rows, the first of task %s: %s", round.Refused, round.Task, round.Why))
	}
	sql := r.config.Statements.Schema.SQL
	for more := true; more; {
		err := r.config.Housekeeping.Do(ctx, session.AnswerLimit, func(ctx context.Context, tx pgx.Tx) error {
			gone, err := pg.QueryOne[int64](ctx, tx, "remove full buckets", sql(removeBucketsSQL), removedBuckets)
			if more = gone >= removedBuckets; more || err != nil {
				return err
			}
			_, err = tx.Exec(ctx, sql(noteRefusedSQL), r.config.Node, note)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
