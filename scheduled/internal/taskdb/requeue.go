package taskdb

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// Overlooked is a task that waits before the mark of its lane.
type Overlooked struct {
	ID    string
	Until time.Time // the mark
}

// MaxOverlooked is how many tasks of a lane one statement lists.
const MaxOverlooked = 1000

// overlookedSQL lists the waiting tasks of lanes until times.
const overlookedSQL = `
SELECT task.id, lane.until
FROM unnest($1::text[], $2::text[], $3::int[], $4::timestamptz[]) AS lane (queue, type, priority, until)
CROSS JOIN LATERAL (
    SELECT t.id::text AS id, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
    WHERE t.cron IS NULL AND t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority
        AND t.next_attempt_at < lane.until
    ORDER BY t.next_attempt_at LIMIT $5::int
) AS task
ORDER BY task.next_attempt_at`

// A fire that is planned cannot lie before a mark, because the task was there with this or an earlier fire.
var recurringOverlookedSQL = ofRecurring.Replace(overlookedSQL)

// Overlooked lists the waiting tasks of lanes until times, at most MaxOverlooked of each lane.
func (s Queries) Overlooked(ctx context.Context, q pg.DB, recurring bool, until []LaneAt) ([]Overlooked, error) {
	statement := overlookedSQL
	if recurring {
		statement = recurringOverlookedSQL
	}
	return pg.CollectRows[Overlooked](ctx, q, "list tasks that lie before the marks", s.Schema.SQL(statement),
		append(columnsOfLanes(until), MaxOverlooked)...)
}

// requeueSQL puts tasks that lie before the mark behind the others of their lane, in the order in which they are given.
// They keep the time at which they were due. It leaves out tasks that somebody has locked. A planned fire keeps its
// time.
const requeueSQL = `
UPDATE tasktable.scheduled_tasks AS t
SET next_attempt_at = clock_timestamp() + late.place * interval '1 microsecond',
    due_at = CASE WHEN t.cron IS NULL THEN coalesce(t.due_at, t.next_attempt_at) END
FROM (
    SELECT task.id, one.place
    FROM unnest($1::text[], $2::timestamptz[]) WITH ORDINALITY AS one (id, until, place) CROSS JOIN LATERAL (
        SELECT t.id FROM tasktable.scheduled_tasks AS t
        WHERE t.id = one.id AND t.next_attempt_at < one.until
            AND (t.cron IS NULL OR t.planned_revision IS DISTINCT FROM t.revision)
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS task
    OFFSET 0
) AS late WHERE t.id = ANY (ARRAY[late.id])`

// Requeue puts overlooked tasks behind the others of their lanes. It returns how many.
func (s Queries) Requeue(ctx context.Context, q pg.DB, tasks []Overlooked) (moved int, err error) {
	written, err := q.Exec(ctx, s.Schema.SQL(requeueSQL),
		column(tasks, func(o *Overlooked) string { return o.ID }),
		column(tasks, func(o *Overlooked) time.Time { return o.Until }))
	if err != nil {
		return 0, fmt.Errorf("move tasks that lie before the marks: %w", err)
	}
	return int(written.RowsAffected()), nil
}
