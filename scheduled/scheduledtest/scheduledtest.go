// Package scheduledtest runs an application's handlers in its tests. They run in the test's own transaction, on the
// test's goroutine, at any time that the test sets. No River and no leader take part, and nothing waits. The claim,
// the gate and the settle are those of the engine.
//
//	h := scheduledtest.New(t, tx, registry)
//	events.Create(ctx, tx, event)           // schedules the reminder
//	ran := h.RunDueAt(ctx, fivePM)          // runs it
//
// It runs every due task that the transaction sees, also tasks that other transactions have committed. So use a
// database of the test's own, as package storetest makes it, and never one with real tasks.
//
// Limits hold at the time that the test sets. A rate lets as many tasks run as its bucket has then, and a later run
// finds more. A limit in order has the next task of a group or tenant wait until the one before is final, over its
// retries. Tasks run one after the other, so max_running holds up a task only because of tasks that somebody else
// holds. The claim of tasks that somebody else holds is not taken back here, also when its lease is over.
//
// A task past its Deadline or Expiration does not run, and is EXPIRED. The context of a handler ends at the Timeout and
// the Deadline of the task. The test's time stands still meanwhile, so both are counted in real time from the start of
// the handler: a Deadline two seconds after the test's time ends it after two real seconds. ExpectedExecutionTime does
// not end it, and Extend does nothing. If the context ends while a statement runs on the test's transaction, the driver
// closes the connection, and the test fails.
//
// If a handler uses another connection, such as a pool of its own, it does not see the uncommitted rows of the test.
package scheduledtest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Harness runs due tasks in one transaction.
type Harness struct {
	t      testing.TB
	inline inline
}

// Option changes a Harness.
type Option func(*inline)

// WithSchema sets the schema of the tables. Default: store.DefaultSchema.
func WithSchema(schema string) Option { return func(i *inline) { i.schema = schema } }

// WithBackoff sets the wait before retries, as scheduled.Config.Backoff does. Default: exactly 10 s × 3ⁿ⁻¹.
func WithBackoff(backoff handlers.Backoff) Option {
	return func(i *inline) { i.backoff = backoff }
}

// WithCodec sets the codec of the payloads, as scheduled.Config.Codec does. Default: none.
func WithCodec(codec store.Codec) Option { return func(i *inline) { i.codec = codec } }

// WithTracer sets the provider of the spans, as scheduled.Config.Tracer does. Default: none.
func WithTracer(provider trace.TracerProvider) Option {
	return func(i *inline) { i.tracer = provider }
}

// New makes a harness for a pgx transaction. Handlers made by HandleSQLTx need NewSQL.
func New(t testing.TB, tx pgx.Tx, registry *handlers.Registry, options ...Option) *Harness {
	return newHarness(t, inline{tx: tx, handlers: registry}, options)
}

// NewSQL makes a harness for a database/sql transaction. Handlers made by HandleTx need New.
func NewSQL(t testing.TB, tx *sql.Tx, registry *handlers.Registry, options ...Option) *Harness {
	return newHarness(t, inline{sqlTx: tx, handlers: registry}, options)
}

func newHarness(t testing.TB, run inline, options []Option) *Harness {
	for _, option := range options {
		option(&run)
	}
	run.served = &served{of: map[taskdb.LaneKey]plan.Served{}}
	return &Harness{t: t, inline: run}
}

// SetNow sets the time that "now" means in the harness's transaction: for Schedule without At, RunNow, Retry and
// Rearm. RunDueAt sets it too. So a test needs SetNow only before its first RunDueAt, or to let time pass without a
// run. Before both it is the time of the database. SetNow fails the test if the database returns an error.
func (h *Harness) SetNow(ctx context.Context, now time.Time) {
	h.t.Helper()
	if err := h.inline.setNow(ctx, now); err != nil {
		h.t.Fatalf("%v", err)
	}
}

// RunDueAt runs every task that is due at the given time and that no limit or pause holds up, and every task that these
// tasks schedule for that time.
// Retries do not run, because they are due later. RunDueAt also sets the time that "now" means, as SetNow does. It
// returns the results in the order of the runs. It fails the test if it cannot use the tables. A handler's error
// fails only its task, and not the test: see Ran.Err.
//
// A follow-up that has run at that time already is due a second later, as on a node. A chain of follow-ups of which a
// thousand steps are due at that time fails the test.
func (h *Harness) RunDueAt(ctx context.Context, at time.Time) []Ran {
	h.t.Helper()
	ran, err := h.inline.runDue(ctx, at)
	if err != nil {
		h.t.Fatalf("run the tasks due at %s: %v", at, err)
	}
	return ran
}
