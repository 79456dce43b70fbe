package taskdb

import (
	"cmp"
	"context"
	"slices"
	"strings"
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
	DueIn    time.Duration // until its first task can be claimed; negative if it could be before
	Late     time.Duration // since that task was due
	Head     time.Time     // when its oldest task is due
	// Recurring says that the tasks are recurring. These are fired, not claimed, and their lanes have no priority.
	Recurring bool
	// LimitKey is "" unless the lane is the part of one group or tenant, see LaneKey.
	LimitKey string `db:"-"`
	// InOrder is not "" if the tasks of the group or tenant run one after the other, see OrderOf.
	InOrder string `db:"-"`
	// Weight is that of the group or tenant, and Share is how many batches it gets before others have their turn. 0
	// means 1. See plan.Turns.
	Weight int `db:"-"`
	Share  int `db:"-"`
}

// Key names the lane.
func (l Lane) Key() LaneKey {
	return LaneKey{Queue: l.Queue, Type: l.Type, Priority: l.Priority, LimitKey: l.LimitKey}
}

// LanesSQL lists all lanes by a loose index scan. From the head of each lane it jumps to the head of the next.
// This takes one probe a lane, however many tasks the lanes have. A null type would end the scan, but only an insert
// past the checks can bring one.
const LanesSQL = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at, t.due_at
     FROM tasktable.scheduled_tasks AS t
     WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL
     ORDER BY t.queue, t.type, t.priority, t.next_attempt_at
     LIMIT 1)
    UNION ALL
    SELECT next.*
    FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at, t.due_at
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL
            AND (t.queue, t.type, t.priority) > (lane.queue, lane.type, lane.priority)
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at
        LIMIT 1
    ) AS next
)
SELECT lane.queue, lane.type, lane.priority, ` + laneTimesSQL + `
FROM lane LIMIT $2::int`

// RecurringLanesSQL lists all lanes of recurring tasks. These lanes have no priority and do not wait for room. Their
// occurrences do.
var RecurringLanesSQL = ofRecurring.Replace(LanesSQL)

// LaneKey names a lane. The recurring tasks of a queue and type are one lane, with priority 0.
type LaneKey struct {
	Queue    string
	Type     string
	Priority int
	// LimitKey is set if a limit counts each group or tenant by itself. The tasks of each are then a lane, which has
	// the value of their column limit_key here. It is never "" in such a lane.
	LimitKey string `json:",omitempty"`
}

// Compare orders lanes as the index of claimable tasks does.
func (k LaneKey) Compare(other LaneKey) int {
	return cmp.Or(
		cmp.Compare(k.Queue, other.Queue), cmp.Compare(k.Type, other.Type), cmp.Compare(k.Priority, other.Priority),
		cmp.Compare(k.LimitKey, other.LimitKey),
	)
}

// PastTypes comes after all types.
const PastTypes = "ÿ"

// LaneAt is a lane and a time.
type LaneAt struct {
	LaneKey
	At time.Time
}

// Gap is the lanes of a queue after Low and before High. If the types of these differ, it is the lanes before the type
// of High.
type Gap struct{ Low, High LaneKey }

// nextLaneSQL finds the first lane of a gap. Postgres ends the scan where the gap ends. A comparison of rows would not
// end it there, because Postgres ends a scan by the first column of such a comparison alone. It would read the entries
// of the next lane, of which nearly all may be dead.
const nextLaneSQL = `(
        (SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at, t.due_at
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND low.type <> low.to_type
            AND t.queue = low.queue AND (t.type, t.priority) > (low.type, low.priority) AND t.type < low.to_type
        ORDER BY t.type, t.priority, t.next_attempt_at LIMIT 1)` + nextPrioritySQL + `
    ) AS head`

const nextPrioritySQL = `
        UNION ALL
        (SELECT t.queue::text, t.type::text, t.priority::int, t.next_attempt_at, t.due_at
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND low.type = low.to_type
            AND t.queue = low.queue AND t.type = low.type
            AND t.priority > low.priority AND t.priority < low.to_priority
        ORDER BY t.priority, t.next_attempt_at LIMIT 1)`

// lookSQL lists the known lanes whose head lies between a time of their own and $12, and the lanes in the gaps, $11 at
// most. In a gap it jumps from the head of each lane to the head of the next, which takes one probe a lane, however
// many tasks the lanes have.
const lookSQL = `
WITH RECURSIVE found AS (
    SELECT head.*, low.to_type, low.to_priority
    FROM unnest($6::text[], $7::text[], $8::int[], $9::text[], $10::int[])
        AS low (queue, type, priority, to_type, to_priority)
    CROSS JOIN LATERAL ` + nextLaneSQL + `
    UNION ALL
    SELECT head.*, low.to_type, low.to_priority
    FROM found AS low CROSS JOIN LATERAL ` + nextLaneSQL + `
)
SELECT lane.queue, lane.type, lane.priority, ` + laneTimesSQL + `
FROM (
    SELECT known.queue, known.type, known.priority, head.*
    FROM unnest($2::text[], $3::text[], $4::int[], $5::timestamptz[]) AS known (queue, type, priority, since)
    CROSS JOIN LATERAL (
        SELECT t.next_attempt_at, t.due_at FROM tasktable.scheduled_tasks AS t
        WHERE t.cron IS NULL AND t.queue = known.queue AND t.type = known.type AND t.priority = known.priority
            AND t.next_attempt_at >= known.since AND t.next_attempt_at <= $12::timestamptz
        ORDER BY t.next_attempt_at LIMIT 1
    ) AS head
    UNION ALL
    (SELECT found.queue, found.type, found.priority, found.next_attempt_at, found.due_at FROM found LIMIT $11::int)
) AS lane`

// recurringLookSQL does the same for recurring tasks. Their index has no priority.
var recurringLookSQL = ofRecurring.Replace(lookSQL)

// ofRecurring turns a statement about lanes into one about the lanes of recurring tasks.
var ofRecurring = strings.NewReplacer(
	nextPrioritySQL, "", "false AS recurring", "true AS recurring",
	"t.cron IS NULL", "t.cron IS NOT NULL", "t.priority::int AS priority", "0 AS priority",
	" AND t.priority = known.priority", "", " AND t.priority = lane.priority", "",
	", t.priority)", ")", ", low.priority)", ")", ", lane.priority)", ")",
	"t.type, t.priority, t.next", "t.type, t.next",
)

// QueueLook adds lookSQL or recurringLookSQL to a batch.
func (s Queries) QueueLook(
	batch *pgx.Batch, recurring bool, known []LaneAt, gaps []Gap, most int, until time.Time,
) {
	low := column(gaps, func(g *Gap) LaneAt { return LaneAt{LaneKey: g.Low} })
	high := column(gaps, func(g *Gap) LaneAt { return LaneAt{LaneKey: g.High} })
	statement := lookSQL
	if recurring {
		statement = recurringLookSQL
	}
	batch.Queue(s.Schema.SQL(statement), slices.Concat(
		[]any{nil}, columnsOfLanes(known), columnsOfLanes(low)[:3], columnsOfLanes(high)[1:3], []any{most, until},
	)...)
}

// columnsOfLanes makes one list for each column, because unnest takes them so.
func columnsOfLanes(lanes []LaneAt) []any {
	return []any{
		column(lanes, func(l *LaneAt) string { return l.Queue }),
		column(lanes, func(l *LaneAt) string { return l.Type }),
		column(lanes, func(l *LaneAt) int { return l.Priority }),
		column(lanes, func(l *LaneAt) time.Time { return l.At }),
	}
}

// laneTimesSQL are the times that are read of a lane. due_in and late are in nanoseconds, because database/sql reads no
// intervals. due_in is at most a week, because the leader need not look further ahead, and infinity would not fit. late
// counts from when the task was first due.
const laneTimesSQL = `
    least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz) AS head,
    (least(extract(epoch FROM least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz),
        '9999-12-30'::timestamptz) - coalesce($1::timestamptz, clock_timestamp())), 604800)
        * 1000000000)::bigint AS due_in,
    (greatest(extract(epoch FROM coalesce($1::timestamptz, clock_timestamp())
        - least(CASE WHEN lane.due_at > '1970-01-01' THEN lane.due_at END,
            greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz)), 0)
        * 1000000000)::bigint AS late, false AS recurring`

// WorkedBy returns the queues and types for which some node has both slots and a handler, in order.
func WorkedBy(nodes []LiveNode) []LaneKey {
	var worked []LaneKey
	for _, node := range nodes {
		for queue, slots := range node.Queues {
			for _, kind := range node.Types {
				if slots > 0 {
					worked = append(worked, LaneKey{Queue: queue, Type: kind})
				}
			}
		}
	}
	slices.SortFunc(worked, LaneKey.Compare)
	return slices.Compact(worked)
}

// ListedLanes is the result of a look at the lanes, with the pauses that hold now and the limits.
type ListedLanes struct {
	Tasks     []Lane
	Recurring []Lane
	Paused    []Pause
	Limits    []Limit
}

// With adds the lanes of more. The pauses and limits stay as they are.
func (l ListedLanes) With(more ListedLanes) ListedLanes {
	return ListedLanes{
		Tasks:     slices.Concat(l.Tasks, more.Tasks),
		Recurring: slices.Concat(l.Recurring, more.Recurring),
		Paused:    l.Paused,
		Limits:    l.Limits,
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
	if found.Tasks, err = s.lanes(ctx, q, LanesSQL, now); err != nil {
		return found, err
	}
	if found.Recurring, err = s.lanes(ctx, q, RecurringLanesSQL, now); err != nil {
		return found, err
	}
	found.Paused, err = s.Pauses(ctx, q, now, nil)
	return found, err
}

func (s Queries) lanes(ctx context.Context, q pg.DB, statement string, now *time.Time) ([]Lane, error) {
	return pg.CollectRows[Lane](ctx, q, "list lanes", s.Schema.SQL(statement), now, nil)
}
