package scheduled

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// lane is the tasks that can be claimed and have the same queue, type and priority. The leader sees only its head,
// the first entry of its index range.
type lane struct {
	Queue    string
	Type     string
	Priority int
	DueIn    time.Duration // until its oldest task is due; negative if that is overdue
	Head     time.Time     // when its oldest task is due
	// Recurring says that the tasks are recurring. These are fired, not claimed, and their lanes have no priority.
	Recurring bool
}

// The statement lists all lanes by a loose index scan. From the head of each lane it jumps to the head of the next.
// This takes one probe a lane, however many tasks the lanes have. A null type would end the scan, but only an insert
// past the checks can bring one.
const lanesSQL = `
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

// The statement lists the lanes of the given queues and types, so that types which others have made up cost nothing.
const workedLanesSQL = `
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

// The statement returns the head of the highest lane in each range of priorities, from the range's mark on. If a
// range has several new lanes, the less urgent ones are left to the next look, so that none of their tasks goes
// before a more urgent one.
const laneRangesSQL = `
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

type laneRow struct {
	Queue    string
	Type     string
	Priority int
	Head     time.Time
	DueIn    float64
}

// The statement lists all lanes of recurring tasks, as lanesSQL lists the other lanes. These lanes have no priority
// and do not wait for room. Their occurrences do.
const recurringLanesSQL = `
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

const workedRecurringLanesSQL = `
SELECT ` + laneColumnsSQL + `
FROM (
    SELECT worked.queue, worked.type, 0 AS priority, head.next_attempt_at
    FROM unnest($2::text[], $3::text[]) AS worked (queue, type) CROSS JOIN LATERAL (
        SELECT t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL AND t.queue = worked.queue AND t.type = worked.type
        ORDER BY t.next_attempt_at LIMIT 1
    ) AS head
) AS lane`

// workedLane is a queue and a type for which a live node has both slots and a handler.
type workedLane struct{ queue, kind string }

// workedBy returns the worked lanes of some nodes, in order and without repeats.
func workedBy(nodes []liveNode) []workedLane {
	var worked []workedLane
	for _, node := range nodes {
		for queue, slots := range node.Queues {
			for _, kind := range node.Types {
				if slots > 0 {
					worked = append(worked, workedLane{queue, kind})
				}
			}
		}
	}
	slices.SortFunc(worked, func(a, b workedLane) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.kind, b.kind))
	})
	return slices.Compact(worked)
}

// columnsOfWorked makes one list for each column, because unnest takes them so.
func columnsOfWorked(worked []workedLane) (queues, kinds []string) {
	queues, kinds = make([]string, len(worked)), make([]string, len(worked))
	for i, one := range worked {
		queues[i], kinds[i] = one.queue, one.kind
	}
	return queues, kinds
}

// listedLanes is the result of a look at the lanes, with the pauses that hold now.
type listedLanes struct {
	tasks     []lane
	recurring []lane
	paused    []pause
}

// with adds the lanes of more. The pauses stay as they are.
func (l listedLanes) with(more listedLanes) listedLanes {
	return listedLanes{
		tasks:     slices.Concat(l.tasks, more.tasks),
		recurring: slices.Concat(l.recurring, more.recurring),
		paused:    l.paused,
	}
}

// unworked leaves out the lanes that a node works.
func unworked(lanes []lane, nodes []liveNode) []lane {
	return slices.DeleteFunc(lanes, func(l lane) bool {
		return slices.ContainsFunc(nodes, func(n liveNode) bool { return n.works(l.Queue, l.Type) })
	})
}

// lanes lists all lanes and the pauses at the time now. nil means the database's time.
func (s statements) lanes(ctx context.Context, q querier, now *time.Time) (found listedLanes, err error) {
	if found.tasks, err = s.laneRows(ctx, q, lanesSQL, now, false); err != nil {
		return found, err
	}
	if found.recurring, err = s.laneRows(ctx, q, recurringLanesSQL, now, true); err != nil {
		return found, err
	}
	found.paused, err = s.pauses(ctx, q, now, nil)
	return found, err
}

func (s statements) laneRows(
	ctx context.Context, q querier, statement string, now *time.Time, recurring bool,
) ([]lane, error) {
	listed, err := collect[laneRow](ctx, q, "list lanes", s.schema.SQL(statement), now, nil)
	if err != nil {
		return nil, err
	}
	return lanesOf(listed, recurring), nil
}

func lanesOf(rows []laneRow, recurring bool) []lane {
	var lanes []lane
	for _, row := range rows {
		lanes = append(lanes, lane{
			Queue: row.Queue, Type: row.Type, Priority: row.Priority,
			DueIn: time.Duration(row.DueIn * float64(time.Second)), Head: row.Head, Recurring: recurring,
		})
	}
	return lanes
}
