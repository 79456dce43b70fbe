package api

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/tasktable/tasktable/store"
)

var eventType = reflect.TypeFor[Event]()

// The columns of a line of each table, in the same order.
const (
	changeSQL = `
    SELECT c.tx, c.revision AS number, 'change' AS kind, c.task_id, c.xmin::text::bigint AS low, c.verb, c.outcome,
        c.changed_at AS at, c.changed_by AS by, c.old, c.new, NULL::text AS type, NULL::bigint AS revision,
        NULL::int AS attempt, NULL::timestamptz AS scheduled_at, NULL::timestamptz AS due_at,
        NULL::timestamptz AS started_at, NULL::text AS error, NULL::bigint AS node
    FROM tasktable.scheduled_task_changes AS c`
	executionSQL = `
    SELECT e.tx, e.fence AS number, 'execution', e.task_id, e.xmin::text::bigint, NULL, e.outcome, e.finished_at, NULL,
        NULL, NULL, e.type, e.revision, e.attempt, e.scheduled_at, e.due_at, e.started_at, e.error, e.node
    FROM tasktable.scheduled_task_executions AS e`
	linesSQL = `
SELECT line.tx, line.number, line.kind, line.task_id, line.verb, line.outcome, line.at, line.by, line.old, line.new,
    line.type, line.revision, line.attempt, line.scheduled_at, line.due_at, line.started_at, line.error, line.node
FROM (`
)

// eventsSQL reads a span of the history, in the order of the transactions. $1 and $3 are the place behind which it
// begins, $2 is the transaction below which it ends, and $4 has the transactions that had not ended. Postgres sorts the
// lines of the whole span for it.
//
// A line whose row is older than its transaction came with a dump of another server. It is no event. xmin is the lower
// half of the id of the transaction, or of a savepoint in it, that wrote the row.
const eventsSQL = linesSQL + changeSQL + `
    UNION ALL` + executionSQL + `
) AS line
WHERE line.tx >= $1::bigint AND line.tx < $2::bigint AND (line.tx, line.number) > ($1::bigint, $3::bigint)
    AND line.tx <> ALL ($4::bigint[]) AND (line.low - line.tx) & 4294967295 < 2147483648
ORDER BY line.tx, line.number
LIMIT $5`

// restSQL reads the lines of one transaction that have the next numbers behind a place, by the primary keys and without
// a sort. It reads at most $3 numbers, most of which are the transaction's if the transaction is large. LIMIT keeps
// Postgres from choosing the index of transactions.
const restSQL = linesSQL + `(` + changeSQL + `
    WHERE c.revision > $2::bigint AND c.revision <= $2::bigint + $3::bigint ORDER BY c.revision LIMIT $3::bigint)
    UNION ALL (` + executionSQL + `
    WHERE e.fence > $2::bigint AND e.fence <= $2::bigint + $3::bigint ORDER BY e.fence LIMIT $3::bigint)
) AS line
WHERE line.tx = $1::bigint AND (line.low - line.tx) & 4294967295 < 2147483648
ORDER BY line.number
LIMIT $4`

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
			ChangedBy: deref(r.By), Old: r.Old, New: r.New,
		}}
	}
	return Event{Kind: r.Kind, Execution: &store.Execution{
		Fence: r.Number, TaskID: r.TaskID, Type: deref(r.Type), Revision: deref(r.Revision), Attempt: deref(r.Attempt),
		ScheduledAt: deref(r.ScheduledAt), DueAt: r.DueAt, StartedAt: r.StartedAt, FinishedAt: r.At,
		Outcome: store.AttemptOutcome(r.Outcome), Error: r.Error, Node: r.Node,
	}}
}
