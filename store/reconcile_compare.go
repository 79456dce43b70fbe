package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tasktable/tasktable/store/internal/check"
)

// compareSQL pairs the wanted task (w), which the query yields, with the stored task (t), in the order of their ids.
// compareStatement fills in the {…}. n has the fields of the wanted task. FULL JOIN is never a nested loop, however
// stale the statistics are. It reads the whole table, but the search for orphans has to do that in any case.
// Intervals are clamped to values far beyond their limits, so that they fit a bigint.
const compareSQL = `
DECLARE tasktable_reconcile NO SCROLL CURSOR FOR
SELECT pair.id, pair.yielded, pair.recurs, pair.revision, pair.status, pair.at, pair.wanted, pair.outcome, pair.moved,
    pair.differs,
    CASE WHEN pair.writes AND octet_length(pair.payload::text) <= 262144 THEN pair.payload::text END AS payload,
    CASE WHEN pair.writes THEN octet_length(pair.payload::text) END AS payload_bytes,
    pair.envelope, pair.entity, pair.tenant_id, pair.group_key, pair.queue, pair.priority::bigint AS priority,
        pair.max_attempts::bigint AS max_attempts,
    CASE WHEN extract(year FROM pair.expiration) <> 0 OR extract(month FROM pair.expiration) <> 0
            THEN 'expiration'
         WHEN extract(year FROM pair.expected) <> 0 OR extract(month FROM pair.expected) <> 0
            THEN 'expected_execution_time' END AS in_months,
    CASE WHEN pair.expiration IS NOT NULL
        THEN (least(greatest(extract(epoch FROM pair.expiration), -1),
            4000000000) * 1000000000)::bigint END AS expiration,
    (least(greatest(extract(epoch FROM pair.expected), -1), 4000000000) * 1000000000)::bigint AS expected,
    (extract(epoch FROM pair.jitter) * 1000000000)::bigint AS jitter,
        (extract(epoch FROM pair.retention) * 1000000000)::bigint AS retention,
    pair.backoff, (extract(epoch FROM pair.timeout) * 1000000000)::bigint AS timeout, pair.deadline,
    CASE WHEN pair.writes THEN pair.if_dead::text END AS if_dead
FROM (
    SELECT CASE WHEN w.yielded THEN w.id ELSE t.id::text END AS id, w.yielded IS NOT NULL AS yielded,
        t.cron IS NOT NULL AS recurs,
        t.revision, t.status::text AS status, t.scheduled_at::timestamptz AS at, w.scheduled_at AS wanted,
        t.jitter::interval AS jitter, t.if_dead::jsonb AS if_dead, t.deadline::timestamptz AS deadline,
        CASE WHEN t.id IS NULL THEN f.retention ELSE t.retention END AS retention,
        CASE WHEN t.id IS NULL THEN f.backoff ELSE t.backoff END AS backoff,
        CASE WHEN t.id IS NULL THEN f.timeout ELSE t.timeout END AS timeout,
        n.*, d.*, o.*,
        CASE WHEN w.yielded AND d.differs LIKE 'payload%' AND t.payload ? '$codec' THEN t.payload::text END AS envelope,
        o.outcome NOT IN ('unchanged', 'cancelled') AND (o.outcome <> 'finished' OR d.differs <> '') AS writes
    FROM (SELECT true AS yielded, {columns} FROM {query} AS q) AS w
    FULL JOIN tasktable.scheduled_tasks AS t ON t.id::text = w.id
    CROSS JOIN tasktable.defaults_of($1::text) AS f
    CROSS JOIN LATERAL (
        SELECT {payload} AS payload, {entity} AS entity, {tenant_id} AS tenant_id, {group_key} AS group_key,
            coalesce({queue}, 'default') AS queue,
            coalesce({priority}, 0) AS priority, {expiration} AS expiration,
            coalesce({expected_execution_time}, interval '5 minutes') AS expected,
                coalesce({max_attempts}, 10) AS max_attempts
    ) AS n
    CROSS JOIN LATERAL (
        SELECT NOT tasktable.same_time(w.scheduled_at, t.scheduled_at) AS moved, concat_ws(', ',
            CASE WHEN t.payload IS DISTINCT FROM n.payload THEN 'payload' END,
            CASE WHEN t.entity IS DISTINCT FROM n.entity THEN 'entity' END,
            CASE WHEN t.tenant_id IS DISTINCT FROM n.tenant_id THEN 'tenant_id' END,
            CASE WHEN t.group_key IS DISTINCT FROM n.group_key THEN 'group_key' END,
            CASE WHEN t.queue IS DISTINCT FROM n.queue THEN 'queue' END,
            CASE WHEN t.priority IS DISTINCT FROM n.priority THEN 'priority' END,
            CASE WHEN t.expiration IS DISTINCT FROM n.expiration THEN 'expiration' END,
            CASE WHEN t.expected_execution_time IS DISTINCT FROM n.expected THEN 'expected_execution_time' END,
            CASE WHEN t.max_attempts IS DISTINCT FROM n.max_attempts THEN 'max_attempts' END) AS differs
    ) AS d
    CROSS JOIN LATERAL (
        SELECT CASE WHEN w.yielded IS NULL THEN 'cancelled' WHEN t.id IS NULL THEN 'created'
            ELSE tasktable.schedule_outcome(t.status, d.differs <> '', d.moved, false) END AS outcome
    ) AS o
    WHERE w.yielded
        OR (t.type = $1::text AND t.status IN ('QUEUED', 'PAUSED', 'EXECUTING') AND t.cron IS NULL
            AND t.parent_id IS NULL)
) AS pair
ORDER BY pair.id COLLATE "C" NULLS FIRST`

// declare checks the query and opens the cursor. The cursor sees the tasks as of this moment, whatever is repaired
// while it is read.
func (r *reconciliation) declare(ctx context.Context) error {
	query, err := checkQuery(r.config.Query)
	if err != nil {
		return err
	}
	fields, err := describeQuery(ctx, r.tx, query)
	if err != nil {
		return err
	}
	has, err := queryColumns(fields, r.config.EntityColumn)
	if err != nil {
		return err
	}
	_, r.payloads = has["payload"]
	statement := compareStatement(r.store.source.Schema.SQL, query, has)
	return r.readOnly(ctx, func(tx pgx.Tx) error {
		// Not prepared, because each query is another statement, which would push others out of the connection's
		// cache.
		_, err := tx.Exec(ctx, statement, pgx.QueryExecModeExec, r.config.Type)
		return queryError(err, "")
	})
}

// compareStatement fills in compareSQL. A field for which the query has no column keeps the value of the stored task
// (t). A field that has no value gets the default of the type (f).
func compareStatement(inSchema func(string) string, query string, has map[string]string) string {
	var read, fill []string
	for _, column := range reconcileColumns {
		name, ok := has[column.name]
		value := "t." + column.name
		switch {
		case ok:
			if value = "w." + column.name; column.defaults {
				value = "coalesce(" + value + ", f." + column.name + ")"
			}
			as := strings.Replace(column.name, "key", "id", 1)
			read = append(read, strings.Replace(column.read, "q.entity", "q."+pgx.Identifier{name}.Sanitize(),
				1)+" AS "+as)
		case column.name == "payload":
			value = `CASE WHEN t.type::text = $1::text THEN t.payload::jsonb
                ELSE jsonb_build_object('type', $1::text) END`
		case column.defaults: // nobody asks for a change of a stored task because a default has changed
			value = "CASE WHEN t.id IS NULL THEN f." + column.name + " ELSE " + value + " END"
		}
		fill = append(fill, "{"+column.name+"}", value)
	}
	// In one pass, so that the query stays as it is. "tasktable" and braces may mean something else to its author.
	fill = append(fill, "{columns}", strings.Join(read, ", "), "{query}", "(\n"+query+"\n)")
	return strings.NewReplacer(fill...).Replace(inSchema(compareSQL))
}

const readOnlySQL = `SET TRANSACTION READ ONLY`

// readOnly runs do in a savepoint in which the query can change nothing. READ ONLY ends with the savepoint.
func (r *reconciliation) readOnly(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, r.tx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, readOnlySQL); err != nil {
			return err
		}
		return do(tx)
	})
}

// comparedPair is a wanted task and a stored task with the same id.
type comparedPair struct {
	ID           *string // nil if the row of the query has no id
	Yielded      bool
	Recurs       bool
	Revision     *int64
	Status       *string
	At           *time.Time
	Wanted       pgtype.Timestamptz
	Outcome      string
	Moved        bool
	Differs      string
	Payload      *string // nil if nothing has to be written, or if the payload is too long
	PayloadBytes *int
	Envelope     *string // the stored payload, if it is encoded and differs from the wanted one
	Entity       *string
	TenantID     *string
	GroupKey     *string
	Queue        string
	Priority     int64
	MaxAttempts  int64
	InMonths     *string // the name of an interval that has months or years
	Expiration   *time.Duration
	Expected     time.Duration
	Jitter       *time.Duration
	Retention    *time.Duration
	Backoff      *string
	Timeout      *time.Duration
	Deadline     *time.Time
	IfDead       *string
}

const fetchSQL = `FETCH 1000 FROM tasktable_reconcile`

// fetch returns the next pairs, and none at the end. Postgres runs the query only now.
func (r *reconciliation) fetch(ctx context.Context) (pairs []comparedPair, err error) {
	err = r.readOnly(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, fetchSQL)
		if err != nil {
			return err
		}
		pairs, err = pgx.CollectRows(rows, pgx.RowToStructByName[comparedPair])
		return queryError(err, "")
	})
	return pairs, err
}

// take counts a pair. If the pair needs a repair, take adds the repair to todo.
func (r *reconciliation) take(ctx context.Context, pair comparedPair) error {
	if pair.ID == nil {
		return check.Invalid("id", "or key must be given in each row", "a null or empty one")
	}
	id := *pair.ID
	fix := repair{id: id, revision: pair.Revision}
	if pair.Yielded {
		if id == r.last {
			return check.Invalid("query", "must yield each id once", fmt.Sprintf("%q twice", id))
		}
		r.last = id
		if err := r.decode(ctx, &pair); err != nil {
			return fmt.Errorf("row %q: %w", id, err)
		}
		task, err := pair.task(r.config.Type, r.payloads)
		if err != nil {
			return fmt.Errorf("row %q: %w", id, err)
		}
		fix.task = task
	}
	finding := r.count(pair)
	if finding == nil {
		return nil
	}
	finding.Count++
	if len(finding.Examples) < r.config.Examples {
		finding.Examples = append(finding.Examples, pair.example())
	}
	if !r.config.Apply {
		return nil
	}
	if finding == &r.report.Ended && !r.config.Rearm {
		r.report.Left++
		return nil
	}
	if pair.PayloadBytes != nil {
		fix.bytes = *pair.PayloadBytes
		r.bytes += fix.bytes
	}
	if pair.Status == nil {
		r.missing[id] = true
	}
	r.todo = append(r.todo, fix)
	return nil
}

// decode compares a stored payload that is encoded with the wanted payload, because the database sees them as
// different in any case.
func (r *reconciliation) decode(ctx context.Context, pair *comparedPair) error {
	switch {
	case pair.Envelope == nil || pair.Payload == nil || !r.payloads:
		return nil
	case r.store.config.Codec == nil:
		return fmt.Errorf("%w: payload of the task is encoded: without its Codec it cannot be compared; "+
			"leave the column out", ErrInvalid)
	}
	stored := JSON(*pair.Envelope)
	plain, err := Decoded(ctx, r.store.config.Codec, stored.TaskType(), *pair.ID, json.RawMessage(stored))
	if err != nil {
		return err
	}
	is, err := canonical(plain)
	if err != nil {
		return fmt.Errorf("%w: payload of the task is no JSON", ErrInvalid)
	}
	if wanted, err := canonical([]byte(*pair.Payload)); err != nil || !bytes.Equal(is, wanted) {
		return err
	}
	// If the payload differs, it is the first field in Differs.
	pair.Differs = strings.TrimPrefix(strings.TrimPrefix(pair.Differs, "payload"), ", ")
	if pair.Outcome == string(Rescheduled) && pair.Differs == "" && !pair.Moved {
		pair.Outcome, pair.Payload, pair.PayloadBytes = string(Unchanged), nil, nil
	}
	return nil
}

// count returns the finding to which the pair belongs. If the tasks do not differ, it counts the pair and returns
// nil.
func (r *reconciliation) count(pair comparedPair) *ReconcileFinding {
	switch outcome := Outcome(pair.Outcome); {
	case outcome == Unchanged:
		r.report.Agree++
		return nil
	case outcome == Finished:
		r.report.Finished++
		return nil
	case outcome == Cancelled:
		return &r.report.Orphaned
	case outcome == Created:
		return &r.report.Missing
	case outcome == Rearmed && *pair.Status == string(StatusCancelled):
		return &r.report.Cancelled
	case outcome == Rearmed:
		return &r.report.Ended
	case pair.Moved:
		return &r.report.WrongTime
	default:
		return &r.report.OtherContent
	}
}

func (p comparedPair) example() ReconcileExample {
	example := ReconcileExample{ID: *p.ID, At: p.At}
	if p.Status != nil {
		example.Status = Status(*p.Status)
	}
	if p.Yielded {
		example.Wanted = &p.Wanted.Time
		if p.Status != nil {
			example.Fields = p.Differs
		}
	}
	return example
}

// task returns the wanted task, checked, or nil if nothing has to be written. The payload is the query's. If the
// query yields no payloads, it is the stored one as it is.
func (p comparedPair) task(name string, payloads bool) (*Task, error) {
	switch {
	case p.Recurs:
		return nil, check.Invalid("id", "must not be a recurring task's", "one")
	case !p.Wanted.Valid:
		return nil, check.Invalid("scheduled_at", "must be given", "null")
	case p.Wanted.InfinityModifier != pgtype.Finite || p.Wanted.Time.IsZero(): // a Task with the zero time has no time
		return nil, check.Invalid("scheduled_at", "must be finite, in the years 1 to 9999", p.Wanted.InfinityModifier)
	case p.InMonths != nil:
		return nil, check.Invalid(*p.InMonths, "must be in days or less: '30 days', not '1 month'", "months or years")
	case p.PayloadBytes == nil:
		return nil, nil //nolint:nilnil // that there is nothing to write is not an error
	case p.Payload == nil:
		return nil, check.Invalid("payload", "must be at most 256 KiB of JSON text",
			fmt.Sprintf("%d bytes", *p.PayloadBytes))
	}
	var payload Payload = typedJSON{json.RawMessage(*p.Payload), name}
	if !payloads {
		payload = inEnvelope{JSON: JSON(*p.Payload)}
	}
	task := &Task{
		ID: *p.ID, Payload: payload, At: p.Wanted.Time, Expiration: orZero(p.Expiration),
		ExpectedExecutionTime: p.Expected,
		MaxAttempts:           int(p.MaxAttempts), Priority: int(p.Priority), Queue: p.Queue,
		Entity: orZero(p.Entity), TenantID: orZero(p.TenantID), Group: orZero(p.GroupKey),
		Jitter: orZero(p.Jitter), Retention: orZero(p.Retention),
		Backoff: orZero(p.Backoff), Timeout: orZero(p.Timeout), Deadline: orZero(p.Deadline),
		NoDefaults: true, // the query has filled them in
	}
	var err error
	if task.IfDead, err = ifDeadOf(*p.ID, json.RawMessage(orZero(p.IfDead))); err != nil {
		return nil, err
	}
	return task, task.Check()
}

// typedJSON is a Payload of JSON whose type must be name.
type typedJSON struct {
	json.RawMessage
	name string
}

func (j typedJSON) TaskType() string { return j.name }
