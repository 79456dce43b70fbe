package taskdb

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// SettleSQL locks each row that it can, writes a line of history for each, and releases each hold. It skips a row
// that an application's open transaction has locked, and reports the row as held, so that this row stalls no other.
// Its joins go by the primary key, row by row. A hash join or a scan, which stale statistics could suggest, would
// read the whole table. ANY (ARRAY[...]) leaves Postgres only one probe for each row. $1 is the time, or null for the
// database's clock. The last parameter is the node. The others are the columns of the settlements.
const SettleSQL = `
WITH locked AS MATERIALIZED (
    SELECT s.*, clock.now, t.tid, t.type AS row_type, t.row_scheduled_at, t.status, t.attempt AS row_attempt,
        t.written_start, t.written_node, t.woken, t.row_waits,
        (t.status IN ('EXECUTING', 'PAUSED') AND t.revision = s.revision) AS current, -- a pause draws no revision
        t.first_due AS edited_due,
        -- A snooze that asks for "now" each time would write to the database without a pause.
        CASE WHEN s.outcome = 'SNOOZED' THEN greatest(clock.now + s.next_in, s.started_at + interval '1 second')
            ELSE coalesce(s.next_at, clock.now + s.next_in) END AS next_due,
        CASE WHEN s.to_status NOT IN ('', 'QUEUED') THEN s.to_status
            WHEN s.to_status = '' AND t.attempt >= t.max_attempts THEN 'FAILED'
            WHEN t.status = 'PAUSED' THEN 'PAUSED' ELSE 'QUEUED' END AS next_status
    FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::int[], $6::timestamptz[], $7::text[], $8::timestamptz[],
        $9::timestamptz[],
            $10::text[], $11::text[], $12::text[], $13::timestamptz[], $14::interval[], $15::boolean[], $16::text[],
            $17::text[], $18::text[], $19::boolean[]) WITH ORDINALITY
        AS s (id, fence, revision, attempt, due_at, type, scheduled_at, started_at, outcome, edited, to_status, next_at,
        next_in, refund, error, message, result, waits, place)
    CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock
    LEFT JOIN LATERAL (
        SELECT t.ctid AS tid, t.type::text AS type, t.scheduled_at::timestamptz AS row_scheduled_at,
            -- A holder writes the start and its number to the row when an attempt runs for long. Another node that ends
            -- the claim knows the start only from there.
            CASE WHEN t.started_fence = t.fence THEN t.started_at END AS written_start,
            CASE WHEN t.started_fence = t.fence THEN t.node END AS written_node,
            -- A task that was made recurring while it ran is planned now. That is no fire.
            CASE WHEN t.cron IS NULL THEN tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter)
            ELSE clock.now END AS first_due,
            t.status::text AS status, t.revision, t.attempt, t.max_attempts::int AS max_attempts,
            t.again_at IS NOT NULL AS woken, t.waits AS row_waits
        FROM tasktable.scheduled_tasks AS t
        WHERE t.id = s.id AND t.fence = s.fence
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS t ON true
), planned AS (
    SELECT l.*, CASE WHEN l.current AND l.next_status = 'QUEUED' THEN l.next_due
        WHEN NOT l.current AND l.status IN ('QUEUED', 'EXECUTING') THEN l.edited_due END AS next
    FROM locked AS l
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t
    -- EXECUTING and not current means that somebody set the revision by hand. The task runs again. Otherwise it would
    -- stay EXECUTING without a holder.
    SET status = CASE WHEN l.current THEN l.next_status WHEN t.status = 'EXECUTING' THEN 'QUEUED' ELSE t.status END,
        -- Nothing becomes claimable in the past. Claims that are handed back together keep their order.
        next_attempt_at = CASE WHEN l.next > l.now THEN l.next
            WHEN l.next IS NOT NULL THEN l.now + (l.place - 1) * interval '1 microsecond' END,
        due_at = CASE WHEN l.next < l.now THEN l.next END,
        attempt = CASE WHEN l.current AND l.refund THEN greatest(t.attempt - 1, 0) ELSE t.attempt END,
        fence = NULL,
        lease_expires_at = NULL,
        started_at = CASE WHEN l.current THEN coalesce(l.started_at, t.started_at) ELSE t.started_at END,
        finished_at = CASE WHEN l.current AND l.next_status NOT IN ('QUEUED', 'PAUSED') THEN l.now
        ELSE t.finished_at END,
        paused_until = CASE WHEN l.current AND l.next_status <> 'PAUSED' THEN NULL ELSE t.paused_until END,
        message = CASE WHEN l.current AND l.outcome = 'EXPIRED' THEN concat_ws('; last error: ', l.message, t.message)
            WHEN l.current AND (l.next_status NOT IN ('QUEUED', 'PAUSED') OR l.message IS NOT NULL) THEN l.message
            ELSE t.message END,
        result = CASE WHEN l.current THEN l.result::jsonb ELSE t.result END,
        -- A claim that comes to nothing does not end the wait.
        waiting_since = CASE WHEN l.current AND l.waits THEN coalesce(t.waiting_since, l.due_at, l.now)
            WHEN l.current AND l.outcome IN ('RETRIED', 'SNOOZED') THEN NULL ELSE t.waiting_since END,
        waits = CASE WHEN l.current AND l.waits THEN coalesce(t.waits, 0) + 1
            WHEN l.current AND l.outcome IN ('RETRIED', 'SNOOZED') THEN NULL ELSE t.waits END,
        last_status_update = CASE WHEN l.current THEN l.now ELSE t.last_status_update END
    FROM planned AS l
    WHERE l.tid IS NOT NULL AND t.id = ANY (ARRAY[l.id]) AND t.fence = l.fence
), ended AS (
    SELECT l.fence, l.id AS task_id, coalesce(l.type, l.row_type) AS type, l.revision, l.attempt,
        coalesce(l.scheduled_at, l.row_scheduled_at) AS scheduled_at, l.due_at,
        coalesce(l.started_at, l.written_start) AS started_at, l.now AS finished_at,
        CASE WHEN l.current THEN l.outcome WHEN l.started_at IS NULL AND l.edited = 'RELEASED'
        AND l.status = 'CANCELLED' THEN 'CANCELLED' ELSE l.edited END AS outcome,
        CASE WHEN l.current AND l.outcome IN ('RETRIED', 'FAILED', 'SNOOZED') AND NOT l.waits AND l.row_waits > 1
            THEN concat(l.error, ' (before that it waited ', l.row_waits, ' times)') ELSE l.error END AS error,
        coalesce($20::bigint, l.written_node) AS node
    FROM locked AS l
    -- A task may wait for days behind a host that is down. So only the first of its waits has a line.
    WHERE l.tid IS NOT NULL AND NOT coalesce(l.current AND l.waits AND l.row_waits > 0, false)
), ` + recordedSQL + `
SELECT l.fence, l.tid IS NOT NULL AS settled, coalesce(l.current, false) AS current,
    -- OFFSET 0 keeps Postgres from reading the whole table into a hash to answer this.
    CASE WHEN l.tid IS NULL THEN EXISTS (
        SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.id = l.id AND t.fence = l.fence OFFSET 0)
            ELSE false END AS held,
    coalesce(l.next <= l.now + interval '2 seconds', false) AS due_soon,
    coalesce(CASE WHEN l.current THEN l.next_status ELSE l.status END, '') AS status,
    coalesce(l.type, l.row_type, '') AS type,
    coalesce(l.woken, false) AS woken, coalesce(l.current AND l.waits AND l.row_waits > 0, false) AS folded
FROM planned AS l`

// SettleResult is the result of one settlement.
type SettleResult struct {
	Fence   int64
	Settled bool
	Current bool   // the row still belonged to this attempt
	Held    bool   // not settled, because another transaction has locked the row: try again
	DueSoon bool   // the task is due again within two seconds, so the leader should look
	Status  string // of the row now
	Type    string
	Woken   bool // run_now was called during the attempt, so a trigger has queued the task again
	Folded  bool // the task has waited before, so the history has no line of this claim
}

// Recorded is the outcome that the history shows for a settlement.
func (s Settlement) Recorded(state SettleResult) string {
	switch {
	case state.Current && s.Outcome != OutcomeLost && state.Status == string(store.StatusFailed):
		return OutcomeFailed // also if Postgres refused to record the handler's outcome
	case state.Current:
		return s.Outcome
	case s.StartedAt == nil && s.Edited == OutcomeReleased && state.Status == string(store.StatusCancelled):
		return OutcomeCancelled
	}
	return s.Edited
}

// Settle records outcomes and releases holds, in one statement. A settlement that is neither Settled nor Held has
// lost its fence: somebody else has ended the claim, and settle has changed nothing.
func (s Queries) Settle(
	ctx context.Context, q pg.DB, now *time.Time, node *int64, settlements []Settlement,
) ([]SettleResult, error) {
	c := columnsOf(settlements)
	args := append([]any{now}, c.args()...)
	return pg.CollectRows[SettleResult](ctx, q, fmt.Sprintf("settle %d tasks", len(settlements)),
		s.Schema.SQL(SettleSQL), append(args, node)...)
}

// AgainSQL writes the next run into the task's own row. It is no part of the upsert of the follow-ups, because a
// second row with the same id in one upsert is an error. The trigger draws the revision, computes the next time, and
// writes a line of changes. A row that no longer belongs to the attempt is left to SettleSQL.
const AgainSQL = `
WITH locked AS MATERIALIZED (
    SELECT s.*, t.type, t.scheduled_at, t.next_status,
        -- A task that asks for "now" each time would write to the database without a pause.
        greatest(s.again_at, s.started_at + interval '1 second') AS next_at
    FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::int[], $6::timestamptz[], $7::timestamptz[],
        $8::timestamptz[],
            $9::text[], $10::text[], $12::text[])
        AS s (id, fence, revision, attempt, due_at, started_at, again_at, message, result, trace)
    CROSS JOIN LATERAL (
        SELECT t.type::text AS type, t.scheduled_at::timestamptz AS scheduled_at,
            CASE t.status WHEN 'PAUSED' THEN 'PAUSED' ELSE 'QUEUED' END AS next_status
        FROM tasktable.scheduled_tasks AS t
        WHERE t.id = s.id AND t.fence = s.fence AND t.status IN ('EXECUTING', 'PAUSED') AND t.revision = s.revision
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS t
), context AS MATERIALIZED (
    SELECT set_config('tasktable_change.context', 'again' || chr(31)
        || coalesce('node ' || $11::bigint::text, ''), true)
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t
    SET status = l.next_status, scheduled_at = l.next_at, run_now_at = NULL, fence = NULL, lease_expires_at = NULL,
        started_at = l.started_at, message = l.message, result = l.result::jsonb, trace = coalesce(l.trace, t.trace)
    FROM locked AS l, context
    WHERE t.id = ANY (ARRAY[l.id]) AND t.fence = l.fence
), ended AS (
    SELECT l.fence, l.id AS task_id, l.type, l.revision, l.attempt, l.scheduled_at, l.due_at, l.started_at,
        coalesce($1::timestamptz, clock_timestamp()) AS finished_at, 'COMPLETED' AS outcome, NULL AS error,
        $11::bigint AS node
    FROM locked AS l
), ` + recordedSQL + `
SELECT l.fence, true AS settled, true AS current, false AS held,
    l.next_at <= coalesce($1::timestamptz, clock_timestamp()) + interval '2 seconds' AS due_soon,
    l.next_status AS status, l.type,
    false AS woken, false AS folded
FROM locked AS l`

// Again settles completed attempts that schedule their own task anew. It returns only those that it has settled. It
// sets the change context. Therefore it must run in a transaction of its own, or LeaveSQL must follow it.
func (s Queries) Again(
	ctx context.Context, q pg.DB, now *time.Time, node *int64, settlements []Settlement,
) ([]SettleResult, error) {
	c := columnsOf(settlements)
	agains, traces := make([]time.Time, len(settlements)), make([]*string, len(settlements))
	for i := range settlements {
		agains[i] = *settlements[i].Effects.Again
		if settlements[i].Effects.Trace != "" { // without a new trace, the task keeps its old link
			traces[i] = &settlements[i].Effects.Trace
		}
	}
	return pg.CollectRows[SettleResult](ctx, q, fmt.Sprintf("settle %d tasks that run again", len(settlements)),
		s.Schema.SQL(AgainSQL), now, c.ids, c.fences, c.revisions, c.attempts, c.dues, c.startedAts, agains,
		c.messages, c.results, node, traces)
}

// settlementColumns holds settlements as one slice for each column, because unnest takes them like this.
type settlementColumns struct {
	ids                               []string
	fences, revisions                 []int64
	attempts                          []int
	dues                              []*time.Time
	types                             []*string
	scheduledAts, startedAts, nextAts []*time.Time
	outcomes, edited, to              []string
	nextIns                           []time.Duration
	refunds                           []bool
	errors, messages, results         []*string
	waits                             []bool
}

// columnsOf turns rows into columns. It makes its slices with their full capacity, because a busy node settles tens
// of thousands of tasks a second.
func columnsOf(settlements []Settlement) *settlementColumns {
	n := len(settlements)
	c := &settlementColumns{
		ids: make([]string, 0, n), fences: make([]int64, 0, n), revisions: make([]int64, 0, n),
		attempts: make([]int, 0, n), dues: make([]*time.Time, 0, n), types: make([]*string, 0, n),
		scheduledAts: make([]*time.Time, 0, n), startedAts: make([]*time.Time, 0, n), nextAts: make([]*time.Time, 0, n),
		outcomes: make([]string, 0, n), edited: make([]string, 0, n), to: make([]string, 0, n),
		nextIns: make([]time.Duration, 0, n), refunds: make([]bool, 0, n), errors: make([]*string, 0, n),
		messages: make([]*string, 0, n), results: make([]*string, 0, n), waits: make([]bool, 0, n),
	}
	for i := range settlements {
		c.add(&settlements[i])
	}
	return c
}

func (c *settlementColumns) add(s *Settlement) {
	c.ids = append(c.ids, s.ID)
	c.fences = append(c.fences, s.Fence)
	c.revisions = append(c.revisions, s.Revision)
	c.attempts = append(c.attempts, s.Attempt)
	var due *time.Time
	if !s.Due.IsZero() {
		due = &s.Due
	}
	c.dues = append(c.dues, due)
	var kind *string
	if s.Type != "" {
		kind = &s.Type
	}
	c.types = append(c.types, kind)
	c.scheduledAts = append(c.scheduledAts, s.ScheduledAt)
	c.startedAts = append(c.startedAts, s.StartedAt)
	c.nextAts = append(c.nextAts, s.NextAt)
	c.outcomes = append(c.outcomes, s.Outcome)
	c.edited = append(c.edited, s.Edited)
	c.to = append(c.to, string(s.To))
	c.nextIns = append(c.nextIns, s.NextIn)
	c.refunds = append(c.refunds, s.Refund)
	c.errors = append(c.errors, s.Error)
	c.messages = append(c.messages, s.Message)
	c.results = append(c.results, s.Result)
	c.waits = append(c.waits, s.Waits)
}

func (c *settlementColumns) args() []any {
	return []any{
		c.ids, c.fences, c.revisions, c.attempts, c.dues, c.types, c.scheduledAts, c.startedAts,
		c.outcomes, c.edited, c.to, c.nextAts, c.nextIns, c.refunds, c.errors, c.messages, c.results, c.waits,
	}
}
