package scheduled

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// lane is the claimable tasks that share queue, type and priority, by the head of its index range.
type lane struct {
	Queue    string
	Type     string
	Priority int
	DueIn    time.Duration // of its oldest task; negative when overdue
	Head     time.Time     // when that is due
	// Recurring: of tasks that are fired, not claimed; these lanes have no priority.
	Recurring bool
}

// A loose index scan: from the head of each lane it jumps to the head of the next, one probe a lane, however many tasks the
// lanes hold. A null type, which only an insert past the checks can bring, would end the scan. One row always comes, with a null queue when there is no lane: the statement is also the leader's ping.
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
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL AND t.type IS NOT NULL AND (t.queue, t.type, t.priority) > (lane.queue, lane.type, lane.priority)
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at
        LIMIT 1
    ) AS next
)
SELECT clock_timestamp() AS now, lane.queue, lane.type, lane.priority,
    least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz) AS head, false AS is_new,
    -- A week is as good as a year to the leader, and infinity would not fit.
    least(extract(epoch FROM least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz)
        - coalesce($1::timestamptz, clock_timestamp())), 604800)::float8 AS due_in
FROM (SELECT 1) AS one LEFT JOIN lane ON true`

type laneRow struct {
	Now      time.Time
	Queue    *string
	Type     *string
	Priority *int
	Head     *time.Time
	IsNew    bool // not among the lanes that were asked for
	DueIn    *float64
}

// The lanes of recurring tasks by a loose index scan, as lanesSQL does it. Their tasks have no room to wait for: what they fork does.
const recurringLanesSQL = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type, t.next_attempt_at
     FROM tasktable.scheduled_tasks AS t
     WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL AND t.type IS NOT NULL
     ORDER BY t.queue, t.type, t.next_attempt_at
     LIMIT 1)
    UNION ALL
    SELECT next.queue, next.type, next.next_attempt_at
    FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.next_attempt_at
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL AND t.type IS NOT NULL AND (t.queue, t.type) > (lane.queue, lane.type)
        ORDER BY t.queue, t.type, t.next_attempt_at
        LIMIT 1
    ) AS next
)
SELECT clock_timestamp() AS now, lane.queue, lane.type, 0 AS priority, least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz) AS head, false AS is_new,
    least(extract(epoch FROM least(greatest(lane.next_attempt_at, '1970-01-01'::timestamptz), '9999-12-30'::timestamptz)
        - coalesce($1::timestamptz, clock_timestamp())), 604800)::float8 AS due_in
FROM lane`

// listedLanes is all lanes, and the pauses that hold now.
type listedLanes struct {
	tasks     []lane
	recurring []lane
	paused    []pause
}

func readLaneRows(results pgx.BatchResults) ([]laneRow, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	listed, err := pgx.CollectRows(rows, pgx.RowToStructByName[laneRow])
	return listed, wrap(err, "list lanes")
}

// lanes lists all lanes, and the pauses, at a time; nil is the database's.
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

func (s statements) laneRows(ctx context.Context, q querier, statement string, now *time.Time, recurring bool) ([]lane, error) {
	rows, err := q.Query(ctx, s.schema.SQL(statement), now)
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	listed, err := pgx.CollectRows(rows, pgx.RowToStructByName[laneRow])
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	return lanesOf(listed, recurring), nil
}

func lanesOf(rows []laneRow, recurring bool) []lane {
	var lanes []lane
	for _, row := range rows {
		if row.Queue != nil && row.Type != nil && row.Priority != nil && row.Head != nil && row.DueIn != nil {
			lanes = append(lanes, lane{Queue: *row.Queue, Type: *row.Type, Priority: *row.Priority, DueIn: time.Duration(*row.DueIn * float64(time.Second)), Head: *row.Head, Recurring: recurring})
		}
	}
	return lanes
}
