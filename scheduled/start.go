package scheduled

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// gateValid is how old a gate's answer may be when the handler is called, and how long a task may run before the rest of its
// batch goes on beside it.
const gateValid = 250 * time.Millisecond

// checkWaiting asks the gate about a task whose row has changed, before it is due or has a slot, and hands it back if it is
// not this attempt's any more.
func (b *batch) checkWaiting(r *run) {
	asked := b.ask([]*run{r})
	if asked.rows == nil {
		return // the next recheck tells again
	}
	if answer, held := asked.rows[r.Fence]; !held || answer.Verdict == verdictEdited {
		b.refuse(r, answer)
	}
}

// maxEarly is how long a claimed task may wait for its time on a node: the longest look-ahead and a little more. The row of a task that
// was moved past the triggers may name a much later time. Such a task goes back to the queue, because it would keep one of River's
// workers.
const maxEarly = 15 * time.Second

// refuse ends a claim that the gate did not let through. It reports whether the task still waits.
func (b *batch) refuse(r *run, answer gateRow) (waits bool) {
	switch answer.Verdict {
	case verdictEarly:
		if answer.DueIn <= maxEarly.Seconds() {
			return true
		}
		s := released(r.hold, "its row says that it is due later")
		s.NextAt = new(answer.Now.Add(time.Duration(min(answer.DueIn, math.MaxInt32) * float64(time.Second))))
		b.end(r, s)
	case verdictEdited:
		b.end(r, released(r.hold, "edited or cancelled before it started"))
	case verdictPaused:
		b.end(r, released(r.hold, "its queue or type is paused"))
	case verdictExpired:
		b.end(r, expired(r.hold))
	case verdictHalted:
		b.end(r, released(r.hold, answer.Payload))
	case verdictNoTx:
		b.rest(noTxRest)
		b.end(r, released(r.hold, scrub("the handler could not begin: "+answer.Payload)))
	case verdictBroken:
		s := released(r.hold, "the task cannot be read: "+answer.Payload)
		s.Outcome, s.To, s.NextAt = outcomeFailed, "FAILED", nil
		s.Error = new(scrub(*s.Error))
		s.Message = s.Error
		b.end(r, s)
	default: // the fence is another's: nothing to settle
		b.drop(r)
	}
	return false
}

// serving is what serveOne did.
type serving int

const (
	served   serving = iota // the task has run, or was refused
	handedOn                // the task has run, and the rest of the batch goes on beside it
	stale                   // the gate's answer is too old by now: ask again
)

// serveOne runs one task that has its slot, if the gate, asked at that instant, lets it. For so long as patience is set to, gateValid, the
// rest of the batch waits for it.
func (b *batch) serveOne(r *run, answer gateRow, gateAt time.Time, rest []*run, patience *time.Timer) serving {
	if b.left([]*run{r}) == nil {
		return served // released while it waited
	}
	if answer.Verdict != verdictGo {
		if b.refuse(r, answer) {
			// Early by the database's clock: it goes on waiting, apart from the others.
			r.notBefore = gateAt.Add(time.Duration(answer.DueIn * float64(time.Second)))
			b.serving.Go(func() { b.serve([]*run{r}) })
		}
		return served
	}
	variant := b.config.Handlers.Variant(answer.Type)
	if variant == nil { // only an edit of the type could do that, and it would have drawn a revision
		b.end(r, released(r.hold, "this node has no handler for type "+answer.Type))
		return served
	}
	leaseEnd, why := b.leaseFor(r, answer, gateAt)
	if why == "" && !b.alive() {
		why = "the node lost touch with the database"
	}
	if why != "" {
		b.end(r, released(r.hold, why))
		return served
	}
	if time.Since(gateAt) > gateValid { // extending the lease took long
		return stale
	}
	running := b.begin(r, variant, answer, gateAt, leaseEnd)
	if len(rest) == 0 {
		b.finish(running, <-running.done)
		return served
	}
	patience.Reset(gateValid)
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

// leaseFor returns the end of the attempt's lease. The lease must outlive the handler's time by a margin: a lease that is too short,
// because the task waited long, is made longer. Where that cannot be done, why says so, and the task must not start.
func (b *batch) leaseFor(r *run, answer gateRow, gateAt time.Time) (end time.Time, why string) {
	expected := time.Duration(answer.Expected * float64(time.Second))
	end = gateAt.Add(time.Duration(answer.Lease * float64(time.Second)))
	if needed := expected + b.config.leaseMargin() + gateValid; time.Until(end) >= needed {
		return end, ""
	}
	asked := time.Now()
	extended, err := b.extend([]hold{r.hold}, nil)
	if err != nil {
		b.log.Warn("lease not extended", "task", r.ID, "type", answer.Type, "revision", r.Revision, "attempt", r.Attempt, "error", err)
		return end, "the node lost touch with the database"
	}
	lease, done := extended[r.Fence]
	if !done {
		return end, "its lease is too short, and its row is locked"
	}
	return asked.Add(lease), ""
}

// leaseMargin is how long the lease is to outlive the handler's context, so that an obedient handler's outcome is recorded before the claim
// counts as lost. The other half of a short start allowance is for the wait.
func (c Config) leaseMargin() time.Duration { return min(5*time.Second, c.StartAllowance/2) }

// running is an attempt under way.
type running struct {
	*run
	execution *handlers.Execution
	ctx       *leaseContext
	began     time.Time
	done      chan attempted
}

// begin runs the handler on a goroutine of its own.
func (b *batch) begin(r *run, variant *handlers.Variant, answer gateRow, gateAt, leaseEnd time.Time) *running {
	e := answer.execution(r.hold)
	ctx := withLease(b.tracing.begin(b.handlers, e), leaseEnd.Add(-b.config.leaseMargin()), leaseEnd)
	ctx.expected = time.Duration(answer.Expected * float64(time.Second))
	r.begins(ctx, e)
	e.WithExtend(func(_ context.Context, d time.Duration) error { return b.extendRunning(ctx, r, d) })
	b.log.DebugContext(ctx, "task starts", "task", e.ID, "type", e.Type, "revision", e.Revision, "attempt", e.Attempt)
	started := &running{run: r, execution: e, ctx: ctx, began: time.Now(), done: make(chan attempted, 1)}
	go b.attempt(ctx, r, variant, e, gateAt, started.done)
	return started
}

// finish has the outcome recorded.
func (b *batch) finish(r *running, ended attempted) {
	defer r.ctx.close()
	e := r.execution
	if ended.refused != nil {
		if b.refuse(r.run, *ended.refused) {
			b.end(r.run, released(r.hold, "not due yet"))
		}
		return
	}
	took := time.Since(r.began)
	b.averages.observe(e.Type, took)
	b.tally.ran(took)
	if ended.settled {
		outcome := outcomeCompleted
		if r.outdated {
			outcome = outcomeSuperseded
		}
		b.tally.recorded(outcome)
		b.log.DebugContext(r.ctx, "task COMPLETED", "task", e.ID, "type", e.Type, "revision", e.Revision, "attempt", e.Attempt, "outcome", outcomeCompleted)
		b.drop(r.run)
		return
	}
	b.end(r.run, ended.settlement)
}

// attempted is how an attempt ended.
type attempted struct {
	settlement
	settled bool     // a transactional handler's own transaction has recorded it
	refused *gateRow // it did not begin after all: it waited for its transaction, and the gate was asked again
}

// attempt runs the handler on a goroutine that it may end by Goexit.
func (b *batch) attempt(ctx *leaseContext, r *run, variant *handlers.Variant, e *handlers.Execution, gateAt time.Time, done chan<- attempted) {
	backoff := b.config.Backoff
	if variant.Backoff != nil {
		backoff = variant.Backoff
	}
	var ended attempted
	call(ctx, func(ctx context.Context) (err error) {
		ended.settled, ended.refused, err = b.perform(ctx, r, variant, e, gateAt)
		return err
	}, func(err error) {
		ended.settlement = conclude(r.hold, e, err, causeOf(ctx), safely(backoff))
		b.tracing.end(ctx, ended, err)
		done <- ended
	})
}

// perform decodes the payload and runs the handler. It reports whether the task is settled, or that the gate was asked again, and refused.
func (b *batch) perform(
	ctx context.Context, r *run, variant *handlers.Variant, e *handlers.Execution, gateAt time.Time,
) (settled bool, refused *gateRow, err error) {
	if err := decodePayload(ctx, b.config.Codec, e); err != nil {
		return false, nil, err
	}
	if variant.Kind != handlers.KindPlain {
		return b.attemptTx(ctx, r, variant, e, gateAt)
	}
	if b.config.Codec != nil && time.Since(gateAt) > gateValid { // it may have asked a service for its key
		if refused := b.gateAgain(ctx, b.enginePool, r, e); refused != nil {
			return false, refused, nil
		}
	}
	r.calls(e.StartedAt)
	startTime(ctx)
	b.tally.starts(e.StartedAt.Sub(e.DueAt))
	if err := variant.Run(ctx, e); err != nil {
		return false, nil, err
	}
	return false, nil, encodeFollowUps(ctx, b.config.Codec, e)
}

// safely keeps a backoff that panics from ending the process.
func safely(backoff handlers.Backoff) handlers.Backoff {
	return func(attempt int, err error) (delay time.Duration) {
		defer func() {
			if recover() != nil {
				delay = DefaultBackoff(attempt, err)
			}
		}()
		return backoff(attempt, err)
	}
}

// extendRunning is Execution.Extend.
func (b *batch) extendRunning(ctx *leaseContext, r *run, d time.Duration) error {
	if cause := causeOf(ctx); cause != nil {
		return fmt.Errorf("extend task %s: %w", r.ID, cause)
	}
	d = min(d, store.MaxExpectedExecutionTime)
	return b.extendLease(ctx, r, &d)
}

// extend makes leases longer. A row that an application has locked keeps the lease it has.
func (w *worker) extend(holds []hold, d *time.Duration) (map[int64]time.Duration, error) {
	ctx, cancel := context.WithTimeout(w.settling, answerLimit)
	defer cancel()
	return w.statements.extend(ctx, w.enginePool, holds, w.config.StartAllowance, d)
}

// extendLease makes the handler's context last at least d from now, and the lease longer by the start allowance; nil: as long as the task
// is expected to run.
func (b *batch) extendLease(ctx *leaseContext, r *run, d *time.Duration) error {
	asked := time.Now()
	extended, err := b.extend([]hold{r.hold}, d)
	if err != nil {
		return err
	}
	lease, done := extended[r.Fence]
	if !done {
		return fmt.Errorf("extend task %s: %w, or its row is locked", r.ID, handlers.ErrLeaseLost)
	}
	deadline := asked.Add(lease - b.config.leaseMargin())
	if d != nil {
		deadline = asked.Add(*d)
	}
	if !ctx.extend(deadline, asked.Add(lease)) { // it ended while the database answered
		return fmt.Errorf("extend task %s: %w", r.ID, causeOf(ctx))
	}
	return nil
}
