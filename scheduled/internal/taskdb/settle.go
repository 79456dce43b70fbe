package taskdb

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// All statements that settle have the same first parameters: $1 is the time, or null for the database's clock, $2 to
// $11 are these columns of the attempts, and $12 is the node.
const (
	attemptArrays = `$2::text[], $3::bigint[], $4::bigint[], $5::int[], $6::timestamptz[], $7::text[],
        $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[]`
	attemptNames = `id, fence, revision, attempt, due_at, type, scheduled_at, started_at, message, result`
)

// attemptArgs are $1 to $12 of the statements that settle, and more.
func attemptArgs(now *time.Time, node *int64, settlements []Settlement, more ...any) []any {
	return append([]any{
		now,
		column(settlements, func(s *Settlement) string { return s.ID }),
		column(settlements, func(s *Settlement) int64 { return s.Fence }),
		column(settlements, func(s *Settlement) int64 { return s.Revision }),
		column(settlements, func(s *Settlement) int { return s.Attempt }),
		column(settlements, func(s *Settlement) *time.Time { return orNull(&s.Due) }),
		column(settlements, func(s *Settlement) string { return s.Type }),
		column(settlements, func(s *Settlement) *time.Time { return s.ScheduledAt }),
		column(settlements, func(s *Settlement) *time.Time { return s.StartedAt }),
		column(settlements, func(s *Settlement) *string { return s.Message }),
		column(settlements, func(s *Settlement) *string { return s.Result }),
		node,
	}, more...)
}

// orNull returns nil for the zero time.
func orNull(at *time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return at
}

// settleSQL locks each row that it can, writes a line of history for each, and releases each hold. It skips a row
// that an application's open transaction has locked, and reports the row as held, so that this row stalls no other.
// Its joins go by the primary key, row by row. A hash join or a scan, which stale statistics could suggest, would
// read the whole table. ANY (ARRAY[...]) leaves Postgres only one probe for each row.
const settleSQL = `
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
    FROM unnest(` + attemptArrays + `, $13::text[], $14::text[], $15::text[], $16::timestamptz[], $17::interval[],
        $18::boolean[], $19::text[], $20::boolean[]) WITH ORDINALITY AS s (` + attemptNames + `,
        outcome, edited, to_status, next_at, next_in, refund, error, waits, place)
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
        WHEN NOT l.current AND l.status IN ('QUEUED', 'EXECUTING') THEN l.edited_due END AS next,
        CASE WHEN l.current THEN l.outcome WHEN l.started_at IS NULL AND l.edited = 'RELEASED'
        AND l.status = 'CANCELLED' THEN 'CANCELLED' ELSE l.edited END AS recorded
    FROM locked AS l
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t
    -- EXECUTING and not current means that somebody set the revision by hand. The task runs again. Otherwise it would
    -- stay EXECUTING without a holder.
    SET status = CASE WHEN l.current THEN l.next_status WHEN t.status = 'EXECUTING' THEN 'QUEUED' ELSE t.status END,
        -- Nothing becomes claimable in the past. Claims that are handed back together keep their order.
        next_attempt_at = CASE WHEN l.next > l.now THEN l.next
            WHEN l.next IS NOT NULL THEN l.now + (l.place - 1) * interval '1 microsecond' END,
        -- A paused task keeps the time of its retry.
        due_at = CASE WHEN l.current AND l.next_status = 'PAUSED' THEN l.next_due WHEN l.next < l.now THEN l.next END,
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
    SELECT l.fence, l.id AS task_id, coalesce(nullif(l.type, ''), l.row_type) AS type, l.revision, l.attempt,
        coalesce(l.scheduled_at, l.row_scheduled_at) AS scheduled_at, l.due_at,
        coalesce(l.started_at, l.written_start) AS started_at, l.now AS finished_at,
        l.recorded AS outcome,
        CASE WHEN l.current AND l.outcome IN ('RETRIED', 'FAILED', 'SNOOZED') AND NOT l.waits AND l.row_waits > 1
            THEN concat(l.error, ' (before that it waited ', l.row_waits, ' times)') ELSE l.error END AS error,
        coalesce($12::bigint, l.written_node) AS node
    FROM planned AS l
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
    coalesce(nullif(l.type, ''), l.row_type, '') AS type,
    -- Often the holder itself has ended the claim, because a commit may succeed although the client gets an error.
    CASE WHEN l.tid IS NOT NULL THEN l.recorded ELSE coalesce((
        SELECT e.outcome::text FROM tasktable.scheduled_task_executions AS e WHERE e.fence = l.fence OFFSET 0), 'LOST')
            END AS recorded,
    coalesce(l.woken, false) AS woken, coalesce(l.current AND l.waits AND l.row_waits > 0, false) AS folded
FROM planned AS l`

// SettleResult is the result of one settlement.
type SettleResult struct {
	Fence    int64
	Settled  bool
	Current  bool   // the row still belonged to this attempt
	Held     bool   // not settled, because another transaction has locked the row: try again
	DueSoon  bool   // the task is due again within two seconds, so the leader should look
	Status   string // of the row now
	Type     string
	Recorded string // the outcome that the history shows; LOST if it shows none
	Woken    bool   // run_now was called during the attempt, so a trigger has queued the task again
	Folded   bool   // the task has waited before, so the history has no line of this claim
}

// Settle records outcomes and releases holds, in one statement. A settlement that is neither Settled nor Held has
// lost its fence: somebody else has ended the claim, and settle has changed nothing.
func (s Queries) Settle(
	ctx context.Context, q pg.DB, now *time.Time, node *int64, settlements []Settlement,
) ([]SettleResult, error) {
	return pg.CollectRows[SettleResult](ctx, q, fmt.Sprintf("settle %d tasks", len(settlements)),
		s.Schema.SQL(settleSQL), attemptArgs(now, node, settlements,
			column(settlements, func(s *Settlement) string { return s.Outcome }),
			column(settlements, func(s *Settlement) string { return s.Edited }),
			column(settlements, func(s *Settlement) string { return string(s.To) }),
			column(settlements, func(s *Settlement) *time.Time { return s.NextAt }),
			column(settlements, func(s *Settlement) time.Duration { return s.NextIn }),
			column(settlements, func(s *Settlement) bool { return s.Refund }),
			column(settlements, func(s *Settlement) *string { return s.Error }),
			column(settlements, func(s *Settlement) bool { return s.Waits }))...)
}
