package scheduled

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Inline runs due tasks in a transaction of the caller and on the caller's goroutine, at a time that the caller
// gives. It uses the engine's own claim, gate and settle, but no River, no leader and no timers. Package
// scheduledtest is built on it. It is not for production, because there a handler's transaction must not hold the
// claim's locks.
type Inline struct {
	// Tx or SQLTx is the transaction. Exactly one of them is required. Handlers of HandleTx need Tx, and handlers of
	// HandleSQLTx need SQLTx.
	Tx    pgx.Tx
	SQLTx *sql.Tx
	// Handlers is required. Tasks of other types stay as they are.
	Handlers *handlers.Registry
	// Schema is the Postgres schema of the tables. The default is store.DefaultSchema.
	Schema string
	// Backoff is the wait before each retry. The default is DefaultBackoff without its random part.
	Backoff handlers.Backoff
	// Codec is as in Config.
	Codec store.Codec
	// Tracer is as in Config.
	Tracer trace.TracerProvider
}

// Ran is the result of one task.
type Ran struct {
	ID      string
	Type    string
	Attempt int
	Outcome string // a value of scheduled_task_executions.outcome
	Err     error  // the handler's error
	// Note, Result and FollowUps are there if the handler returned nil. Note and Result are as the row has them.
	// FollowUps has the ids of the follow-ups, in the order in which the handler asked for them.
	Note      string
	Result    json.RawMessage
	FollowUps []string
}

const (
	// A task that is due at once again and again, for example because of RetryAfter(0) with many attempts, would
	// otherwise keep RunDue from returning.
	inlineMostPerTask = 100
	inlineMostPerPass = 1000
)

// RunDue runs all tasks that are due at now, and those that become due at now because of these. The highest priority
// comes first. It returns what ran, in order. With an error it returns what ran before the error.
func (i Inline) RunDue(ctx context.Context, now time.Time) ([]Ran, error) {
	schema, err := store.NewSchema(i.Schema)
	if err != nil {
		return nil, err
	}
	if i.Handlers == nil || (i.Tx == nil) == (i.SQLTx == nil) {
		return nil, fmt.Errorf("%w: Inline needs Handlers and one of Tx and SQLTx", store.ErrInvalid)
	}
	run := inlineRun{
		Inline: i, statements: taskdb.Queries{Schema: schema}, q: i.querier(),
		now: now.UTC().Truncate(time.Microsecond),
	}
	if err := i.SetNow(ctx, run.now); err != nil {
		return nil, err
	}
	var ran []Ran
	times := map[string]int{}
	for {
		claimed, err := run.claim(ctx)
		if err != nil || len(claimed) == 0 {
			return ran, err
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
}

const setNowSQL = `SELECT set_config('tasktable_test.now', $1::text, true)`

// SetNow makes tasks that are asked for "now" due at the given time, for example by Schedule without At or by RunNow.
// It holds until the transaction ends or RunDue is called with another time.
func (i Inline) SetNow(ctx context.Context, now time.Time) error {
	text := now.UTC().Format(time.RFC3339Nano)
	if _, err := i.querier().Exec(ctx, setNowSQL, text); err != nil {
		return fmt.Errorf("set the time to %s: %w", text, err)
	}
	return nil
}

// querier returns the transaction.
func (i Inline) querier() taskdb.DB {
	if i.Tx != nil {
		return i.Tx
	}
	return sqlQuerier{store.SQL(i.SQLTx)}
}

// left notes the effects of the handler. A handler that failed has none.
func (r *Ran) left(effects handlers.Effects) {
	r.Note, r.Result = taskdb.Sanitize(effects.Note), effects.Result
	for _, task := range effects.FollowUps {
		r.FollowUps = append(r.FollowUps, taskdb.IDOf(task))
	}
}

type inlineRun struct {
	Inline
	statements taskdb.Queries
	q          taskdb.DB
	now        time.Time
}

// The triggers have a recurring task planned at once, by the database's clock. The time of a test may be behind that
// clock. Then the statement has the task planned from its beginning, or from its last fire.
const planInlineSQL = `
UPDATE tasktable.scheduled_tasks SET next_attempt_at = scheduled_at - interval '1 microsecond'
WHERE cron IS NOT NULL AND planned_revision IS DISTINCT FROM revision AND next_attempt_at > $1::timestamptz
	AND scheduled_at <= $1::timestamptz`

// fork resumes the tasks whose pause has ended, and fires the recurring tasks that are due.
func (r inlineRun) fork(ctx context.Context) error {
	for resumed := taskdb.MaxResumed; resumed == taskdb.MaxResumed; {
		var err error
		if resumed, err = r.statements.ResumeDue(ctx, r.q, &r.now); err != nil {
			return err
		}
	}
	if _, err := r.q.Exec(ctx, r.statements.Schema.SQL(planInlineSQL), r.now); err != nil {
		return fmt.Errorf("plan recurring tasks: %w", err)
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
		if _, err := r.q.Exec(ctx, taskdb.EnterSQL); err != nil {
			return fmt.Errorf("enter the engine's context: %w", err)
		}
		looked, err := r.statements.Fork(ctx, r.q, &r.now, due, taskdb.MaxForks)
		if err != nil {
			return err
		}
		if _, err := r.q.Exec(ctx, taskdb.LeaveSQL); err != nil {
			return fmt.Errorf("leave the engine's context: %w", err)
		}
		if looked == 0 {
			return nil
		}
	}
}

// mine picks the lanes that are due, are not paused, and have a handler.
func (r inlineRun) mine(lanes []taskdb.Lane, paused []taskdb.Pause) []taskdb.Lane {
	return slices.DeleteFunc(slices.Clone(taskdb.Unpaused(lanes, paused)), func(l taskdb.Lane) bool {
		return l.DueIn > 0 || r.Handlers.Variant(l.Type) == nil
	})
}

// claim takes the due tasks of all queues, as a node would that has all types and room for everything.
func (r inlineRun) claim(ctx context.Context) ([]taskdb.ClaimedTask, error) {
	if err := r.fork(ctx); err != nil {
		return nil, err
	}
	lanes, err := r.statements.Lanes(ctx, r.q, &r.now)
	if err != nil {
		return nil, err
	}
	var due []taskdb.LaneQuota
	for _, l := range r.mine(lanes.Tasks, lanes.Paused) {
		due = append(due, taskdb.LaneQuota{Lane: l, Cost: 1, Room: inlineMostPerPass})
	}
	if len(due) == 0 {
		return nil, nil
	}
	if _, err := r.q.Exec(ctx, taskdb.EnterSQL); err != nil {
		return nil, fmt.Errorf("enter the engine's context: %w", err)
	}
	taken, err := r.statements.Claim(ctx, r.q, &r.now, 0, DefaultStartAllowance, due, inlineMostPerPass)
	if err != nil {
		return nil, err
	}
	if _, err := r.q.Exec(ctx, taskdb.LeaveSQL); err != nil {
		return nil, fmt.Errorf("leave the engine's context: %w", err)
	}
	return taken, nil
}

// one passes a claimed task through the gate, runs it and settles it.
func (r inlineRun) one(ctx context.Context, c taskdb.ClaimedTask) (Ran, error) {
	ran := Ran{ID: c.ID, Type: c.Type, Attempt: c.Attempt, Outcome: taskdb.OutcomeExpired}
	if c.Fence == nil {
		return ran, nil
	}
	h := c.Claim()
	answers, err := r.statements.Gate(ctx, r.q, &r.now, []taskdb.Claim{h}, nil)
	if err != nil {
		return ran, err
	}
	var outcome taskdb.Settlement
	switch answer, held := answers[h.Fence]; {
	case !held: // an earlier handler took the claim away, by its own SQL
		ran.Outcome = taskdb.OutcomeLost
		return ran, nil
	case answer.Verdict != taskdb.VerdictGo:
		outcome = taskdb.Released(h, "edited or cancelled before it started")
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
	if ran.Outcome = outcome.Outcome; !done[0].Current {
		ran.Outcome = outcome.Edited
	}
	return ran, nil
}

// attempt runs the handler. A handler that panics has failed. A handler that ends its goroutine, as t.FailNow does,
// ends the test.
func (r inlineRun) attempt(
	ctx context.Context, h taskdb.Claim, answer taskdb.GateAnswer,
) (outcome taskdb.Settlement, err error) {
	e := answer.Execution(h).WithExtend(func(context.Context, time.Duration) error { return nil })
	variant := r.Handlers.Variant(answer.Type)
	tracing := newTracing(r.Tracer, 0)
	ctx = tracing.begin(ctx, e)
	err = r.run(ctx, variant, e)
	backoff := r.Backoff
	if variant.Backoff != nil {
		backoff = variant.Backoff
	}
	if backoff == nil {
		backoff = func(attempt int, _ error) time.Duration { return backoffOf(attempt, 0) }
	}
	outcome = decideOutcome(h, e, err, nil, safely(backoff))
	tracing.end(ctx, attempted{Settlement: outcome}, err)
	return outcome, err
}

func (r inlineRun) run(ctx context.Context, variant *handlers.Variant, e *handlers.Execution) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(value)
		}
	}()
	if err := decodePayload(ctx, r.Codec, e); err != nil {
		return err
	}
	encoded := func(err error) error {
		if err != nil {
			return err
		}
		return encodeFollowUps(ctx, r.Codec, e)
	}
	switch {
	case variant.Kind == handlers.KindPlain:
		return encoded(variant.Run(ctx, e))
	case variant.Kind == handlers.KindTx && r.Tx != nil:
		return pgx.BeginFunc(ctx, r.Tx, func(tx pgx.Tx) error { return encoded(variant.RunTx(ctx, tx, e)) })
	case variant.Kind == handlers.KindSQLTx && r.SQLTx != nil:
		return r.runSQLTx(ctx, func() error { return encoded(variant.RunSQLTx(ctx, r.SQLTx, e)) })
	}
	return handlers.Permanent(errors.New("the handler's transaction is of the other kind: " +
		"HandleTx runs in a pgx.Tx, HandleSQLTx in a *sql.Tx"))
}

// runSQLTx runs the handler in a savepoint. database/sql has no method for savepoints.
func (r inlineRun) runSQLTx(ctx context.Context, run func() error) error {
	if _, err := r.SQLTx.ExecContext(ctx, "SAVEPOINT tasktable_handler"); err != nil {
		return fmt.Errorf("begin the handler's savepoint: %w", err)
	}
	err := run()
	end := "RELEASE SAVEPOINT tasktable_handler"
	if err != nil {
		end = "ROLLBACK TO SAVEPOINT tasktable_handler"
	}
	if _, endErr := r.SQLTx.ExecContext(ctx, end); endErr != nil {
		return errors.Join(err, fmt.Errorf("end the handler's savepoint: %w", endErr))
	}
	return err
}
