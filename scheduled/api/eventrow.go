package api

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/tasktable/tasktable/store"
)

var eventType = reflect.TypeFor[Event]()

// eventsSQL reads a span of the history, in the order of the transactions. $1 and $3 are the place behind which it
// begins, $2 is the transaction below which it ends, and $4 has the transactions that had not ended.
//
// A line whose row is older than its transaction came with a dump of another server. It is no event. xmin is the lower
// half of the id of the transaction, or of a savepoint in it, that wrote the row.
const eventsSQL = `
SELECT line.tx, line.number, line.kind, line.task_id, line.verb, line.outcome, line.at, line.by, line.old, line.new,
    line.type, line.revision, line.attempt, line.scheduled_at, line.due_at, line.started_at, line.error, line.node
FROM (
    SELECT c.tx, c.revision AS number, 'change' AS kind, c.task_id, c.xmin::text::bigint AS low, c.verb, c.outcome,
        c.changed_at AS at, c.changed_by AS by, c.old, c.new, NULL::text AS type, NULL::bigint AS revision,
        NULL::int AS attempt, NULL::timestamptz AS scheduled_at, NULL::timestamptz AS due_at,
        NULL::timestamptz AS started_at, NULL::text AS error, NULL::bigint AS node
    FROM tasktable.scheduled_task_changes AS c
    UNION ALL
    SELECT e.tx, e.fence, 'execution', e.task_id, e.xmin::text::bigint, NULL, e.outcome, e.finished_at, NULL, NULL,
        NULL, e.type, e.revision, e.attempt, e.scheduled_at, e.due_at, e.started_at, e.error, e.node
    FROM tasktable.scheduled_task_executions AS e
) AS line
WHERE line.tx >= $1::bigint AND line.tx < $2::bigint AND (line.tx, line.number) > ($1::bigint, $3::bigint)
    AND line.tx <> ALL ($4::bigint[]) AND (line.low - line.tx) & 4294967295 < 2147483648
ORDER BY line.tx, line.number
LIMIT $5`

// eventRow is a line of one of the two tables of the history. The fields that its table does not have are nil.
type eventRow struct {
	place

	Kind        string
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
