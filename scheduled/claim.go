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
type statements struct {
	schema store.Schema
	zones  *zones // nil: the machine's
}

// context "engine" keeps the triggers from taking an expiry for somebody's edit. It ends with the transaction; inside a
// longer one it is put back by leave.
const enterSQL = `SELECT set_config('tasktable_change.context', 'engine', true)`
const leaveSQL = `SELECT set_config('tasktable_change.context', '', true)`

// What claimSQL and claimFreeSQL share: whether a task t may no longer start, what is written of the chosen ones, and what is recorded and
// returned of the updated ones.
const (
	expiredColumn = `coalesce(tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter) + t.expiration <= clock.now, false) AS expired`

	// The stored size, which Postgres tells without reading a large payload.
	bytesColumn = `coalesce(pg_column_size(t.payload), 0) AS bytes`

	claimSet = `
    SET status = CASE WHEN chosen.expired THEN 'EXPIRED' ELSE 'EXECUTING' END,
        attempt = t.attempt + CASE WHEN chosen.expired THEN 0 ELSE 1 END,
        fence = CASE WHEN chosen.expired THEN NULL ELSE nextval('tasktable.task_numbers') END,
        lease_expires_at = CASE WHEN chosen.expired THEN NULL
            ELSE greatest(clock.now, t.next_attempt_at) + $3::interval + least(greatest(t.expected_execution_time, interval '0'), interval '168 hours') END,
        next_attempt_at = NULL,
        message = CASE WHEN chosen.expired
            THEN concat_ws('; last error: ', 'expired before it could start', t.message) ELSE t.message END,
        finished_at = CASE WHEN chosen.expired THEN clock.now END,
        last_status_update = clock.now`

	claimResult = `), expired AS (
    INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, due_at, finished_at, outcome, error)
    SELECT nextval('tasktable.task_numbers'), u.id, u.type, u.revision, u.attempt, u.scheduled_at, u.due, clock.now, 'EXPIRED', 'expired before it could start'
    FROM updated AS u CROSS JOIN clock
    WHERE u.fence IS NULL
)
SELECT u.id::text AS id, u.type::text AS type, u.queue::text AS queue, u.priority::int AS priority, u.fence, u.revision, u.attempt, u.due, u.bytes
FROM updated AS u`
)

// Picks without locks, then locks by ctid and rechecks only what was picked, then updates by the ctid that it locked (with scans of the table off, a nested loop of TID scans). In a pool what
// is due comes before what is only near, of which there may be fewer, then the higher priority, then the older; so the look-ahead takes spare room only.
// Of each lane one more is ranked than fits: it keeps quick tasks of lower lanes from the room that is too small for it.
const claimSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), lane AS MATERIALIZED (
    SELECT * FROM unnest($4::text[], $5::text[], $6::int[], $7::int[], $8::int[], $12::int[], $13::int[], $14::timestamptz[]) AS l (queue, type, priority, pool, room, near, cost, head)
), picked AS MATERIALIZED (
    SELECT ranked.tid
    FROM (
        SELECT head.tid, CASE WHEN head.next_attempt_at > clock.now THEN least(lane.near, lane.room) ELSE lane.room END AS room,
            sum(lane.cost) OVER (PARTITION BY lane.pool ORDER BY head.next_attempt_at > clock.now, lane.priority DESC, head.next_attempt_at ROWS UNBOUNDED PRECEDING) AS place, lane.cost
        FROM lane CROSS JOIN clock CROSS JOIN LATERAL (
            SELECT t.ctid AS tid, t.next_attempt_at
            FROM tasktable.scheduled_tasks AS t
            WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
                -- From the head that was listed: before it may be many dead ones.
                AND t.next_attempt_at >= CASE WHEN lane.head <= '1970-01-01' THEN '-infinity' ELSE lane.head END
                AND t.next_attempt_at <= clock.now + $2::interval AND t.id <> ALL ($11::text[])
            ORDER BY t.next_attempt_at
            LIMIT least(lane.room / lane.cost + 1, $9::int) + $10::int
        ) AS head
    ) AS ranked
    WHERE ranked.place <= ranked.room + $10::int * ranked.cost
    ORDER BY ranked.place
    LIMIT $9::int + $10::int
), locked AS MATERIALIZED (
    -- -infinity, which only an edit past the checks can bring, would not fit the client's times.
    SELECT t.ctid AS tid, t.id, t.queue, t.type, t.priority, greatest(t.next_attempt_at, '1970-01-01'::timestamptz) AS due,
        ` + expiredColumn + `
    FROM tasktable.scheduled_tasks AS t CROSS JOIN clock
    WHERE t.ctid = ANY (ARRAY(SELECT picked.tid FROM picked))
        -- coalesce hides from the planner that the index of waiting tasks would do: with stale statistics it would read that, the whole backlog.
        AND coalesce(t.next_attempt_at <= clock.now + $2::interval, false) AND t.cron IS NULL
    FOR UPDATE OF t SKIP LOCKED
), chosen AS MATERIALIZED (
    -- Of what could be locked no more than there is room for: some more may have been looked at, past rows that others hold.
    SELECT ranked.* FROM (
        SELECT l.*, CASE WHEN l.due > clock.now THEN least(lane.near, lane.room) ELSE lane.room END AS room, sum(lane.cost) OVER (PARTITION BY lane.pool ORDER BY l.due > clock.now, l.priority DESC, l.due ROWS UNBOUNDED PRECEDING) AS place
        FROM locked AS l CROSS JOIN clock JOIN lane ON lane.queue = l.queue AND lane.type = l.type AND lane.priority = l.priority
    ) AS ranked
    WHERE ranked.place <= ranked.room
    ORDER BY ranked.place
    LIMIT $9::int
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t ` + claimSet + `
    FROM chosen CROSS JOIN clock
    WHERE t.ctid = chosen.tid
    RETURNING t.id, t.type, t.queue, t.priority, t.fence, t.revision, t.attempt, t.scheduled_at, chosen.due, ` + bytesColumn + `
` + claimResult + `
UNION ALL
SELECT '', '', '', -1000, NULL, 0, (SELECT count(*) FROM picked)::int - (SELECT count(*) FROM locked)::int, '1970-01-01', 0
ORDER BY priority DESC, due, id`

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
	Bytes    int // of the stored payload
}

func (c claimed) hold() hold {
	return hold{ID: c.ID, Fence: *c.Fence, Revision: c.Revision, Attempt: c.Attempt, Due: c.Due}
}

// claim takes at most `most` tasks that are due, or will be within lookAhead, from the lanes given. It must run in a
// transaction, between enterSQL and leaveSQL or the transaction's end. Tasks whose rows an application has locked are left, and
// looked past: those behind them do not wait for it. So are the tasks set aside.
func (s statements) claim(
	ctx context.Context, q querier, now *time.Time, lookAhead, allowance time.Duration, lanes []laneBudget, most int, aside ...string,
) ([]claimed, error) {
	var taken []claimed
	room := roomOf(lanes)
	locked := 0
	for range claimTries {
		some, skipped, err := s.claimOnce(ctx, q, now, lookAhead, allowance, lanes, room, most-len(taken), locked, aside)
		if err != nil {
			return nil, err
		}
		taken = append(taken, some...)
		if skipped <= locked || len(taken) >= most {
			break // nothing new was in the way
		}
		locked = 4 * skipped // so many may be: a bulk edit in progress
		for _, c := range some {
			for _, l := range lanes {
				if l.Queue == c.Queue && l.Type == c.Type && l.Priority == c.Priority {
					room[l.Pool] = max(room[l.Pool]-l.Cost, 0)
				}
			}
		}
	}
	return taken, nil
}

// claimTries bounds the looks past locked tasks: 4, 16, 64 times as many as were found in the way.
const claimTries = 4

// claimOnce also returns how many tasks it left because their rows were locked. past is how many more than there is room for it
// looks at, because so many may be.
func (s statements) claimOnce(
	ctx context.Context, q querier, now *time.Time, lookAhead, allowance time.Duration, lanes []laneBudget, room map[int]int, most, past int,
	aside []string,
) (taken []claimed, skipped int, err error) {
	c := columnsOfLanes(lanes, room)
	rows, err := q.Query(ctx, s.schema.SQL(claimSQL), now, lookAhead, allowance, c.queues, c.types, c.priorities, c.pools, c.rooms, most, past, notNil(aside), c.nears, c.costs, c.heads)
	if err != nil {
		return nil, 0, fmt.Errorf("claim: %w", err)
	}
	taken, err = pgx.CollectRows(rows, pgx.RowToStructByName[claimed])
	if err != nil {
		return nil, 0, fmt.Errorf("claim: %w", err)
	}
	summary := taken[len(taken)-1] // the last row counts
	return taken[:len(taken)-1], summary.Attempt, nil
}

// laneColumns is lanes turned on their side, as unnest takes them.
type laneColumns struct {
	queues, types                          []string
	priorities, pools, rooms, nears, costs []int
	heads                                  []time.Time
}

// columnsOfLanes turns lanes. room is that of each pool by now.
func columnsOfLanes(lanes []laneBudget, room map[int]int) *laneColumns {
	c := &laneColumns{}
	for _, l := range lanes {
		c.queues, c.types, c.priorities = append(c.queues, l.Queue), append(c.types, l.Type), append(c.priorities, l.Priority)
		c.pools, c.rooms, c.nears = append(c.pools, l.Pool), append(c.rooms, room[l.Pool]), append(c.nears, l.Near)
		c.costs, c.heads = append(c.costs, max(l.Cost, 1)), append(c.heads, l.Head)
	}
	return c
}

// roomOf is the room of each pool.
func roomOf(lanes []laneBudget) map[int]int {
	room := map[int]int{}
	for _, l := range lanes {
		room[l.Pool] = l.Room
	}
	return room
}

// head is the first task of a lane.
type head struct {
	ID       string
	Revision int64
}

// Nothing is computed from its columns, and what cannot be read of it is not read.
const lockHeadSQL = `
SELECT t.id::text AS id, coalesce(t.revision, 0) AS revision FROM tasktable.scheduled_tasks AS t
WHERE t.queue = $1::text AND t.type = $2::text AND t.priority = $3::int AND t.cron IS NULL AND t.next_attempt_at <= clock_timestamp() + $4::interval
    AND t.id <> ALL ($5::text[])
ORDER BY t.next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED`

const lockRecurringHeadSQL = `
SELECT t.id::text AS id, coalesce(t.revision, 0) AS revision FROM tasktable.scheduled_tasks AS t
WHERE t.queue = $1::text AND t.type = $2::text AND t.cron IS NOT NULL AND t.next_attempt_at <= clock_timestamp() AND t.id <> ALL ($3::text[])
ORDER BY t.next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED`

// lockHead locks the first task of a lane that is due and not set aside, or returns nil.
func (s statements) lockHead(ctx context.Context, q querier, l lane, lookAhead time.Duration, aside ...string) (*head, error) {
	statement, args := lockHeadSQL, []any{l.Queue, l.Type, l.Priority, lookAhead, notNil(aside)}
	if l.Recurring {
		statement, args = lockRecurringHeadSQL, []any{l.Queue, l.Type, notNil(aside)}
	}
	rows, err := q.Query(ctx, s.schema.SQL(statement), args...)
	if err != nil {
		return nil, fmt.Errorf("lock the head of a lane: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[head])
	if err != nil {
		return nil, fmt.Errorf("lock the head of a lane: %w", err)
	}
	if len(found) == 0 {
		return nil, nil //nolint:nilnil // no head is not an error
	}
	return &found[0], nil
}

const failHeadSQL = `
WITH failed AS (
    UPDATE tasktable.scheduled_tasks AS t
    SET status = 'FAILED', next_attempt_at = NULL, message = $3::text, finished_at = clock_timestamp(), last_status_update = clock_timestamp()
    WHERE t.id = $1::text AND coalesce(t.revision, 0) = $2
    RETURNING t.id::text AS id, t.type::text AS type, t.revision, t.attempt
)
INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, finished_at, outcome, error)
SELECT nextval('tasktable.task_numbers'), f.id, coalesce(f.type, ''), coalesce(f.revision, 0), coalesce(f.attempt, 0), clock_timestamp(), clock_timestamp(), 'FAILED', $3::text
FROM failed AS f`

// failHead gives up a task that cannot even be claimed, so that it does not stop the others.
func (s statements) failHead(ctx context.Context, q querier, broken head, why string) error {
	if _, err := q.Exec(ctx, s.schema.SQL(failHeadSQL), broken.ID, broken.Revision, why); err != nil {
		return fmt.Errorf("fail task %s: %w", broken.ID, err)
	}
	return nil
}

// notNil keeps a null from the database, where an empty list is meant.
func notNil(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}

// isDataError tells an error that one row's data causes, or a trigger of the application's on it, and that comes again with the
// same row, from one of the moment or of the connection. A migration that makes a function anew causes one of the same kind, an internal
// error, to whoever is about to call it: so nothing is given up before the error has come twice.
func isDataError(err error) bool {
	var unreadable pgx.ScanArgError
	if errors.As(err, &unreadable) {
		return true
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || isTimeout(err) {
		return false
	}
	if pgErr.Routine == "RevalidateCachedQuery" { // "cached plan must not change result type": a migration's doing, and planned anew by now
		return false
	}
	switch pgErr.Code[:2] {
	case "08", "25", "40", "53", "55", "57", "58": // connection, transaction state, resources, locks, operator, system
		return false
	case "28", "3D", "3F", "42": // no right, or not the tables: the same for every row
		return false
	}
	return true
}

// isTimeout tells a statement that took too long or waited too long for a lock: less at a time may do.
func isTimeout(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "57014" || pgErr.Code == "55P03" || pgErr.Code == "40P01" || pgErr.Code == "40001")
}

// isLocked tells a wait for another transaction that was too long.
func isLocked(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "55P03"
}
