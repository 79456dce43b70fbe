package scheduledtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/outcome"
	"github.com/tasktable/tasktable/scheduled/internal/panics"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/scheduled/internal/tracing"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/backoff"
)

// inline runs due tasks in a transaction of the test and on the test's goroutine, at a time that the test gives. It
// uses the engine's own claim, gate and settle, but no River, no leader and no timers.
type inline struct {
	// Exactly one of tx and sqlTx is set. Handlers of HandleTx need tx, and handlers of HandleSQLTx need sqlTx.
	tx       pgx.Tx
	sqlTx    *sql.Tx
	handlers *handlers.Registry
	schema   string           // "": store.DefaultSchema
	backoff  handlers.Backoff // nil: scheduled.DefaultBackoff without its random part
	codec    store.Codec
	tracer   trace.TracerProvider
	served   *served
}

// Ran is the result of one task: its handler ran, or it expired.
type Ran struct {
	ID      string
	Type    string
	Attempt int
	Outcome store.AttemptOutcome
	Err     error // the handler's error, or why the effects that it asked for are refused
	// Note, Result and FollowUps are there if the handler returned nil. Note and Result are as the row has them.
	// FollowUps has the ids of the follow-ups, in the order in which the handler asked for them. If the Outcome is
	// FAILED, it has those of FollowUpIfDead instead. The tasks of store.Task.IfDead are not among them.
	Note      string
	Result    json.RawMessage
	FollowUps []string
}

const (
	// A task that is due at once again and again, for example because of RetryAfter(0) with many attempts, would
	// otherwise keep RunDue from returning.
	inlineMostPerTask = 100
	inlineMostPerPass = 1000
	inlineMostPasses  = 1000 // with new tasks: the same for a chain of these
)

// runDue runs all tasks that are due at now, and those that become due at now because of these. The highest priority
// comes first. It returns what ran, in order. With an error it returns what ran before the error.
func (i inline) runDue(ctx context.Context, now time.Time) ([]Ran, error) {
	if err := (store.Config{Schema: i.schema, Codec: i.codec}).Check(); err != nil {
		return nil, err
	}
	schema, err := store.NewSchema(i.schema)
	if err != nil {
		return nil, err
	}
	if i.handlers == nil || (i.tx == nil) == (i.sqlTx == nil) {
		return nil, fmt.Errorf("%w: the harness needs a registry and a transaction", store.ErrInvalid)
	}
	run := inlineRun{
		inline: i, statements: taskdb.Queries{Schema: schema}, q: i.querier(),
		now: now.UTC().Truncate(time.Microsecond),
	}
	if err := i.setNow(ctx, run.now); err != nil {
		return nil, err
	}
	var ran []Ran
	times, first := map[string]int{}, int64(0)
	for made := 0; made < inlineMostPasses; {
		claimed, err := run.claim(ctx)
		if err != nil || len(claimed) == 0 {
			return ran, err
		}
		if first == 0 {
			first = math.MaxInt64
			for _, c := range claimed {
				if c.Fence != 0 { // it is newer than all tasks that were there before
					first = min(first, c.Fence)
				}
			}
		}
		// A limit in order has the tasks that were there before run in as many passes.
		if slices.ContainsFunc(claimed, func(c claimedTask) bool { return c.Revision > first }) {
			made++
		}
		for _, c := range claimed {
			one, err := run.one(ctx, c)
			if err != nil {
				return ran, err
			}
			ran = append(ran, one)
			if times[one.ID]++; times[one.ID] >= inlineMostPerTask {
				return ran, fmt.Errorf(
					"task %s ran %d times at %s and may be due again: is it due at once again and again?",
					one.ID, times[one.ID], now)
			}
		}
	}
	return ran, fmt.Errorf("%d tasks ran at %s, and more are due: does a chain of follow-ups never end?", len(ran), now)
}

const setNowSQL = `SELECT set_config('tasktable_test.now', $1::text, true)`

// setNow makes tasks that are asked for "now" due at the given time, for example by Schedule without At or by RunNow.
// It holds until the transaction ends or runDue is called with another time.
func (i inline) setNow(ctx context.Context, now time.Time) error {
	text := now.UTC().Format(time.RFC3339Nano)
	if _, err := i.querier().Exec(ctx, setNowSQL, text); err != nil {
		return fmt.Errorf("set the time to %s: %w", text, err)
	}
	return nil
}

// querier returns the transaction.
func (i inline) querier() pg.DB {
	if i.tx != nil {
		return i.tx
	}
	return pg.SQLQuerier{DB: store.SQL(i.sqlTx)}
}

// left notes the effects of the handler.
func (r *Ran) left(effects handlers.Effects) {
	r.Note, r.Result = sanitize.Text(effects.Note), effects.Result
	for _, task := range effects.FollowUps {
		r.FollowUps = append(r.FollowUps, taskdb.IDOf(task))
	}
}

type inlineRun struct {
	inline
	statements taskdb.Queries
	q          pg.DB
	now        time.Time
}

// The triggers have a recurring task planned at once, by the database's clock. The time of a test may be behind that
// clock. Then the statement has the task planned from its beginning, or from its last fire.
const planInlineSQL = `
UPDATE tasktable.scheduled_tasks SET next_attempt_at = scheduled_at - interval '1 microsecond'
WHERE cron IS NOT NULL AND planned_revision IS DISTINCT FROM revision AND next_attempt_at > $1::timestamptz
	AND scheduled_at <= $1::timestamptz`

// The triggers have a task that is due already wait behind those that are, from the time of its edit on. The time of a
// test may be before that.
const dueInlineSQL = `
UPDATE tasktable.scheduled_tasks SET next_attempt_at = due_at, due_at = NULL
WHERE due_at <= $1::timestamptz AND next_attempt_at > $1::timestamptz`

// fork resumes the tasks whose pause has ended, and fires the recurring tasks that are due.
func (r inlineRun) fork(ctx context.Context) error {
	for resumed := taskdb.MaxResumed; resumed == taskdb.MaxResumed; {
		var err error
		if resumed, err = r.statements.ResumeDue(ctx, r.q, &r.now); err != nil {
			return err
		}
	}
	for _, statement := range []string{planInlineSQL, dueInlineSQL} {
		if _, err := r.q.Exec(ctx, r.statements.Schema.SQL(statement), r.now); err != nil {
			return fmt.Errorf("plan what is due: %w", err)
		}
	}
	for {
		lanes, err := r.statements.Lanes(ctx, r.q, &r.now)
		if err != nil {
			return err
		}
		due := r.mine(lanes.Recurring, lanes.Paused)
		if len(due) == 0 {
			return nil
		}
		looked := 0
		if err := r.entered(ctx, func() (err error) {
			looked, err = r.statements.Fork(ctx, r.q, &r.now, due, taskdb.MaxFires)
			return err
		}); err != nil || looked == 0 {
			return err
		}
	}
}

// mine picks the lanes that are due, are not paused, and have a handler.
func (r inlineRun) mine(lanes []taskdb.Lane, paused []taskdb.Pause) []taskdb.Lane {
	return slices.DeleteFunc(slices.Clone(taskdb.Unpaused(lanes, paused)), func(l taskdb.Lane) bool {
		return l.DueIn > 0 || r.handlers.Variant(l.Type) == nil
	})
}

// one passes a claimed task through the gate, runs it and settles it.
func (r inlineRun) one(ctx context.Context, c claimedTask) (Ran, error) {
	ran := Ran{ID: c.ID, Type: c.lane.Type, Attempt: c.Attempt, Outcome: store.AttemptExpired}
	if c.Fence == 0 {
		return ran, nil
	}
	h := c.Claim
	answers, err := r.statements.Gate(ctx, r.q, &r.now, []taskdb.Claim{h}, true)
	if err != nil {
		return ran, err
	}
	var outcome taskdb.Settlement
	switch answer, held := answers[h.Fence]; {
	case !held: // an earlier handler took the claim away, by its own SQL
		ran.Outcome = store.AttemptLost
		return ran, nil
	case answer.Verdict != taskdb.VerdictGo: // by the SQL of an earlier handler
		outcome, _ = taskdb.Refused(h, answer)
	default:
		outcome, ran.Err = r.attempt(ctx, h, answer)
		ran.left(outcome.Effects)
	}
	done, err := r.statements.SettleAll(ctx, r.q, &r.now, nil, "scheduledtest", []taskdb.Settlement{outcome})
	if err != nil {
		return ran, err
	}
	if len(done) != 1 || !done[0].Settled {
		return ran, fmt.Errorf(
			"task %s was not settled: another transaction has locked its row, or its claim was taken away", c.ID)
	}
	if ran.Outcome = store.AttemptOutcome(outcome.Outcome); !done[0].Current {
		ran.Outcome = store.AttemptOutcome(outcome.Edited)
	}
	return ran, nil
}

// attempt runs the handler. A handler that panics has failed. A handler that ends its goroutine, as t.FailNow does,
// ends the test.
func (r inlineRun) attempt(
	ctx context.Context, h taskdb.Claim, answer taskdb.GateAnswer,
) (settlement taskdb.Settlement, err error) {
	e := answer.Execution(h).WithExtend(func(context.Context, time.Duration) error { return nil })
	variant := r.handlers.Variant(answer.Type)
	tracing := tracing.New(r.tracer, 0)
	ctx = tracing.Begin(ctx, e)
	handling, end := within(ctx, answer)
	defer end()
	err = r.run(ctx, handling, variant, e)
	ofNode := r.backoff
	if ofNode == nil {
		ofNode = func(attempt int, _ error) time.Duration { return backoff.Default().Wait(attempt, 0) }
	}
	settlement = outcome.Decide(h, e, err, context.Cause(handling),
		outcome.BackoffFor(variant.Backoff, answer.Backoff, ofNode, func() float64 { return 0 }))
	settlement.InTx = variant.Kind != handlers.KindPlain
	outcome.EncodeIfDead(ctx, r.codec, &settlement)
	tracing.End(ctx, settlement.Outcome, err)
	return settlement, err
}

// run calls the handler with the context handling. ctx is for the savepoint around it, which outlives the handler's
// context.
func (r inlineRun) run(
	ctx, handling context.Context, variant *handlers.Variant, e *handlers.Execution,
) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panics.Error(value)
		}
	}()
	if err := outcome.DecodePayload(handling, r.codec, e); err != nil {
		return err
	}
	encoded := func(err error) error { // in the handler's transaction, which an error rolls back
		if err == nil && variant.Kind != handlers.KindPlain {
			err = context.Cause(handling) // a node would not have committed in time
		}
		if err == nil {
			err = outcome.CheckEffects(e.Effects())
		}
		if err == nil {
			err = outcome.EncodeFollowUps(ctx, r.codec, e)
		}
		return err
	}
	switch {
	case variant.Kind == handlers.KindPlain:
		return encoded(variant.Run(handling, e))
	case variant.Kind == handlers.KindTx && r.tx != nil:
		return pgx.BeginFunc(ctx, r.tx, func(tx pgx.Tx) error { return encoded(variant.RunTx(handling, tx, e)) })
	case variant.Kind == handlers.KindSQLTx && r.sqlTx != nil:
		return r.runSQLTx(ctx, func() error { return encoded(variant.RunSQLTx(handling, r.sqlTx, e)) })
	}
	return handlers.Permanent(errors.New("the handler's transaction is of the other kind: " +
		"HandleTx runs in a pgx.Tx, HandleSQLTx in a *sql.Tx"))
}

// runSQLTx runs the handler in a savepoint. database/sql has no method for savepoints.
func (r inlineRun) runSQLTx(ctx context.Context, run func() error) error {
	if _, err := r.sqlTx.ExecContext(ctx, "SAVEPOINT tasktable_handler"); err != nil {
		return fmt.Errorf("begin the handler's savepoint: %w", err)
	}
	err := run()
	end := "RELEASE SAVEPOINT tasktable_handler"
	if err != nil {
		end = "ROLLBACK TO SAVEPOINT tasktable_handler"
	}
	if _, endErr := r.sqlTx.ExecContext(ctx, end); endErr != nil {
		return errors.Join(err, fmt.Errorf("end the handler's savepoint: %w", endErr))
	}
	return err
}
