package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/outcome"
	"github.com/tasktable/tasktable/scheduled/internal/panics"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// serving is the result of serveOne.
type serving int

const (
	served   serving = iota // the task has run, or was refused
	handedOn                // the task has run, and the rest of the batch goes on in another slot
	askAgain                // the gate's answer is too old by now: ask again
)

// serveOne runs one task that has its slot, if the gate, which was asked at gateAt, allows it. The rest of the batch
// waits for the task for GateValid, by the timer patience.
func (b *batch) serveOne(
	r *Run, answer taskdb.GateAnswer, gateAt time.Time, rest []*Run, patience *time.Timer,
) serving {
	if b.left([]*Run{r}) == nil {
		return served // the node released the task while it waited
	}
	if answer.Verdict != taskdb.VerdictGo {
		if b.refuse(r, answer) {
			// The task is early by the database's clock. It goes on waiting, apart from the others.
			r.notBefore = gateAt.Add(time.Duration(answer.DueIn * float64(time.Second)))
			b.serving.Go(func() { b.serve([]*Run{r}) })
		}
		return served
	}
	variant := b.config.Handlers.Variant(answer.Type)
	if variant == nil { // an edit of the type could cause this, but it would have drawn a new revision
		b.end(r, taskdb.Released(r.Claim, "this node has no handler for type "+answer.Type))
		return served
	}
	leaseEnd, why := b.leaseFor(r, answer, gateAt)
	if why == "" && !b.config.Alive() {
		why = "the node lost touch with the database"
	}
	if why != "" {
		b.end(r, taskdb.Released(r.Claim, why))
		return served
	}
	if stale(gateAt) { // extending the lease took long
		return askAgain
	}
	running := b.begin(r, variant, answer, gateAt, leaseEnd)
	if len(rest) == 0 {
		b.finish(running, <-running.done)
		return served
	}
	patience.Reset(GateValid)
	select {
	case ended := <-running.done:
		b.finish(running, ended)
		return served
	case <-patience.C:
		b.serving.Go(func() { b.serve(rest) })
		b.finish(running, <-running.done)
		return handedOn
	}
}

// begin starts the handler on a goroutine of its own.
func (b *batch) begin(
	r *Run, variant *handlers.Variant, answer taskdb.GateAnswer, gateAt, leaseEnd time.Time,
) *running {
	e := answer.Execution(r.Claim)
	ctx := withLease(b.tracing.Begin(b.handlers, e), leaseEnd.Add(-b.leaseMargin()), leaseEnd)
	ctx.expected = time.Duration(answer.Expected * float64(time.Second))
	r.begins(ctx, e)
	e.WithExtend(func(_ context.Context, d time.Duration) error { return b.extendRunning(ctx, r, d) })
	e.WithLate(func(method string) {
		b.config.Log.Warn("a handler has left a goroutine that asks for something after the attempt has ended: it "+
			"does not count", "method", method, "task", e.ID, "type", e.Type, "revision", e.Revision,
			"attempt", e.Attempt)
	})
	// LogAttrs needs no memory if the line is not written.
	b.config.Log.LogAttrs(ctx, slog.LevelDebug, "task starts", slog.String("task", e.ID), slog.String("type", e.Type),
		slog.Int64("revision", e.Revision), slog.Int("attempt", e.Attempt))
	started := &running{Run: r, execution: e, ctx: ctx, began: time.Now(), done: make(chan attempted, 1)}
	go b.attempt(ctx, r, variant, e, gateAt, started.done)
	return started
}

// finish has the outcome of an attempt recorded.
func (b *batch) finish(r *running, ended attempted) {
	defer r.ctx.close()
	b.hung.returns(r.Run)
	if ended.refused != nil {
		if b.refuse(r.Run, *ended.refused) {
			b.end(r.Run, taskdb.Released(r.Claim, "not due yet"))
		}
		return
	}
	took := time.Since(r.began)
	b.Averages.Observe(r.execution.Type, took)
	b.tally.Duration.Observe(took.Seconds())
	if ended.recorded != nil {
		b.tell(r.Run, ended.Settlement, *ended.recorded, nil)
		b.drop(r.Run)
		return
	}
	b.end(r.Run, ended.Settlement)
}

// attempted is the result of an attempt.
type attempted struct {
	taskdb.Settlement
	recorded *taskdb.SettleResult // what a transactional handler's own transaction has recorded
	refused  *taskdb.GateAnswer   // the attempt did not begin, because the gate, asked again after a wait, refused it
}

// attempt runs the handler on the current goroutine, which the handler may end by Goexit.
func (b *batch) attempt(
	ctx *leaseContext,
	r *Run,
	variant *handlers.Variant,
	e *handlers.Execution,
	gateAt time.Time,
	done chan<- attempted,
) {
	backoff := b.config.Backoff
	if variant.Backoff != nil {
		backoff = variant.Backoff
	}
	var ended attempted
	panics.Call(ctx, func(ctx context.Context) (err error) {
		ended.recorded, ended.refused, err = b.perform(ctx, r, variant, e, gateAt)
		return err
	}, func(err error) {
		ended.Settlement = outcome.Decide(r.Claim, e, err, causeOf(ctx), outcome.Safely(backoff))
		outcome.EncodeIfDead(ctx, b.config.Codec, &ended.Settlement)
		outcome := ended.Outcome
		if ended.refused != nil {
			outcome = taskdb.OutcomeReleased
		}
		b.tracing.End(ctx, outcome, err)
		done <- ended
	})
}

// perform decodes the payload and runs the handler. If the handler's own transaction has settled the task, it
// returns the result. If it had to ask the gate again and the gate refused, it returns the answer.
func (b *batch) perform(
	ctx context.Context, r *Run, variant *handlers.Variant, e *handlers.Execution, gateAt time.Time,
) (recorded *taskdb.SettleResult, refused *taskdb.GateAnswer, err error) {
	if err := outcome.DecodePayload(ctx, b.config.Codec, e); err != nil {
		return nil, nil, err
	}
	if variant.Kind != handlers.KindPlain {
		return b.attemptTx(ctx, r, variant, e, gateAt)
	}
	if b.config.Codec != nil && stale(gateAt) { // the codec may have asked a slow service for its key
		if refused := b.gateAgain(ctx, b.config.EnginePool, r, e); refused != nil {
			return nil, refused, nil
		}
	}
	r.calls(e.StartedAt)
	startTime(ctx)
	b.tally.Started.Inc()
	b.tally.Delay.Observe(e.StartedAt.Sub(e.DueAt).Seconds())
	if err := variant.Run(ctx, e); err != nil {
		return nil, nil, err
	}
	return nil, nil, outcome.EncodeFollowUps(ctx, b.config.Codec, e)
}
