package taskdb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// Lane is the tasks that can be claimed and have the same queue, type and priority. The leader sees only its head,
// the first entry of its index range.
type Lane struct {
	Queue    string
	Type     string
	Priority int
	DueIn    time.Duration // until its oldest task is due; negative if that is overdue
	Head     time.Time     // when its oldest task is due
	// Recurring says that the tasks are recurring. These are fired, not claimed, and their lanes have no priority.
	Recurring bool
}

// LanesSQL lists all lanes by a loose index scan. From the head of each lane it jumps to the head of the next.
// This takes one probe a lane, however many tasks the lanes have. A null type would end the scan, but only an insert
// past the checks can bring one.
const LanesSQL = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at
     FROM tasktable.scheduled_tasks AS t
     WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL
     ORDER BY t.queue, t.type, t.priority, t.next_attempt_at
     LIMIT 1)
    UNION ALL
    SELECT next.queue, next.type, next.priority, next.next_attempt_at
    FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL
            AND (t.queue, t.type, t.priority) > (lane.queue, lane.type, lane.priority)
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at
        LIMIT 1
    ) AS next
)
SELECT ` + laneColumnsSQL + `
FROM lane LIMIT $2::int`

// WorkedLanesSQL lists the lanes of the given queues and types, so that types which others have made up cost nothing.
const WorkedLanesSQL = `
WITH RECURSIVE lane AS (
    SELECT worked.queue, worked.type, head.priority, head.next_attempt_at
    FROM unnest($2::text[], $3::text[]) AS worked (queue, type) CROSS JOIN LATERAL (
        SELECT t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.queue = worked.queue AND t.type = worked.type
        ORDER BY t.priority, t.next_attempt_at LIMIT 1
    ) AS head
    UNION ALL
    SELECT lane.queue, lane.type, next.priority, next.next_attempt_at
    FROM lane CROSS JOIN LATERAL (
        SELECT t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.queue = lane.queue AND t.type = lane.type
            AND t.priority > lane.priority
        ORDER BY t.priority, t.next_attempt_at LIMIT 1
    ) AS next
)
SELECT ` + laneColumnsSQL + `
FROM lane`

// LaneRangesSQL returns the head of the highest lane in each range of priorities, from the range's mark on. If a
// range has several new lanes, the less urgent ones are left to the next look, so that none of their tasks goes
// before a more urgent one.
const LaneRangesSQL = `
SELECT ` + laneColumnsSQL + `
FROM (
    SELECT part.queue, part.type, top.priority, head.next_attempt_at
    FROM unnest($2::text[], $3::text[], $4::int[], $5::int[], $6::timestamptz[]) AS part (queue, type, low, high, mark)
    CROSS JOIN LATERAL (
        SELECT part.low AS priority WHERE part.low = part.high
        UNION ALL
        (SELECT t.priority::int FROM tasktable.scheduled_tasks AS t
        WHERE part.low < part.high AND t.cron IS NULL AND t.queue = part.queue AND t.type = part.type
            AND t.priority >= part.low AND t.priority <= part.high AND t.next_attempt_at >= part.mark
        ORDER BY t.priority DESC LIMIT 1)
    ) AS top
    CROSS JOIN LATERAL (
        SELECT t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NULL AND t.queue = part.queue AND t.type = part.type
            AND t.priority = top.priority AND t.next_attempt_at >= part.mark
        ORDER BY t.next_attempt_at LIMIT 1
    ) AS head
) AS lane`

// laneColumnsSQL are the columns that are read of a lane. due_in is at most a week, because the leader need not look
// further ahead, and infinity would not fit.
const laneColumnsSQL = `lane.queue, lane.type, lane.priority,
    least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz) AS head,
    least(extract(epoch FROM least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz)
        - coalesce($1::timestamptz, clock_timestamp())), 604800)::float8 AS due_in`

// LaneRow is a lane as LanesSQL and the statements beside it return it.
type LaneRow struct {
	Queue    string
	Type     string
	Priority int
	Head     time.Time
	DueIn    float64
}

// RecurringLanesSQL lists all lanes of recurring tasks, as LanesSQL lists the other lanes. These lanes have no priority
// and do not wait for room. Their occurrences do.
const RecurringLanesSQL = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type, 0 AS priority, t.next_attempt_at
     FROM tasktable.scheduled_tasks AS t
     WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL AND t.type IS NOT NULL
     ORDER BY t.queue, t.type, t.next_attempt_at
     LIMIT 1)
    UNION ALL
    SELECT next.queue, next.type, 0, next.next_attempt_at
    FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.next_attempt_at
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL AND t.type IS NOT NULL
            AND (t.queue, t.type) > (lane.queue, lane.type)
        ORDER BY t.queue, t.type, t.next_attempt_at
        LIMIT 1
    ) AS next
)
SELECT ` + laneColumnsSQL + `
FROM lane LIMIT $2::int`

// WorkedRecurringLanesSQL lists the lanes of recurring tasks of the given queues and types.
const WorkedRecurringLanesSQL = `
SELECT ` + laneColumnsSQL + `
FROM (
    SELECT worked.queue, worked.type, 0 AS priority, head.next_attempt_at
    FROM unnest($2::text[], $3::text[]) AS worked (queue, type) CROSS JOIN LATERAL (
        SELECT t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL AND t.queue = worked.queue AND t.type = worked.type
        ORDER BY t.next_attempt_at LIMIT 1
    ) AS head
) AS lane`

// WorkedLane is a queue and a type for which a live node has both slots and a handler.
type WorkedLane struct{ Queue, Kind string }

// WorkedBy returns the worked lanes of some nodes, in order and without repeats.
func WorkedBy(nodes []LiveNode) []WorkedLane {
	var worked []WorkedLane
	for _, node := range nodes {
		for queue, slots := range node.Queues {
			for _, kind := range node.Types {
				if slots > 0 {
					worked = append(worked, WorkedLane{queue, kind})
				}
			}
		}
	}
	slices.SortFunc(worked, func(a, b WorkedLane) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind))
	})
	return slices.Compact(worked)
}

// ColumnsOfWorked makes one list for each column, because unnest takes them so.
func ColumnsOfWorked(worked []WorkedLane) (queues, kinds []string) {
	queues, kinds = make([]string, len(worked)), make([]string, len(worked))
	for i, one := range worked {
		queues[i], kinds[i] = one.Queue, one.Kind
	}
	return queues, kinds
}

// ListedLanes is the result of a look at the lanes, with the pauses that hold now.
type ListedLanes struct {
	Tasks     []Lane
	Recurring []Lane
	Paused    []Pause
}

// With adds the lanes of more. The pauses stay as they are.
func (l ListedLanes) With(more ListedLanes) ListedLanes {
	return ListedLanes{
		Tasks:     slices.Concat(l.Tasks, more.Tasks),
		Recurring: slices.Concat(l.Recurring, more.Recurring),
		Paused:    l.Paused,
	}
}

// Unworked leaves out the lanes that a node works.
func Unworked(lanes []Lane, nodes []LiveNode) []Lane {
	return slices.DeleteFunc(lanes, func(l Lane) bool {
		return slices.ContainsFunc(nodes, func(n LiveNode) bool { return n.Works(l.Queue, l.Type) })
	})
}

// Lanes lists all lanes and the pauses at the time now. nil means the database's time.
func (s Queries) Lanes(ctx context.Context, q pg.DB, now *time.Time) (found ListedLanes, err error) {
	if found.Tasks, err = s.LaneRows(ctx, q, LanesSQL, now, false); err != nil {
		return found, err
	}
	if found.Recurring, err = s.LaneRows(ctx, q, RecurringLanesSQL, now, true); err != nil {
		return found, err
	}
	found.Paused, err = s.Pauses(ctx, q, now, nil)
	return found, err
}

// LaneRows runs one of the statements that list lanes.
func (s Queries) LaneRows(
	ctx context.Context, q pg.DB, statement string, now *time.Time, recurring bool,
) ([]Lane, error) {
	listed, err := pg.CollectRows[LaneRow](ctx, q, "list lanes", s.Schema.SQL(statement), now, nil)
	if err != nil {
		return nil, err
	}
	return LanesOf(listed, recurring), nil
}

// LanesOf returns the lanes of rows.
func LanesOf(rows []LaneRow, recurring bool) []Lane {
	var lanes []Lane
	for _, row := range rows {
		lanes = append(lanes, Lane{
			Queue: row.Queue, Type: row.Type, Priority: row.Priority,
			DueIn: time.Duration(row.DueIn * float64(time.Second)), Head: row.Head, Recurring: recurring,
		})
	}
	return lanes
}
