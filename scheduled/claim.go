package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// querier is what the engine's statements run on: the session, a transaction of the pool, or a test's own transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// statements are the engine's SQL for one schema. Each takes `now`, null for the database's clock, so that a test can run
// them at any time.
type statements struct{ schema store.Schema }

// context "engine" keeps the triggers from taking an expiry for somebody's edit. It ends with the transaction; inside a
// longer one it is put back by leave.
const enterSQL = `SELECT set_config('tasktable_change.context', 'engine', true)`
const leaveSQL = `SELECT set_config('tasktable_change.context', '', true)`

// A loose index scan: from the head of each lane it jumps to the head of the next, one probe a lane, however many tasks the
// lanes hold. A null type, which only an insert past the checks can bring, would end the scan. One row always comes, with a null queue when there is no lane: the statement is also the leader's ping.
const lanesSQL = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at
     FROM tasktable.scheduled_tasks AS t
     WHERE t.next_attempt_at IS NOT NULL AND t.type IS NOT NULL
     ORDER BY t.queue, t.type, t.priority, t.next_attempt_at
     LIMIT 1)
    UNION ALL
    SELECT next.queue, next.type, next.priority, next.next_attempt_at
    FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.next_attempt_at
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.type IS NOT NULL AND (t.queue, t.type, t.priority) > (lane.queue, lane.type, lane.priority)
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at
        LIMIT 1
    ) AS next
)
SELECT clock_timestamp() AS now, lane.queue, lane.type, lane.priority,
    -- A week is as good as a year to the leader, and infinity would not fit.
    least(extract(epoch FROM greatest(lane.next_attempt_at, '1970-01-01'::timestamptz) - coalesce($1::timestamptz, clock_timestamp())), 604800)::float8 AS due_in
FROM (SELECT 1) AS one LEFT JOIN lane ON true`

type laneRow struct {
	Now      time.Time
	Queue    *string
	Type     *string
	Priority *int
	DueIn    *float64
}

func (s statements) lanes(ctx context.Context, q querier, now *time.Time) ([]lane, error) {
	rows, err := q.Query(ctx, s.schema.SQL(lanesSQL), now)
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[laneRow])
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	return lanesOf(found), nil
}

func lanesOf(rows []laneRow) []lane {
	var lanes []lane
	for _, row := range rows {
		if row.Queue != nil && row.Type != nil && row.Priority != nil && row.DueIn != nil {
			lanes = append(lanes, lane{Queue: *row.Queue, Type: *row.Type, Priority: *row.Priority, DueIn: time.Duration(*row.DueIn * float64(time.Second))})
		}
	}
	return lanes
}

// Picks without locks, then locks by ctid and rechecks only what was picked, then updates by the primary key. In a pool what is due comes before
// what is only near, then the higher priority, then the older; so the look-ahead takes spare room only.
const claimSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), lane AS MATERIALIZED (
    SELECT * FROM unnest($4::text[], $5::text[], $6::int[], $7::int[], $8::int[]) AS l (queue, type, priority, pool, room)
), picked AS MATERIALIZED (
    SELECT ranked.tid
    FROM (
        SELECT head.tid, lane.room,
            row_number() OVER (PARTITION BY lane.pool ORDER BY head.next_attempt_at > clock.now, lane.priority DESC, head.next_attempt_at) AS place
        FROM lane CROSS JOIN clock CROSS JOIN LATERAL (
            SELECT t.ctid AS tid, t.next_attempt_at
            FROM tasktable.scheduled_tasks AS t
            WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority
                AND t.next_attempt_at <= clock.now + $2::interval
            ORDER BY t.next_attempt_at
            LIMIT lane.room
        ) AS head
    ) AS ranked
    WHERE ranked.place <= ranked.room
    ORDER BY ranked.place
    LIMIT $9::int
), locked AS MATERIALIZED (
    -- -infinity, which only an edit past the checks can bring, would not fit the client's times.
    SELECT t.id, greatest(t.next_attempt_at, '1970-01-01'::timestamptz) AS due,
        coalesce(coalesce(t.run_now_at, t.scheduled_at) + t.expiration <= clock.now, false) AS expired
    FROM tasktable.scheduled_tasks AS t CROSS JOIN clock
    WHERE t.ctid = ANY (ARRAY(SELECT picked.tid FROM picked))
        AND t.next_attempt_at <= clock.now + $2::interval
    FOR UPDATE OF t SKIP LOCKED
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t
    SET status = CASE WHEN locked.expired THEN 'EXPIRED' ELSE 'EXECUTING' END,
        attempt = t.attempt + CASE WHEN locked.expired THEN 0 ELSE 1 END,
        fence = CASE WHEN locked.expired THEN NULL ELSE nextval('tasktable.task_numbers') END,
        held_until = CASE WHEN locked.expired THEN NULL
            ELSE greatest(clock.now, t.next_attempt_at) + $3::interval + t.expected_execution_time END,
        next_attempt_at = NULL,
        message = CASE WHEN locked.expired
            THEN concat_ws('; last error: ', 'expired before it could start', t.message) ELSE t.message END,
        finished_at = CASE WHEN locked.expired THEN clock.now END,
        last_status_update = clock.now
    FROM locked CROSS JOIN clock
    WHERE t.id = locked.id
    RETURNING t.id, t.type, t.queue, t.priority, t.fence, t.revision, t.attempt, t.scheduled_at, locked.due
), expired AS (
    INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, due_at, finished_at, outcome, error)
    SELECT nextval('tasktable.task_numbers'), u.id, u.type, u.revision, u.attempt, u.scheduled_at, u.due, clock.now, 'EXPIRED', 'expired before it could start'
    FROM updated AS u CROSS JOIN clock
    WHERE u.fence IS NULL
)
SELECT u.id, u.type, u.queue, u.priority, u.fence, u.revision, u.attempt, u.due
FROM updated AS u
ORDER BY u.priority DESC, u.due, u.id`

// claimed is a task that a pass has taken: with a fence to run, without one because it was expired.
type claimed struct {
	ID       string
	Type     string
	Queue    string
	Priority int
	Fence    *int64
	Revision int64
	Attempt  int
	Due      time.Time
}

func (c claimed) hold() hold {
	return hold{ID: c.ID, Fence: *c.Fence, Revision: c.Revision, Attempt: c.Attempt, Due: c.Due}
}

// claim takes at most `most` tasks that are due, or will be within lookAhead, from the lanes given. It must run in a
// transaction, between enterSQL and leaveSQL or the transaction's end.
func (s statements) claim(ctx context.Context, q querier, now *time.Time, lookAhead, allowance time.Duration, lanes []laneBudget, most int) ([]claimed, error) {
	n := len(lanes)
	queues, types := make([]string, n), make([]string, n)
	priorities, pools, rooms := make([]int, n), make([]int, n), make([]int, n)
	for i, l := range lanes {
		queues[i], types[i], priorities[i], pools[i], rooms[i] = l.Queue, l.Type, l.Priority, l.Pool, l.Room
	}
	rows, err := q.Query(ctx, s.schema.SQL(claimSQL), now, lookAhead, allowance, queues, types, priorities, pools, rooms, most)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	taken, err := pgx.CollectRows(rows, pgx.RowToStructByName[claimed])
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return taken, nil
}

// The head of one lane, failed where it stands. Nothing is computed from its columns.
const failHeadSQL = `
UPDATE tasktable.scheduled_tasks AS t
SET status = 'FAILED', next_attempt_at = NULL, message = $4::text, finished_at = clock_timestamp(), last_status_update = clock_timestamp()
WHERE t.ctid = ANY (ARRAY(
    SELECT t.ctid FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = $1::text AND t.type = $2::text AND t.priority = $3::int AND t.next_attempt_at IS NOT NULL
    ORDER BY t.next_attempt_at LIMIT 1))
RETURNING t.id::text`

// failHead gives up the task at the head of a lane, which cannot even be claimed, so that it does not stop the others.
func (s statements) failHead(ctx context.Context, q querier, l lane, why string) (string, error) {
	rows, err := q.Query(ctx, s.schema.SQL(failHeadSQL), l.Queue, l.Type, l.Priority, why)
	if err != nil {
		return "", fmt.Errorf("fail the head of a lane: %w", err)
	}
	id, err := pgx.CollectOneRow(rows, pgx.RowTo[string])
	if err != nil {
		return "", fmt.Errorf("fail the head of a lane: %w", err)
	}
	return id, nil
}

// isDataError tells an error that the data causes, and that comes again with the same data, from one of the moment: bad values,
// broken rules, what is too big or too deep, and what a trigger of the application's raises.
func isDataError(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code[:2] {
	case "22", "23", "54", "P0":
		return true
	}
	return false
}

// isTimeout tells a statement that took too long or waited too long for a lock: less at a time may do.
func isTimeout(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "57014" || pgErr.Code == "55P03" || pgErr.Code == "40P01" || pgErr.Code == "40001")
}
