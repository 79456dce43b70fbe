package maintenance

import (
	"context"

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

// removeBuckets goes on until there are few left. The table has at most one row for each group or tenant of a limit.
func (r *Retention) removeBuckets(ctx context.Context) (err error) {
	for gone := int64(removedBuckets); gone >= removedBuckets && err == nil; {
		err = r.config.Housekeeping.Do(ctx, session.AnswerLimit, func(ctx context.Context, tx pgx.Tx) (err error) {
			gone, err = pg.QueryOne[int64](ctx, tx, "remove full buckets",
				r.config.Statements.Schema.SQL(removeBucketsSQL), removedBuckets)
			return err
		})
	}
	return err
}
