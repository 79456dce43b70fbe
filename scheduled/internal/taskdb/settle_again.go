package taskdb

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// againSQL writes the next run into the task's own row. It is no part of the upsert of the follow-ups, because a
// second row with the same id in one upsert is an error. The trigger draws the revision, computes the next time, and
// writes a line of changes. A row that no longer belongs to the attempt is left to settleSQL. Without a new trace, the
// task keeps its old link.
const againSQL = `
WITH locked AS MATERIALIZED (
    SELECT s.*, t.row_type, t.row_scheduled_at, t.next_status,
        -- A task that asks for "now" each time would write to the database without a pause.
        greatest(s.again_at, s.started_at + interval '1 second') AS next_at
    FROM unnest(` + attemptArrays + `, $13::timestamptz[], $14::text[])
        AS s (` + attemptNames + `, again_at, trace)
    LEFT JOIN LATERAL (
        SELECT t.type::text AS row_type, t.scheduled_at::timestamptz AS row_scheduled_at,
            CASE t.status WHEN 'PAUSED' THEN 'PAUSED' ELSE 'QUEUED' END AS next_status
        FROM tasktable.scheduled_tasks AS t
        WHERE t.id = s.id AND t.fence = s.fence AND t.status IN ('EXECUTING', 'PAUSED') AND t.revision = s.revision
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS t ON true
), context AS MATERIALIZED (
    SELECT set_config('tasktable_change.context', 'again' || chr(31)
        || coalesce('node ' || $12::bigint::text, ''), true)
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t
    SET status = l.next_status, scheduled_at = l.next_at, run_now_at = NULL, fence = NULL, lease_expires_at = NULL,
        started_at = l.started_at, message = l.message, result = l.result::jsonb,
        trace = coalesce(nullif(l.trace, ''), t.trace)
    FROM locked AS l, context
    WHERE l.next_status IS NOT NULL AND t.id = ANY (ARRAY[l.id]) AND t.fence = l.fence
), ended AS (
    SELECT l.fence, l.id AS task_id, l.row_type AS type, l.revision, l.attempt, l.row_scheduled_at AS scheduled_at,
        l.due_at, l.started_at, coalesce($1::timestamptz, clock_timestamp()) AS finished_at, 'COMPLETED' AS outcome,
        NULL AS error, $12::bigint AS node
    FROM locked AS l WHERE l.next_status IS NOT NULL
), ` + recordedSQL + `
SELECT l.fence, l.next_status IS NOT NULL AS settled,
    coalesce(l.next_status IS NOT NULL OR t.current, false) AS current, t.current IS NOT NULL AS held,
    coalesce(l.next_status IS NOT NULL AND l.next_at <= coalesce($1::timestamptz, clock_timestamp())
        + interval '2 seconds', false) AS due_soon,
    coalesce(l.next_status, '') AS status, coalesce(l.row_type, '') AS type,
    'COMPLETED' AS recorded, false AS woken, false AS folded
FROM locked AS l LEFT JOIN LATERAL (
    SELECT t.status IN ('EXECUTING', 'PAUSED') AND t.revision = l.revision AS current
    FROM tasktable.scheduled_tasks AS t WHERE l.next_status IS NULL AND t.id = l.id AND t.fence = l.fence
    LIMIT 1
) AS t ON true`

// Again settles completed attempts that schedule their own task anew. A result that is not current is that of a task
// that was edited meanwhile, or of a claim that is over. Again sets the change context. Therefore it must run in a
// transaction of its own, or LeaveSQL must follow it.
func (s Queries) Again(
	ctx context.Context, q pg.DB, now *time.Time, node *int64, settlements []Settlement,
) ([]SettleResult, error) {
	return pg.CollectRows[SettleResult](ctx, q, fmt.Sprintf("settle %d tasks that run again", len(settlements)),
		s.Schema.SQL(againSQL), attemptArgs(now, node, settlements,
			column(settlements, func(s *Settlement) *time.Time { return s.Effects.Again }),
			column(settlements, func(s *Settlement) string { return s.Effects.Trace }))...)
}
