package taskdb

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

const lowTasksSQL = `
SELECT lane.number - 1 AS lane, low.id
FROM unnest($1::text[], $2::text[], $3::int[], $4::timestamptz[], $5::timestamptz[])
    WITH ORDINALITY AS lane (queue, type, priority, head, until, number)
CROSS JOIN LATERAL (
    SELECT t.id::text AS id, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
        -- Dead index entries may lie before the head that was listed.
        AND t.next_attempt_at >= CASE WHEN lane.head <= '1970-01-01' THEN '-infinity' ELSE lane.head END
        AND t.next_attempt_at < lane.until
    ORDER BY t.next_attempt_at LIMIT $6::int
) AS low
ORDER BY lane.number, low.next_attempt_at`

// LowTask is a task that LowTasks has found, with the index of its lane.
type LowTask struct {
	Lane int
	ID   string
}

// LowTasks lists the first tasks of each lane from its head on that are due before a time, at most `most` of each lane.
// It may step over millions of dead index entries.
func (s Queries) LowTasks(
	ctx context.Context, q pg.DB, lanes []LaneRow, until []time.Time, most int,
) ([]LowTask, error) {
	var queues, kinds []string
	var priorities []int
	var heads []time.Time
	for _, one := range lanes {
		queues, kinds = append(queues, one.Queue), append(kinds, one.Type)
		priorities, heads = append(priorities, one.Priority), append(heads, one.Head)
	}
	return pg.CollectRows[LowTask](ctx, q, "list tasks before the marks",
		s.Schema.SQL(lowTasksSQL), queues, kinds, priorities, heads, until, most)
}

// A microsecond lies between two tasks, so that they keep their order. The rows are found by their ids alone, because
// any other condition could make Postgres step over the dead entries of an index.
const liftSQL = `
WITH locked AS MATERIALIZED (
    SELECT t.ctid AS tid, t.id::text AS id, t.next_attempt_at, t.cron FROM tasktable.scheduled_tasks AS t
    WHERE t.id = ANY ($1::text[]) FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE tasktable.scheduled_tasks AS t
SET next_attempt_at = $2::timestamptz + array_position($1::text[], locked.id) * interval '1 microsecond'
FROM locked WHERE t.ctid = locked.tid AND locked.next_attempt_at < $2::timestamptz AND locked.cron IS NULL`

// Lift makes tasks of a lane that are due before a time due at that time, in their order. They keep the time that was
// asked for. It leaves out tasks that somebody has locked.
func (s Queries) Lift(ctx context.Context, q pg.DB, ids []string, to time.Time) error {
	_, err := q.Exec(ctx, s.Schema.SQL(liftSQL), ids, to)
	return pg.Annotate(err, "lift tasks to the mark of their lane")
}
