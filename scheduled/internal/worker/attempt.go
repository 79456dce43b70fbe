package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/outcome"
	"github.com/tasktable/tasktable/scheduled/internal/panics"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// attempt is one try of a task, from when the gate lets it through until its handler returns.
type attempt struct {
	*job
	run       *run
	execution *handlers.Execution // belongs to the handler's goroutine
	lease     *leaseContext       // the handler's context
	asked     time.Time           // when the gate was asked, by this process's clock
	backoff   *string             // the task's own

	// Guarded by run.mu.
	startedAt time.Time // by the database's clock; until the handler is called, when the gate let the task through
	called    time.Time // when the handler was called, by this process's clock; zero: not yet
	written   bool      // the row says when and where the attempt started
}

// result is what an attempt has come to.
type result struct {
	taskdb.Settlement
	recorded *taskdb.SettleResult // what the handler's own transaction has recorded; nil: nothing
	refused  *refusal             // nil: the handler was called
}

// try makes an attempt at a task that the gate has let through, and has its outcome recorded. If the attempt takes
// longer than gateValid, the rest of the batch goes on in another slot. The rest of a serial job goes back instead.
func (b *batch) try(r *run, answer taskdb.GateAnswer) {
	a, why := b.begin(r, answer, b.answers.asked)
	if why != "" {
		b.end(r, taskdb.Released(r.Claim, why))
		return
	}
	defer a.lease.close()
	began := time.Now()
	done := make(chan result, 1)
	go a.perform(done) // on a goroutine of its own, because the handler may hang, or end its goroutine
	var patience <-chan time.Time
	if len(b.runs) > 0 {
		if b.patience == nil {
			b.patience = time.NewTimer(gateValid)
		}
		b.patience.Reset(gateValid)
		patience = b.patience.C
	}
	var ended result
	select {
	case ended = <-done:
	case <-patience:
		if b.serial {
			b.release(len(b.runs), "the task before it takes long, and only one of them may run")
		} else {
			rest := &batch{job: b.job, runs: b.runs}
			b.runs = nil
			b.serving.Go(rest.serve)
		}
		ended = <-done
	}
	b.returns(r)
	if ended.refused != nil {
		b.refuse(r, ended.refused.GateAnswer)
		return
	}
	took := time.Since(began)
	b.averages.observe(ended.Type, took)
	b.tally.Duration.Observe(took.Seconds())
	if ended.recorded != nil {
		b.tell(r, &ended.Settlement, *ended.recorded, nil)
		b.drop(r)
		return
	}
	b.end(r, ended.Settlement)
}

// begin makes an attempt with its lease and the handler's context. It extends a lease that is too short for the
// handler. If the attempt cannot begin, why is the reason.
func (j *job) begin(r *run, answer taskdb.GateAnswer, asked time.Time) (a *attempt, why string) {
	if answer.Type != j.kind {
		return nil, "its type was changed by hand"
	}
	expected := time.Duration(answer.Expected * float64(time.Second))
	leaseEnd := asked.Add(time.Duration(answer.Lease * float64(time.Second)))
	if time.Until(leaseEnd) < expected+j.leaseMargin()+gateValid { // a context that has ended could not be extended
		extended, lease, err := j.extendLease(j.settling, r.Claim, nil)
		if err != nil {
			j.wait(nil, nil, notReadyRest)
			return nil, sanitize.Text("the handler could not begin: " + err.Error())
		}
		leaseEnd = extended.Add(lease)
	}
	if why = j.halted(); why != "" { // the node may have become quiet, or begun to stop, while the gate was asked
		return nil, why
	}
	if !j.config.Alive() {
		return nil, "the node lost touch with the database"
	}
	if r.decided.Swap(true) {
		return nil, "edited or cancelled before it started"
	}
	e := answer.Execution(r.Claim)
	lease := withLease(j.tracing.Begin(j.handlers, e), leaseEnd.Add(-j.leaseMargin()), leaseEnd, answer.Deadline(asked))
	lease.expected, lease.timeout = expected, answer.Timeout()
	a = &attempt{job: j, run: r, execution: e, lease: lease, asked: asked, startedAt: e.StartedAt,
		backoff: answer.Backoff}
	e.WithExtend(func(_ context.Context, d time.Duration) error {
		return a.extend(new(min(d, store.MaxExpectedExecutionTime)))
	})
	e.WithLate(func(method string) {
		j.config.Log.Warn("a handler has left a goroutine that asks for something after the attempt has ended: it "+
			"does not count", "method", method, "task", e.ID, "type", e.Type, "revision", e.Revision,
			"attempt", e.Attempt)
	})
	r.mu.Lock()
	r.attempt = a
	r.mu.Unlock()
	// LogAttrs needs no memory if the line is not written.
	j.config.Log.LogAttrs(lease, slog.LevelDebug, "task starts", slog.String("task", e.ID),
		slog.String("type", e.Type), slog.Int64("revision", e.Revision), slog.Int("attempt", e.Attempt))
	return a, ""
}

// perform runs the handler on the current goroutine, which the handler may end by Goexit, and decides what the attempt
// has come to.
func (a *attempt) perform(done chan<- result) {
	var ended result
	panics.Call(a.lease, func(ctx context.Context) (err error) {
		if err = outcome.DecodePayload(ctx, a.config.Codec, a.execution); err != nil {
			return err
		}
		if a.variant.Kind != handlers.KindPlain {
			ended.recorded, err = a.callInTx(ctx)
			return err
		}
		return a.call(ctx, a.config.EnginePool, a.variant.Run)
	}, func(err error) {
		ended.Settlement = outcome.Decide(a.run.Claim, a.execution, err, context.Cause(a.lease),
			outcome.BackoffFor(a.variant.Backoff, a.backoff, a.config.Backoff, rand.Float64))
		outcome.EncodeIfDead(a.lease, a.config.Codec, &ended.Settlement)
		traced := ended.Outcome
		//nolint:errorlint // a handler's error may panic when it is asked
		if refused, is := err.(*refusal); is {
			ended.refused, traced = refused, taskdb.OutcomeReleased
		}
		a.tracing.End(a.lease, traced, err)
		done <- ended
	})
}

// call calls the handler. If the answer of the gate is too old by now, it asks the gate once more before: the question
// was slow, the codec has asked a slow service for its key, or the transaction has waited for a connection. It does so
// too if the task has waited for so long that its lease is too short for the handler.
func (a *attempt) call(ctx context.Context, db pg.DB, handler handlers.Handler) error {
	if a.stale(a.asked) || a.lease.short(gateValid) {
		if err := a.gateAgain(ctx, db); err != nil {
			return err
		}
	}
	e := a.execution
	a.run.mu.Lock()
	a.startedAt, a.called = e.StartedAt, time.Now()
	a.run.mu.Unlock()
	a.lease.startTime()
	a.tally.Started.Inc()
	a.tally.Delay.Observe(e.StartedAt.Sub(e.DueAt).Seconds())
	if err := handler(ctx, e); err != nil {
		return err
	}
	return outcome.EncodeFollowUps(ctx, a.config.Codec, e)
}
