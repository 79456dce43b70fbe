// Package scheduledtest runs an application's handlers in its tests: in the test's own transaction, at any time the test says
// it is, on the test's goroutine. There is no River, no leader, no waiting; the claim, gate and settle are the engine's own.
//
//	h := scheduledtest.New(t, tx, registry)
//	events.Create(ctx, tx, event)           // schedules the reminder
//	ran := h.RunDueAt(ctx, fivePM)          // runs it
//
// It runs every task that is due in what the transaction sees, also those that others have committed: use a database of the
// test's own, as package storetest makes them, never one with real tasks.
//
// What a handler does outside the transaction, by a pool of its own, does not see the test's uncommitted rows.
package scheduledtest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

// Harness runs due tasks in one transaction.
type Harness struct {
	t      testing.TB
	inline scheduled.Inline
}

// Ran is what came of one task: its id, type, attempt, outcome (a word of scheduled_task_executions.outcome), the handler's error, and
// the note, the result and the follow-ups of a handler that returned nil.
type Ran = scheduled.Ran

// Option changes a Harness.
type Option func(*scheduled.Inline)

// WithSchema has the harness use the tables of another schema than store.DefaultSchema.
func WithSchema(schema string) Option { return func(i *scheduled.Inline) { i.Schema = schema } }

// WithBackoff sets the wait before retries, as scheduled.Config.Backoff does. Without it, it is 10 s × 3ⁿ⁻¹ exactly.
func WithBackoff(backoff handlers.Backoff) Option {
	return func(i *scheduled.Inline) { i.Backoff = backoff }
}

// WithCodec has the harness decode and encode payloads as scheduled.Config.Codec does.
func WithCodec(codec store.Codec) Option { return func(i *scheduled.Inline) { i.Codec = codec } }

// WithTracer has the harness make spans as scheduled.Config.Tracer does.
func WithTracer(provider trace.TracerProvider) Option {
	return func(i *scheduled.Inline) { i.Tracer = provider }
}

// New makes a harness for a pgx transaction. Handlers made by HandleSQLTx need NewSQL.
func New(t testing.TB, tx pgx.Tx, registry *handlers.Registry, options ...Option) *Harness {
	return newHarness(t, scheduled.Inline{Tx: tx, Handlers: registry}, options)
}

// NewSQL makes a harness for a database/sql transaction. Handlers made by HandleTx need New.
func NewSQL(t testing.TB, tx *sql.Tx, registry *handlers.Registry, options ...Option) *Harness {
	return newHarness(t, scheduled.Inline{SQLTx: tx, Handlers: registry}, options)
}

func newHarness(t testing.TB, inline scheduled.Inline, options []Option) *Harness {
	for _, option := range options {
		option(&inline)
	}
	return &Harness{t: t, inline: inline}
}

// SetNow says what time it is for tasks that are asked for "now" in the harness's transaction: by Schedule without At, RunNow, Retry or
// Rearm. RunDueAt says it too, so a test needs SetNow only before its first RunDueAt, or to let time pass without a run. Without either
// it is the database's time.
func (h *Harness) SetNow(ctx context.Context, now time.Time) {
	h.t.Helper()
	if err := h.inline.SetNow(ctx, now); err != nil {
		h.t.Fatalf("%v", err)
	}
}

// RunDueAt runs every task that is due at that time, and what becomes due at it by their running; retries come later, at
// their own times. Whatever these tasks, or the test afterwards, ask for "now" is due at that time, too. It returns what ran, in order, and fails the test when the tables cannot be used. A handler's error fails
// its task, not the test: look at Ran.Err.
func (h *Harness) RunDueAt(ctx context.Context, at time.Time) []Ran {
	h.t.Helper()
	ran, err := h.inline.RunDue(ctx, at)
	if err != nil {
		h.t.Fatalf("run the tasks due at %s: %v", at, err)
	}
	return ran
}
