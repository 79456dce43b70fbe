package taskdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// ClaimSQL shares the room of each pool among its lanes, locks that many tasks of each lane, and updates these tasks.
//
// In a pool, tasks that are due come first, then the higher priority, then the older task. Tasks that are only near
// come after all due tasks, and may take less room. For each lane the statement ranks one task more than fits,
// because a task that is too large for the room that is left must keep smaller tasks of lower lanes from taking that
// room.
//
// A single lane shares its room with nobody, so Postgres need not rank its tasks, which is a tenth of the time. The
// statement only asks whether more tasks are due than fit into the room for near tasks. If so, it takes due tasks
// alone, as many as fit into the whole room. Otherwise it takes due and near tasks, as many as fit into the room for
// near tasks. There may be fewer tasks than that.
//
// The second scan of a lane locks rows as it picks them, and locks no more than the lane's share. It steps over rows
// that others have locked. It leaves a row that was edited after the statement began to the next pass, because the
// update cannot see the row's new version. If a lane has fewer rows that can be locked than its share, the answer has
// a row with the lane and without an id.
const ClaimSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), lane AS MATERIALIZED (
    -- Dead index entries may lie before the head that was listed.
    SELECT number, queue, type, priority, pool, room, least(near, room) AS near, cost, head,
        interval '500 ms' AS max_scan
    FROM unnest($4::text[], $5::text[], $6::int[], $7::int[], $8::int[], $9::int[], $10::int[], $11::timestamptz[])
        WITH ORDINALITY AS l (queue, type, priority, pool, room, near, cost, head, number)
), share AS MATERIALIZED (
    SELECT single.number,
        least(CASE WHEN single.many_due THEN single.room ELSE single.near END / single.cost, $12::int) AS tasks,
        NOT single.many_due AS has_near
    FROM (
        SELECT lane.*, EXISTS (
            SELECT FROM tasktable.scheduled_tasks AS t
            WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
                AND t.next_attempt_at BETWEEN lane.head AND clock.now AND t.id <> ALL ($13::text[])
            OFFSET least(lane.near / lane.cost, $12::int)
        ) AS many_due
        FROM lane CROSS JOIN clock
        WHERE (SELECT count(*) FROM lane) = 1
        OFFSET 0 -- keeps Postgres from asking twice whether many are due
    ) AS single
    UNION ALL
    SELECT fits.number, count(*) AS tasks, bool_or(fits.is_near) AS has_near
    FROM (
        SELECT ranked.number, ranked.is_near
        FROM (
            SELECT lane.number, waiting.is_near, CASE WHEN waiting.is_near THEN lane.near ELSE lane.room END AS room,
                sum(lane.cost) OVER (
                    PARTITION BY lane.pool
                    ORDER BY waiting.is_near, lane.priority DESC, waiting.next_attempt_at ROWS UNBOUNDED PRECEDING
                ) AS place
            FROM lane CROSS JOIN clock CROSS JOIN LATERAL (
                SELECT t.next_attempt_at, t.next_attempt_at > clock.now AS is_near
                FROM tasktable.scheduled_tasks AS t
                WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
                    AND t.next_attempt_at BETWEEN lane.head AND clock.now + $2::interval AND t.id <> ALL ($13::text[])
                ORDER BY t.next_attempt_at
                LIMIT least(lane.room / lane.cost + 1, $12::int)
            ) AS waiting
        ) AS ranked
        WHERE ranked.place <= ranked.room
        ORDER BY ranked.place
        LIMIT $12::int
    ) AS fits
    WHERE (SELECT count(*) FROM lane) > 1
    GROUP BY fits.number
), locked AS MATERIALIZED (
    SELECT share.number, waiting.*
    FROM share JOIN lane ON lane.number = share.number CROSS JOIN clock CROSS JOIN LATERAL (
        SELECT t.ctid AS tid, t.next_attempt_at AS since,
            -- An edit past the checks can bring a time that would not fit the client's.
            greatest(coalesce(t.due_at, t.next_attempt_at), '1970-01-01'::timestamptz) AS due,
            coalesce(tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter) + t.expiration <= clock.now, false)
                AS expired
        FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
            AND t.next_attempt_at
                BETWEEN lane.head AND clock.now + CASE WHEN share.has_near THEN $2::interval ELSE interval '0' END
            AND t.id <> ALL ($13::text[])
            -- An application may have locked a million tasks. The other lanes must not wait until they are all passed.
            AND clock_timestamp() < (SELECT clock_timestamp() + lane.max_scan)
        ORDER BY t.next_attempt_at
        LIMIT share.tasks
        FOR UPDATE SKIP LOCKED
    ) AS waiting
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t
    SET status = CASE WHEN locked.expired THEN 'EXPIRED' ELSE 'EXECUTING' END,
        attempt = t.attempt + CASE WHEN locked.expired THEN 0 ELSE 1 END,
        fence = CASE WHEN locked.expired THEN NULL ELSE nextval('tasktable.task_numbers') END,
        lease_expires_at = CASE WHEN locked.expired THEN NULL
            ELSE greatest(clock.now, t.next_attempt_at) + $3::interval
                + least(greatest(t.expected_execution_time, interval '0'), interval '168 hours') END,
        next_attempt_at = NULL,
        due_at = NULL,
        message = CASE WHEN locked.expired
            THEN concat_ws('; last error: ', 'expired before it could start', t.message) ELSE t.message END,
        finished_at = CASE WHEN locked.expired THEN clock.now END,
        last_status_update = clock.now
    FROM locked CROSS JOIN clock
    WHERE t.ctid = locked.tid
    -- Postgres tells the stored size without reading a large payload.
    RETURNING t.id, t.type, t.queue, t.priority, t.fence, t.revision, t.attempt, t.scheduled_at, locked.due,
        locked.since, coalesce(pg_column_size(t.payload), 0) AS bytes
), ended AS (
    SELECT nextval('tasktable.task_numbers') AS fence, u.id AS task_id, u.type, u.revision, u.attempt, u.scheduled_at,
        u.due AS due_at, NULL::timestamptz AS started_at, clock.now AS finished_at, 'EXPIRED' AS outcome,
        'expired before it could start' AS error, NULL::bigint AS node
    FROM updated AS u CROSS JOIN clock
    WHERE u.fence IS NULL
), ` + recordedSQL + `
SELECT u.id::text AS id, u.type::text AS type, u.queue::text AS queue, u.priority::int AS priority,
    u.fence, u.revision, u.attempt, u.due, u.since, u.bytes
FROM updated AS u
UNION ALL
SELECT '', lane.type, lane.queue, lane.priority, NULL, 0, 0, '1970-01-01', '1970-01-01', 0
FROM share JOIN lane ON lane.number = share.number LEFT JOIN (
    SELECT locked.number, count(*) AS tasks FROM locked GROUP BY locked.number
) AS got ON got.number = share.number
WHERE share.tasks > coalesce(got.tasks, 0)`

// Claim is a claim of one task. It travels in a River job. The statements of gate, settle and reclaim find the task by
// it.
type Claim struct {
	ID       string
	Fence    int64
	Revision int64
	Attempt  int
	Due      time.Time
}

// ClaimedTask is a task that a pass has taken. A task that is to run has a fence. A task that the pass has expired has
// none.
type ClaimedTask struct {
	ID       string
	Type     string
	Queue    string
	Priority int
	Fence    *int64
	Revision int64
	Attempt  int
	Due      time.Time
	Since    time.Time // from when on it could be claimed
	Bytes    int       // size of the stored payload
}

// Claim returns the claim of a task that was claimed. It must not be called for a task that has expired.
func (c ClaimedTask) Claim() Claim {
	return Claim{ID: c.ID, Fence: *c.Fence, Revision: c.Revision, Attempt: c.Attempt, Due: c.Due}
}

// Claim takes at most `most` tasks that are due, or will be due within lookAhead, from the given lanes. It leaves out
// the tasks in aside. It must run in a transaction, between EnterSQL and LeaveSQL or the end of the transaction.
//
// Claim does not wait for rows. It steps over a row that an application has locked, and takes the tasks behind it. If
// a lane has only locked rows left, Claim gives the lane's room to the other lanes.
func (s Queries) Claim(
	ctx context.Context, q pg.DB, now *time.Time, lookAhead, allowance time.Duration, lanes []LaneQuota, most int,
	aside ...string,
) ([]ClaimedTask, error) {
	var taken []ClaimedTask
	for {
		some, locked, err := s.claimOnce(ctx, q, now, lookAhead, allowance, lanes, most-len(taken), aside)
		if err != nil {
			return nil, err
		}
		taken = append(some, taken...) // nearly always there are no earlier ones, and then nothing is copied
		if len(locked) > 0 && len(taken) < most {
			lanes = lanesLeft(lanes, some, locked)
		}
		if len(locked) == 0 || len(taken) >= most || len(lanes) == 0 {
			slices.SortFunc(taken, inOrder)
			return taken, nil
		}
	}
}

// inOrder compares the places of two tasks in a pool. Postgres would take ten times as long to sort them.
func inOrder(a, b ClaimedTask) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID))
}

// claimOnce claims with one statement. It also returns a row for each lane from which it took less than the lane's
// share. The other rows of that lane were locked, or, if the lane is the only one, there may be no others.
func (s Queries) claimOnce(
	ctx context.Context, q pg.DB, now *time.Time, lookAhead, allowance time.Duration, lanes []LaneQuota, most int,
	aside []string,
) (taken, locked []ClaimedTask, err error) {
	var queues, kinds []string
	var priorities, pools, rooms, nears, costs []int
	var heads []time.Time
	for _, l := range lanes {
		queues, kinds = append(queues, l.Queue), append(kinds, l.Type)
		priorities = append(priorities, l.Priority)
		pools, rooms, nears = append(pools, l.Pool), append(rooms, l.Room), append(nears, l.Near)
		costs, heads = append(costs, l.cost()), append(heads, l.Head)
	}
	rows, err := q.Query(ctx, s.Schema.SQL(ClaimSQL), now, lookAhead, allowance,
		queues, kinds, priorities, pools, rooms, nears, costs, heads, most, pg.OrEmpty(aside))
	if err != nil {
		return nil, nil, fmt.Errorf("claim: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[ClaimedTask])
	if err != nil {
		return nil, nil, fmt.Errorf("claim: %w", err)
	}
	isLane := func(c ClaimedTask) bool { return c.ID == "" && c.Fence == nil }
	for _, c := range all {
		if isLane(c) {
			locked = append(locked, c)
		}
	}
	return slices.DeleteFunc(all, isLane), locked, nil
}

// lanesLeft leaves out the lanes that have only locked rows left. It gives the other lanes the room that the claimed
// tasks leave.
func lanesLeft(lanes []LaneQuota, taken, locked []ClaimedTask) (left []LaneQuota) {
	used := map[int]int{} // by pool
	for _, l := range lanes {
		for _, c := range taken {
			if l.Has(c) {
				used[l.Pool] += l.cost()
			}
		}
	}
	for _, l := range lanes {
		if !slices.ContainsFunc(locked, l.Has) {
			l.Room, l.Near = max(l.Room-used[l.Pool], 0), max(l.Near-used[l.Pool], 0)
			left = append(left, l)
		}
	}
	return left
}

func (b LaneQuota) cost() int { return max(b.Cost, 1) }

// Has reports whether the task was claimed from the lane.
func (b LaneQuota) Has(c ClaimedTask) bool {
	return b.Queue == c.Queue && b.Type == c.Type && b.Priority == c.Priority
}

// LaneQuota is a lane that may be claimed from. The lanes of a pool share its room.
type LaneQuota struct {
	Lane
	Pool  int // the number of the pool, which is all lanes that need the same slots or places
	Base  int // the number of the pool of the slots; another one than Pool if the tasks need places, too
	Cost  int // how much of the room each task takes
	Room  int // how much may be claimed now, in units of Cost
	Free  int // how much the slots alone have room for; more than Room if there are too few places
	Near  int // how much of the room tasks that are not due yet may take
	Ahead int // into how many River jobs these tasks must fit
	Slots int // over how many slots the claimed tasks are spread
}
