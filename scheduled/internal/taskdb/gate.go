package taskdb

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// The gate's verdicts. Refused says what becomes of a claim that may not start. One that is early, edited or paused is
// handed back, and does not count as an attempt.
const (
	VerdictGo      = "go"      // start the handler
	VerdictEarly   = "early"   // the task is not due yet
	VerdictExpired = "expired" // the task's expiration or deadline has passed
	VerdictEdited  = "edited"  // the task was edited, paused or cancelled since the claim
	VerdictPaused  = "paused"  // a pause holds for the task's queue, its type or everything
)

// gateSQL asks whether claims may start. The start time that it returns is transaction_timestamp, because that is
// earlier than the statement's snapshot. So the statement sees every edit that was committed before the start time.
// statement_timestamp would be later than the snapshot, because in the extended protocol Postgres takes the snapshot
// at Bind and sets statement_timestamp anew at Execute. If the row of an asked task has another fence, the answer has
// no row for the task.
const gateSQL = `
SELECT asked.fence, clock.now, t.payload, t.type, t.queue, t.priority, t.entity, t.tenant_id, t.group_key,
    t.scheduled_at, t.max_attempts, t.trace, t.asked_revision, t.waiting_since, t.backoff,
    CASE WHEN t.status <> 'EXECUTING' OR t.revision <> asked.revision THEN 'edited'
         WHEN paused.scopes && ARRAY['all', 'queue ' || t.queue, 'type ' || t.type] THEN 'paused'
         -- An application's trigger may have moved first_due.
         WHEN greatest(asked.due, t.first_due) > clock.now THEN 'early'
         WHEN least(t.first_due + t.expiration, t.deadline) <= clock.now THEN 'expired'
         ELSE 'go' END AS verdict,
    date_part('epoch', greatest(asked.due, t.first_due) - clock.now) AS due_in,
    date_part('epoch', t.lease_expires_at - clock.now) AS lease,
    date_part('epoch', least(greatest(t.expected_execution_time, interval '0'), interval '168 hours')) AS expected,
    date_part('epoch', t.timeout) AS timeout, date_part('epoch', t.deadline - clock.now) AS ends_in
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[]) AS asked (id, fence, revision, due)
CROSS JOIN (SELECT coalesce($1::timestamptz, transaction_timestamp()) AS now) AS clock
-- Read once, not for each task. Without pauses it is null, and null overlaps nothing.
CROSS JOIN (
    SELECT array_agg(CASE p.scope WHEN 'all' THEN 'all' ELSE p.scope || ' ' || p.name END) AS scopes
    FROM tasktable.pauses AS p WHERE p.ends_at IS NULL OR p.ends_at > coalesce($1::timestamptz, transaction_timestamp())
) AS paused
CROSS JOIN LATERAL (
    SELECT CASE WHEN $6::boolean THEN t.payload::text ELSE '' END AS payload, t.type::text AS type,
        t.queue::text AS queue, t.priority::int AS priority,
        t.entity::text AS entity, t.tenant_id::text AS tenant_id, t.group_key::text AS group_key,
        t.trace::text AS trace,
        least(greatest(t.scheduled_at, '0001-01-02'), '9999-12-30')::timestamptz AS scheduled_at,
        tasktable.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter) AS first_due,
        t.expiration, t.expected_execution_time, t.max_attempts::int AS max_attempts, t.status, t.revision,
        t.asked_revision, t.lease_expires_at, t.waiting_since, t.backoff::text AS backoff, t.timeout, t.deadline
    FROM tasktable.scheduled_tasks AS t
    WHERE t.id = asked.id AND t.fence = asked.fence
    LIMIT 1
) AS t`

// GateAnswer is the gate's answer for one claim.
type GateAnswer struct {
	Fence       int64
	Now         time.Time
	Payload     string
	Type        string
	Queue       string
	Priority    int
	Entity      *string
	TenantID    *string
	GroupKey    *string
	ScheduledAt time.Time
	MaxAttempts int
	Trace       *string
	Asked       int64 // the revision of the idempotency key
	// WaitingSince is when the task was due, if it has waited since then because something is out of order.
	WaitingSince *time.Time
	Verdict      string
	DueIn        float64
	Backoff      *string // the task's own
	Lease        float64
	Expected     float64
	timeout      *float64 // seconds
	endsIn       *float64 // seconds until the task's deadline
}

// columns points to the fields for gateSQL's columns, in their order.
func (g *GateAnswer) columns() []any {
	return []any{
		&g.Fence, &g.Now, &g.Payload, &g.Type, &g.Queue, &g.Priority, &g.Entity, &g.TenantID, &g.GroupKey,
		&g.ScheduledAt,
		&g.MaxAttempts, &g.Trace, &g.Asked, &g.WaitingSince, &g.Backoff,
		&g.Verdict, &g.DueIn, &g.Lease, &g.Expected, &g.timeout, &g.endsIn,
	}
}

// Execution is the attempt that may begin, made from the row that the gate read.
func (g GateAnswer) Execution(h Claim) *handlers.Execution {
	due := h.Due
	if g.WaitingSince != nil {
		due = *g.WaitingSince
	}
	return &handlers.Execution{
		ID: h.ID, Type: g.Type, Queue: g.Queue, Entity: TextOf(g.Entity), TenantID: TextOf(g.TenantID),
		Group: TextOf(g.GroupKey), Priority: g.Priority, Payload: json.RawMessage(g.Payload),
		ScheduledAt: g.ScheduledAt, DueAt: due, StartedAt: g.Now,
		Revision: h.Revision, AskedRevision: g.Asked, Fence: h.Fence, Attempt: h.Attempt, MaxAttempts: g.MaxAttempts,
		ScheduledIn: store.SpanOf(TextOf(g.Trace)),
	}
}

// Deadline is the task's deadline by the clock of this process, which asked the gate then. Zero: the task has none.
func (g GateAnswer) Deadline(asked time.Time) (at time.Time) {
	if g.endsIn != nil && *g.endsIn < math.MaxInt64/1e9 {
		at = asked.Add(time.Duration(*g.endsIn * 1e9))
	}
	return at
}

// Timeout is how long the handler may run. Zero: the task does not say.
func (g GateAnswer) Timeout() time.Duration {
	if g.timeout == nil {
		return 0
	}
	return time.Duration(*g.timeout * 1e9)
}

// TextOf returns the text, or "" for nil.
func TextOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Gate asks whether each claim may start now. A claim without an answer is no longer a claim on its task. payloads says
// whether the answers have the payloads. A payload does not change while its task is held under the same revision.
func (s Queries) Gate(
	ctx context.Context, q pg.DB, now *time.Time, holds []Claim, payloads bool,
) (map[int64]GateAnswer, error) {
	rows, err := q.Query(ctx, s.Schema.SQL(gateSQL), now, idsOf(holds), fencesOf(holds), revisionsOf(holds),
		column(holds, func(c *Claim) time.Time { return c.Due }), payloads)
	if err != nil {
		return nil, fmt.Errorf("ask the gate for %d tasks: %w", len(holds), err)
	}
	byFence := make(map[int64]GateAnswer, len(holds))
	// pgx.RowToStructByName is not used, because its allocations for each row are a tenth of what a task costs this
	// program.
	var row GateAnswer
	if _, err := pgx.ForEachRow(rows, row.columns(), func() error {
		byFence[row.Fence] = row
		return nil
	}); err != nil {
		return nil, fmt.Errorf("ask the gate for %d tasks: %w", len(holds), err)
	}
	return byFence, nil
}

// recheckSQL tells of each claim whether it still holds its task, and whether somebody has edited or cancelled that.
// The worker asks it each second for the tasks that it runs or is about to run. It does not read payloads.
const recheckSQL = `
SELECT asked.fence, (t.fence IS NOT NULL) AS held, coalesce(t.status = 'EXECUTING'
    AND t.revision = asked.revision, false) AS current,
    coalesce(t.status = 'CANCELLED', false) AS cancelled
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS asked (id, fence, revision)
LEFT JOIN LATERAL (
    SELECT t.fence, t.status, t.revision FROM tasktable.scheduled_tasks AS t
    WHERE t.id = asked.id AND t.fence = asked.fence
    LIMIT 1
) AS t ON true`

// RecheckRow is the state of one claim.
type RecheckRow struct {
	Fence     int64
	Held      bool
	Current   bool
	Cancelled bool
}

// Recheck asks for the state of claims. Each has a row. Held is false if the claim is gone.
func (s Queries) Recheck(ctx context.Context, q pg.DB, holds []Claim) ([]RecheckRow, error) {
	return pg.CollectRows[RecheckRow](ctx, q, fmt.Sprintf("recheck %d tasks", len(holds)),
		s.Schema.SQL(recheckSQL), idsOf(holds), fencesOf(holds), revisionsOf(holds))
}
