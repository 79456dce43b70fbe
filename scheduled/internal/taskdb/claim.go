package taskdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// claimSQL locks some tasks of each lane, the oldest first, and updates them. It locks no other rows.
//
// It steps over rows that others have locked. It leaves a row that was edited after the statement began to the next
// claim, because the update cannot see the row's new version.
const claimSQL = `
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), lane AS MATERIALIZED (
    -- The scan begins at the head that was listed, because dead index entries may lie before it.
    SELECT number::int, queue, type, priority, head, tasks,
        CASE WHEN near THEN $2::interval ELSE interval '0' END AS ahead, interval '250 ms' AS max_scan
    FROM unnest($4::text[], $5::text[], $6::int[], $7::timestamptz[], $8::int[], $9::boolean[])
        WITH ORDINALITY AS l (queue, type, priority, head, tasks, near, number)
), locked AS MATERIALIZED (
    SELECT lane.number, waiting.*
    FROM lane CROSS JOIN clock CROSS JOIN LATERAL (
        SELECT t.ctid AS tid, t.next_attempt_at AS since,
            -- An edit past the checks can bring a time that would not fit the client's.
            greatest(coalesce(t.due_at, t.next_attempt_at), '1970-01-01'::timestamptz) AS due,
            coalesce(least(tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter) + t.expiration, t.deadline)
                <= clock.now, false) AS expired
        FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
            AND t.next_attempt_at BETWEEN lane.head AND clock.now + lane.ahead
            AND t.id <> ALL ($10::text[])
            -- An application may have locked a million tasks. The other lanes must not wait until they are all passed.
            AND clock_timestamp() < (SELECT clock_timestamp() + lane.max_scan)
        ORDER BY t.next_attempt_at
        LIMIT lane.tasks
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
    RETURNING locked.number, t.id, t.type, t.fence, t.revision, t.attempt, t.scheduled_at, locked.due, locked.since,
        coalesce(pg_column_size(t.payload), 0) AS bytes
), ended AS (
    SELECT nextval('tasktable.task_numbers') AS fence, u.id AS task_id, u.type, u.revision, u.attempt, u.scheduled_at,
        u.due AS due_at, NULL::timestamptz AS started_at, clock.now AS finished_at, 'EXPIRED' AS outcome,
        'expired before it could start' AS error, NULL::bigint AS node
    FROM updated AS u CROSS JOIN clock
    WHERE u.fence IS NULL
), ` + recordedSQL + `
SELECT u.number, u.id::text, coalesce(u.fence, 0), u.revision, u.attempt, u.due, u.since, u.bytes FROM updated AS u`

// claimKeyedSQL and peekKeyedSQL do the same in lanes of one group or tenant. For lanes in order see inorder.go.
var claimKeyedSQL, peekKeyedSQL = ofKeys.Replace(claimSQL), ofKeys.Replace(peekSQL)

// ofKeys turns a statement about lanes into one about lanes with a limit key, whose keys are the last parameter.
var ofKeys = strings.NewReplacer(
	"head, tasks,\n", "head, tasks, limit_key,\n", "near, number)", "near, limit_key, number)",
	"$9::boolean[])", "$9::boolean[], $11::text[])", "$8::boolean[])", "$8::boolean[], $10::text[])",
	// These two conditions are those of the index of keys. Postgres must not use the index of all tasks, in which the
	// tasks of a key may lie behind a million others. Only the index of keys has them in this order.
	"t.priority = lane.priority",
	"t.priority = lane.priority AND t.limit_key <> '' AND t.next_attempt_at IS NOT NULL",
	"AND t.next_attempt_at BETWEEN lane.head AND clock.now + lane.ahead",
	"AND (t.limit_key, t.next_attempt_at) BETWEEN (lane.limit_key, lane.head) "+
		"AND (lane.limit_key, clock.now + lane.ahead)",
	"AND t.next_attempt_at\n            BETWEEN lane.head AND clock.now + "+
		"CASE WHEN lane.near THEN $2::interval ELSE interval '0' END",
	"AND (t.limit_key, t.next_attempt_at) BETWEEN (lane.limit_key, lane.head) AND "+
		"(lane.limit_key, clock.now + CASE WHEN lane.near THEN $2::interval ELSE interval '0' END)",
	"ORDER BY t.next_attempt_at", "ORDER BY t.limit_key, t.next_attempt_at",
)

// Claim says that a node may run one task, once. A River job carries it. Each statement that asks the gate, settles a
// task or takes it back names the claim.
type Claim struct {
	ID       string
	Fence    int64
	Revision int64
	Attempt  int
	Due      time.Time
}

// ClaimedTask is a task that a pass has taken.
type ClaimedTask struct {
	Claim
	Bytes int // size of the stored payload
}

// ClaimedLane has the tasks that a pass has taken from a lane by a grant, in their order. There is at least one. The
// lane is that of the grant, even if a trigger of the application gives the tasks another one at the claim.
type ClaimedLane struct {
	Grant   Grant
	Tasks   []ClaimedTask // are to run
	Expired []ClaimedTask // have ended; their fences are 0
	// Last is the latest next_attempt_at of them. It is in 1970 for a task that goes first of its group or tenant
	// (inorder.go), so that the mark of the lane stays.
	Last time.Time
}

// Len is how many tasks were taken.
func (l ClaimedLane) Len() int { return len(l.Tasks) + len(l.Expired) }

// Grant is how many tasks a claim may take from a lane.
type Grant struct {
	Lane
	Tasks int
	Near  bool // also tasks that are due within the look-ahead
	Slots int  // over how many River jobs the tasks are spread
	Fits  int  // how many tasks a job has at most
	Jobs  int  // how many jobs a limit allows; 0: no limit bounds them
}

// JobSize is how many tasks go into one River job, if so many were claimed. Under light load each task gets a job of
// its own, because the use of all slots gains more than fewer jobs would.
func (g Grant) JobSize(claimed int) int {
	slots := max(g.Slots, 1)
	return max(1, min(g.Fits, (claimed+slots-1)/slots))
}

// Claim takes tasks that are due, or will be due within lookAhead, as many from each lane as is granted. It leaves out
// the tasks in aside. It does not wait for rows that others have locked. It must run in a transaction, between EnterSQL
// and LeaveSQL or the end of the transaction.
func (s Queries) Claim(
	ctx context.Context, q pg.DB, now *time.Time, lookAhead, allowance time.Duration, grants []Grant, aside ...string,
) (taken []ClaimedLane, err error) {
	claim := func(statement string, grants []Grant, more ...any) {
		if err != nil || len(grants) == 0 {
			return
		}
		columns := columnsOfLanes(column(grants, func(g *Grant) LaneAt { return LaneAt{g.Key(), g.Head} }))
		var rows pgx.Rows
		args := slices.Concat([]any{now, lookAhead, allowance}, columns, []any{
			column(grants, func(g *Grant) int { return g.Tasks }),
			column(grants, func(g *Grant) bool { return g.Near }), pg.OrEmpty(aside),
		}, more)
		rows, err = q.Query(ctx, s.Schema.SQL(statement), args...)
		if err == nil {
			var some []ClaimedLane
			some, err = readClaimed(rows, grants)
			taken = append(taken, some...)
		}
	}
	plain, keyed := apart(grants, func(g *Grant) string { return g.LimitKey })
	keyed, ordered := apart(keyed, func(g *Grant) string { return g.InOrder })
	keyOf := func(g *Grant) string { return g.LimitKey }
	claim(claimSQL, plain)
	claim(claimKeyedSQL, keyed, column(keyed, keyOf))
	claim(claimInOrderSQL, ordered, column(ordered, keyOf), column(ordered, func(g *Grant) string { return g.InOrder }))
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	// River fetches the jobs of a priority in the order in which they were inserted.
	slices.SortFunc(taken, func(a, b ClaimedLane) int {
		return cmp.Or(cmp.Compare(b.Grant.Priority, a.Grant.Priority),
			slices.CompareFunc(a.Tasks, b.Tasks, ClaimedTask.compare))
	})
	return taken, nil
}

// readClaimed reads the rows of claimSQL. pgx.RowToStructByName would allocate for each of them.
func readClaimed(rows pgx.Rows, grants []Grant) (taken []ClaimedLane, err error) {
	var number int
	var since time.Time
	var one ClaimedTask
	lanes := make([]ClaimedLane, len(grants))
	_, err = pgx.ForEachRow(rows, []any{
		&number, &one.ID, &one.Fence, &one.Revision, &one.Attempt, &one.Due, &since, &one.Bytes,
	}, func() error {
		lane := &lanes[number-1]
		if since.After(lane.Last) {
			lane.Last = since
		}
		tasks := &lane.Tasks
		if one.Fence == 0 {
			tasks = &lane.Expired
		}
		*tasks = append(*tasks, one)
		return nil
	})
	for i, lane := range lanes {
		if lane.Grant = grants[i]; lane.Len() > 0 {
			slices.SortFunc(lane.Tasks, ClaimedTask.compare) // Postgres would take ten times as long to sort them
			taken = append(taken, lane)
		}
	}
	return taken, err //nolint:wrapcheck // Claim does
}

// compare compares the places of two tasks of a priority.
func (c ClaimedTask) compare(other ClaimedTask) int {
	return cmp.Or(c.Due.Compare(other.Due), cmp.Compare(c.ID, other.ID))
}

// apart parts lanes into those without and those with a limit key.
func apart[T any](lanes []T, keyOf func(*T) string) (plain, keyed []T) {
	for i := range lanes {
		if keyOf(&lanes[i]) == "" {
			plain = append(plain, lanes[i])
		} else {
			keyed = append(keyed, lanes[i])
		}
	}
	return plain, keyed
}

// peekSQL tells in how long each of the first tasks of some lanes is due, in nanoseconds.
const peekSQL = `
SELECT ARRAY(
    SELECT (extract(epoch FROM t.next_attempt_at - clock.now) * 1000000000)::bigint
    FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
        AND t.next_attempt_at
            BETWEEN lane.head AND clock.now + CASE WHEN lane.near THEN $2::interval ELSE interval '0' END
        AND t.id <> ALL ($9::text[])
    ORDER BY t.next_attempt_at
    LIMIT lane.most
) AS due_in
FROM unnest($3::text[], $4::text[], $5::int[], $6::timestamptz[], $7::int[], $8::boolean[])
    WITH ORDINALITY AS lane (queue, type, priority, head, most, near, number)
CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now OFFSET 0) AS clock
ORDER BY lane.number`

// Peek is a look at the first tasks of a lane.
type Peek struct {
	Lane
	Near bool // also at tasks that are due within the look-ahead
	Most int
}

// Peek tells in how long each of the first tasks of some lanes is due. It locks nothing, and leaves out the tasks in
// aside.
func (s Queries) Peek(
	ctx context.Context, q pg.DB, now *time.Time, lookAhead time.Duration, lanes []Peek, aside ...string,
) (times [][]time.Duration, err error) {
	peek := func(statement string, lanes []Peek, more ...any) (found [][]time.Duration) {
		if err != nil || len(lanes) == 0 {
			return nil
		}
		columns := columnsOfLanes(column(lanes, func(p *Peek) LaneAt { return LaneAt{p.Key(), p.Head} }))
		found, err = pg.CollectColumn[[]time.Duration](ctx, q, "look at the tasks of lanes", s.Schema.SQL(statement),
			slices.Concat([]any{now, lookAhead}, columns, []any{
				column(lanes, func(p *Peek) int { return p.Most }), column(lanes, func(p *Peek) bool { return p.Near }),
				pg.OrEmpty(aside),
			}, more)...)
		return found
	}
	plain, keyed := apart(lanes, func(p *Peek) string { return p.LimitKey })
	ofPlain := peek(peekSQL, plain)
	ofKeyed := peek(peekKeyedSQL, keyed, column(keyed, func(p *Peek) string { return p.LimitKey }))
	if err != nil {
		return nil, err
	}
	for i := range lanes {
		from := &ofPlain
		if lanes[i].LimitKey != "" {
			from = &ofKeyed
		}
		times, *from = append(times, (*from)[0]), (*from)[1:]
	}
	return times, nil
}
