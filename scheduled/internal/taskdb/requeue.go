package taskdb

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// MaxRequeued is how many tasks of a lane one statement puts behind the others.
const MaxRequeued = 1000

// requeueLimitSQL bounds the statement after it. There may be millions of dead index entries in its way, and somebody
// may have locked the table.
const requeueLimitSQL = `SELECT set_config('statement_timeout', '2s', true), set_config('lock_timeout', '200ms', true)`

// rangesSQL are the ranges. Only an edit past the checks can bring a time before 1970.
const rangesSQL = `(
        SELECT l.queue, l.type, l.priority, l.until,
            CASE WHEN l.since <= '1970-01-01' THEN '-infinity' ELSE l.since END AS since
        FROM unnest($1::text[], $2::text[], $3::int[], $4::timestamptz[], $5::timestamptz[])
            AS l (queue, type, priority, since, until)
    ) AS lane`

// RequeueSQL puts the waiting tasks of a time range behind the others of their lane. They keep their order, and the
// time at which they were due. It writes the rows by their ids alone, because any other condition could make Postgres step
// over the dead entries of an index.
const RequeueSQL = `
WITH late AS MATERIALIZED (
    SELECT task.id, row_number() OVER (ORDER BY task.next_attempt_at) AS place
    FROM ` + rangesSQL + `
    CROSS JOIN LATERAL (
        SELECT t.id::text AS id, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
            AND t.next_attempt_at >= lane.since AND t.next_attempt_at < lane.until
        ORDER BY t.next_attempt_at
        LIMIT $6::int FOR NO KEY UPDATE SKIP LOCKED
    ) AS task
)
UPDATE tasktable.scheduled_tasks AS t
SET next_attempt_at = clock_timestamp() + late.place * interval '1 microsecond',
    due_at = coalesce(t.due_at, t.next_attempt_at)
FROM late WHERE t.id = ANY (ARRAY[late.id])`

// A fire that is planned cannot lie in a time that was looked at, because the task was there then, with this or an
// earlier fire.
const requeueRecurringSQL = `
UPDATE tasktable.scheduled_tasks AS t SET next_attempt_at = clock_timestamp()
FROM (
    SELECT task.id
    FROM ` + rangesSQL + `
    CROSS JOIN LATERAL (
        SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.cron IS NOT NULL
            AND t.next_attempt_at >= lane.since AND t.next_attempt_at < lane.until
            AND t.planned_revision IS DISTINCT FROM t.revision
        ORDER BY t.next_attempt_at
        LIMIT $6::int FOR NO KEY UPDATE SKIP LOCKED
    ) AS task
    OFFSET 0
) AS late WHERE t.id = ANY (ARRAY[late.id])`

// LaneRange is a lane from a time on, until a time.
type LaneRange struct {
	LaneFrom
	Until time.Time
}

// Requeue puts the waiting tasks of the ranges behind the others of their lanes, at most MaxRequeued of each lane. It
// leaves out tasks that somebody has locked. It returns how many it has moved. It takes at most two seconds.
func (s Queries) Requeue(
	ctx context.Context, q batcher, recurring bool, ranges []LaneRange,
) (moved int, err error) {
	lanes, until := make([]LaneFrom, len(ranges)), make([]time.Time, len(ranges))
	for i, one := range ranges {
		lanes[i], until[i] = one.LaneFrom, one.Until
	}
	statement := RequeueSQL
	if recurring {
		statement = requeueRecurringSQL
	}
	var batch pgx.Batch
	batch.Queue(requeueLimitSQL)
	batch.Queue(s.Schema.SQL(statement), append(columnsOfLanes(lanes), until, MaxRequeued)...)
	results := q.SendBatch(ctx, &batch)
	_, err = results.Exec()
	if err == nil {
		written, execErr := results.Exec()
		moved, err = int(written.RowsAffected()), execErr
	}
	return moved, pg.Annotate(errors.Join(err, results.Close()), "move tasks that lie before the marks")
}
