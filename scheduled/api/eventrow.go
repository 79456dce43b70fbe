package api

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/tasktable/tasktable/store"
)

var eventType = reflect.TypeFor[Event]()

// eventsSQL reads the lines of the history whose transactions are not older than a mark. It makes a full transaction
// id of xmin, which has its lower half. A line that is visible is not newer than the snapshot, so a lower half that is
// greater than the snapshot's belongs to the epoch before.
const eventsSQL = `
WITH now AS MATERIALIZED (
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax
), line AS (
    SELECT 'change' AS kind, c.revision AS number, c.task_id, c.xmin::text::bigint AS low, c.verb, c.outcome,
        c.changed_at AS at, c.changed_by AS by, c.old, c.new, NULL::text AS type, NULL::bigint AS revision,
        NULL::int AS attempt, NULL::timestamptz AS scheduled_at, NULL::timestamptz AS due_at,
        NULL::timestamptz AS started_at, NULL::text AS error, NULL::bigint AS node
    FROM tasktable.scheduled_task_changes AS c
    WHERE c.revision >= $2
    UNION ALL
    SELECT 'execution', e.fence, e.task_id, e.xmin::text::bigint, NULL, e.outcome, e.finished_at, NULL, NULL, NULL,
        e.type, e.revision, e.attempt, e.scheduled_at, e.due_at, e.started_at, e.error, e.node
    FROM tasktable.scheduled_task_executions AS e
    WHERE e.finished_at >= $3
), found AS (
    SELECT line.*, ((now.xmax >> 32) - CASE WHEN line.low > (now.xmax & 4294967295) THEN 1 ELSE 0 END << 32) + line.low
        AS xid
    FROM line CROSS JOIN now
)
SELECT f.xid, f.kind, f.number, f.task_id, f.verb, f.outcome, f.at, f.by, f.old, f.new, f.type, f.revision, f.attempt,
    f.scheduled_at, f.due_at, f.started_at, f.error, f.node
FROM found AS f
WHERE f.xid >= $1 AND (f.xid, f.kind, f.number) > ($4::bigint, $5::text, $6::bigint)
ORDER BY f.xid, f.kind, f.number
LIMIT $7`

// eventRow is a line of one of the two tables of the history. The fields that its table does not have are nil.
type eventRow struct {
	place

	TaskID      string
	Verb        *string
	Outcome     string
	At          time.Time
	By          *string
	Old         json.RawMessage
	New         json.RawMessage
	Type        *string
	Revision    *int64
	Attempt     *int
	ScheduledAt *time.Time
	DueAt       *time.Time
	StartedAt   *time.Time
	Error       *string
	Node        *int64
}

func (r eventRow) event() Event {
	if r.Kind == "change" {
		return Event{Kind: r.Kind, Change: &Change{
			Revision: r.Number, TaskID: r.TaskID, Verb: deref(r.Verb), Outcome: r.Outcome, ChangedAt: r.At,
			ChangedBy: deref(r.By), Old: Value(r.Old), New: Value(r.New),
		}}
	}
	return Event{Kind: r.Kind, Execution: &store.Execution{
		Fence: r.Number, TaskID: r.TaskID, Type: deref(r.Type), Revision: deref(r.Revision), Attempt: deref(r.Attempt),
		ScheduledAt: deref(r.ScheduledAt), DueAt: r.DueAt, StartedAt: r.StartedAt, FinishedAt: r.At, Outcome: r.Outcome,
		Error: r.Error, Node: r.Node,
	}}
}
