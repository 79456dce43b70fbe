package taskdb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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

// LookSQL lists the known lanes from a time on each, and the other lanes by loose index scans: those of the types that
// lie in a gap between others, and those of the priorities around known lanes. Dead entries of claimed tasks lie before
// the times of the known lanes, so the statement steps over few of them. Other lanes have hardly any, because each lane
// that was ever claimed from is known. $15 is how many types are listed of the gaps.
const LookSQL = `
WITH RECURSIVE ` + gapTypesSQL + `, part AS MATERIALIZED (
    SELECT * FROM unnest($6::text[], $7::text[], $8::int[], $9::int[], $10::timestamptz[])
        AS p (queue, type, low, high, since)
    UNION ALL
    (SELECT gap.queue, gap.type, -2147483648, 2147483647, gap.since FROM gap LIMIT $15::int)
), other AS (
    SELECT part.*, head.priority, head.next_attempt_at
    FROM part CROSS JOIN LATERAL (
        SELECT t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NULL AND t.queue = part.queue AND t.type = part.type
            AND t.priority >= part.low AND t.priority <= part.high AND t.next_attempt_at >= part.since
        ORDER BY t.priority, t.next_attempt_at LIMIT 1
    ) AS head
    UNION ALL
    SELECT other.queue, other.type, other.low, other.high, other.since, head.priority, head.next_attempt_at
    FROM other CROSS JOIN LATERAL (
        SELECT t.priority::int AS priority, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NULL AND t.queue = other.queue AND t.type = other.type
            AND t.priority > other.priority AND t.priority <= other.high AND t.next_attempt_at >= other.since
        ORDER BY t.priority, t.next_attempt_at LIMIT 1
    ) AS head
)
SELECT ` + laneColumnsSQL + `
FROM (
    SELECT known.queue, known.type, known.priority, head.next_attempt_at
    FROM unnest($2::text[], $3::text[], $4::int[], $5::timestamptz[]) AS known (queue, type, priority, since)
    CROSS JOIN LATERAL (
        SELECT t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NULL AND t.queue = known.queue AND t.type = known.type
            AND t.priority = known.priority AND t.next_attempt_at >= known.since
        ORDER BY t.next_attempt_at LIMIT 1
    ) AS head
    UNION ALL
    SELECT other.queue, other.type, other.priority, other.next_attempt_at FROM other
) AS lane`

// gapTypesSQL lists the types that lie in the gaps $11 to $14. A comparison of rows would make Postgres read a lane to
// its end.
const gapTypesSQL = `gap AS (
    SELECT g.queue, head.type, g.last, g.since
    FROM unnest($11::text[], $12::text[], $13::text[], $14::timestamptz[]) AS g (queue, first, last, since)
    CROSS JOIN LATERAL (
        SELECT t.type::text AS type FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NULL AND t.queue = g.queue AND t.type >= g.first AND t.type <= g.last
            AND t.next_attempt_at >= g.since
        ORDER BY t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS head
    UNION ALL
    SELECT gap.queue, head.type, gap.last, gap.since
    FROM gap CROSS JOIN LATERAL (
        SELECT t.type::text AS type FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NULL AND t.queue = gap.queue AND t.type > gap.type AND t.type <= gap.last
            AND t.next_attempt_at >= gap.since
        ORDER BY t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS head
)`

// RecurringLookSQL does the same for recurring tasks. Their lanes have no priority.
const RecurringLookSQL = `
WITH RECURSIVE gap AS (
    SELECT g.queue, head.type, g.last, g.since, head.next_attempt_at
    FROM unnest($4::text[], $5::text[], $6::text[], $7::timestamptz[]) AS g (queue, first, last, since)
    CROSS JOIN LATERAL (
        SELECT t.type::text AS type, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NOT NULL AND t.queue = g.queue AND t.type >= g.first AND t.type <= g.last
            AND t.next_attempt_at >= g.since
        ORDER BY t.type, t.next_attempt_at LIMIT 1
    ) AS head
    UNION ALL
    SELECT gap.queue, head.type, gap.last, gap.since, head.next_attempt_at
    FROM gap CROSS JOIN LATERAL (
        SELECT t.type::text AS type, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NOT NULL AND t.queue = gap.queue AND t.type > gap.type AND t.type <= gap.last
            AND t.next_attempt_at >= gap.since
        ORDER BY t.type, t.next_attempt_at LIMIT 1
    ) AS head
)
SELECT ` + laneColumnsSQL + `
FROM (
    SELECT known.queue, known.type, 0 AS priority, head.next_attempt_at
    FROM unnest($2::text[], $3::text[], $8::timestamptz[]) AS known (queue, type, since)
    CROSS JOIN LATERAL (
        SELECT t.next_attempt_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NOT NULL AND t.queue = known.queue AND t.type = known.type AND t.next_attempt_at >= known.since
        ORDER BY t.next_attempt_at LIMIT 1
    ) AS head
    UNION ALL
    (SELECT gap.queue, gap.type, 0, gap.next_attempt_at FROM gap LIMIT $9::int)
) AS lane`

// LaneFrom is a lane from a time on.
type LaneFrom struct {
	Queue    string
	Type     string
	Priority int
	Since    time.Time
}

// Around is the lanes of a queue and type from one priority to another, from a time on.
type Around struct {
	LaneFrom // the first
	Last     int
}

// Gap is the types of a queue from one to another, from a time on.
type Gap struct {
	LaneFrom // the first, with all its priorities
	Last     string
}

// Reach is what a look reads.
type Reach struct {
	Known  []LaneFrom
	Around []Around // not of recurring tasks
	Gaps   []Gap
}

// QueueLook adds LookSQL or RecurringLookSQL to a batch.
func (s Queries) QueueLook(batch *pgx.Batch, recurring bool, reach Reach, most int) {
	around, highs := make([]LaneFrom, len(reach.Around)), make([]int, len(reach.Around))
	for i, one := range reach.Around {
		around[i], highs[i] = one.LaneFrom, one.Last
	}
	gaps, lasts := make([]LaneFrom, len(reach.Gaps)), make([]string, len(reach.Gaps))
	for i, one := range reach.Gaps {
		gaps[i], lasts[i] = one.LaneFrom, one.Last
	}
	k, a, g := columnsOfLanes(reach.Known), columnsOfLanes(around), columnsOfLanes(gaps)
	if recurring {
		batch.Queue(s.Schema.SQL(RecurringLookSQL), nil, k[0], k[1], g[0], g[1], lasts, g[3], k[3], most)
		return
	}
	batch.Queue(s.Schema.SQL(LookSQL), nil, k[0], k[1], k[2], k[3], a[0], a[1], a[2], highs, a[3],
		g[0], g[1], lasts, g[3], most)
}

// columnsOfLanes makes one list for each column, because unnest takes them so.
func columnsOfLanes(lanes []LaneFrom) []any {
	n := len(lanes)
	queues, kinds, priorities, since := make([]string, n), make([]string, n), make([]int, n), make([]time.Time, n)
	for i, one := range lanes {
		queues[i], kinds[i], priorities[i], since[i] = one.Queue, one.Type, one.Priority, one.Since
	}
	return []any{queues, kinds, priorities, since}
}

// laneColumnsSQL are the columns that are read of a lane. due_in is at most a week, because the leader need not look
// further ahead, and infinity would not fit.
const laneColumnsSQL = `lane.queue, lane.type, lane.priority,
    least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz) AS head,
    least(extract(epoch FROM least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz)
        - coalesce($1::timestamptz, clock_timestamp())), 604800)::float8 AS due_in`

// LaneRow is a lane as the statements above return it.
type LaneRow struct {
	Queue    string
	Type     string
	Priority int
	Head     time.Time
	DueIn    float64
}

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
	slices.SortFunc(worked, WorkedLane.Compare)
	return slices.Compact(worked)
}

// Compare orders by queue and type, as the database does.
func (w WorkedLane) Compare(other WorkedLane) int {
	return cmp.Or(cmp.Compare(w.Queue, other.Queue), cmp.Compare(w.Kind, other.Kind))
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
