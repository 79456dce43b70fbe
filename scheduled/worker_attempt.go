package scheduled

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// gateValid is how old the answer of the gate may be when the handler is called. It is also how long a task may run
// before the rest of its batch goes on in another slot.
const gateValid = 250 * time.Millisecond

// checkWaiting asks the gate about a task whose row has changed before the task was due or had a slot. It ends the
// claim if the row no longer belongs to this attempt.
func (b *batch) checkWaiting(r *run) {
	asked := b.ask([]*run{r})
	if asked.rows == nil {
		return // the next recheck reports the change again
	}
	if answer, held := asked.rows[r.Fence]; !held || answer.Verdict == taskdb.VerdictEdited {
		b.refuse(r, answer)
	}
}

// maxEarly is how long a claimed task may wait on a node until it is due. It is the longest look-ahead and a little
// more. A row may name a much later time if somebody moved the task with the triggers switched off. Such a task goes
// back to the queue, because it would occupy one of River's workers.
const maxEarly = 15 * time.Second

// refuse ends a claim that the gate did not let through. It reports whether the task still waits on this node.
func (b *batch) refuse(r *run, answer taskdb.GateAnswer) (waits bool) {
	switch answer.Verdict {
	case taskdb.VerdictEarly:
		if answer.DueIn <= maxEarly.Seconds() {
			return true
		}
		s := taskdb.Released(r.Claim, "its row says that it is due later")
		s.NextAt = new(answer.Now.Add(time.Duration(min(answer.DueIn, math.MaxInt32) * float64(time.Second))))
		b.end(r, s)
	case taskdb.VerdictEdited:
		b.end(r, taskdb.Released(r.Claim, "edited or cancelled before it started"))
	case taskdb.VerdictPaused:
		b.end(r, taskdb.Released(r.Claim, "its queue or type is paused"))
	case taskdb.VerdictExpired:
		b.end(r, taskdb.Expired(r.Claim))
	case verdictHalted:
		b.end(r, taskdb.Released(r.Claim, answer.Payload))
	case verdictNoTx:
		b.rest(noTxRest)
		b.end(r, taskdb.Released(r.Claim, taskdb.Sanitize("the handler could not begin: "+answer.Payload)))
	case verdictBroken:
		s := taskdb.Released(r.Claim, "the task cannot be read: "+answer.Payload)
		s.Outcome, s.To, s.NextAt = taskdb.OutcomeFailed, "FAILED", nil
		s.Error = new(taskdb.Sanitize(*s.Error))
		s.Message = s.Error
		b.end(r, s)
	default: // the claim belongs to another holder by now, so there is nothing to settle
		b.drop(r)
	}
	return false
}

// serving is the result of serveOne.
type serving int

const (
	served   serving = iota // the task has run, or was refused
	handedOn                // the task has run, and the rest of the batch goes on in another slot
	stale                   // the gate's answer is too old by now: ask again
)

// serveOne runs one task that has its slot, if the gate, which was asked at gateAt, allows it. The rest of the batch
// waits for the task for gateValid, by the timer patience.
func (b *batch) serveOne(
	r *run, answer taskdb.GateAnswer, gateAt time.Time, rest []*run, patience *time.Timer,
) serving {
	if b.left([]*run{r}) == nil {
		return served // the node released the task while it waited
	}
	if answer.Verdict != taskdb.VerdictGo {
		if b.refuse(r, answer) {
			// The task is early by the database's clock. It goes on waiting, apart from the others.
			r.notBefore = gateAt.Add(time.Duration(answer.DueIn * float64(time.Second)))
			b.serving.Go(func() { b.serve([]*run{r}) })
		}
		return served
	}
	variant := b.config.Handlers.Variant(answer.Type)
	if variant == nil { // an edit of the type could cause this, but it would have drawn a new revision
		b.end(r, taskdb.Released(r.Claim, "this node has no handler for type "+answer.Type))
		return served
	}
	leaseEnd, why := b.leaseFor(r, answer, gateAt)
	if why == "" && !b.alive() {
		why = "the node lost touch with the database"
	}
	if why != "" {
		b.end(r, taskdb.Released(r.Claim, why))
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

// leaseFor returns the end of the attempt's lease. The lease must outlive the handler's time by a margin. If the task
// has waited so long that the lease is too short, leaseFor extends it. If that fails, why gives the reason, and the
// task must not start.
func (b *batch) leaseFor(r *run, answer taskdb.GateAnswer, gateAt time.Time) (end time.Time, why string) {
	expected := time.Duration(answer.Expected * float64(time.Second))
	end = gateAt.Add(time.Duration(answer.Lease * float64(time.Second)))
	if needed := expected + b.config.leaseMargin() + gateValid; time.Until(end) >= needed {
		return end, ""
	}
	asked := time.Now()
	extended, err := b.extend([]taskdb.Claim{r.Claim}, nil)
	if err != nil {
		b.log.Warn("lease not extended",
			"task", r.ID, "type", answer.Type, "revision", r.Revision, "attempt", r.Attempt, "error", err)
		return end, "the node lost touch with the database"
	}
	lease, done := extended[r.Fence]
	if !done {
		return end, "its lease is too short, and its row is locked"
	}
	return asked.Add(lease), ""
}

// leaseMargin is how long the lease outlives the handler's context, so that the outcome of a handler that obeys its
// context is recorded before the claim counts as lost. It is at most half of the start allowance, because the task
// needs the other half to wait for its start.
func (c Config) leaseMargin() time.Duration { return min(5*time.Second, c.StartAllowance/2) }

// running is an attempt under way.
type running struct {
	*run
	execution *handlers.Execution
	ctx       *leaseContext
	began     time.Time
	done      chan attempted
}

// begin starts the handler on a goroutine of its own.
func (b *batch) begin(
	r *run, variant *handlers.Variant, answer taskdb.GateAnswer, gateAt, leaseEnd time.Time,
) *running {
	e := answer.Execution(r.Claim)
	ctx := withLease(b.tracing.begin(b.handlers, e), leaseEnd.Add(-b.config.leaseMargin()), leaseEnd)
	ctx.expected = time.Duration(answer.Expected * float64(time.Second))
	r.begins(ctx, e)
	e.WithExtend(func(_ context.Context, d time.Duration) error { return b.extendRunning(ctx, r, d) })
	b.log.DebugContext(ctx, "task starts", "task", e.ID, "type", e.Type, "revision", e.Revision, "attempt", e.Attempt)
	started := &running{run: r, execution: e, ctx: ctx, began: time.Now(), done: make(chan attempted, 1)}
	go b.attempt(ctx, r, variant, e, gateAt, started.done)
	return started
}

// finish has the outcome of an attempt recorded.
func (b *batch) finish(r *running, ended attempted) {
	defer r.ctx.close()
	e := r.execution
	if ended.refused != nil {
		if b.refuse(r.run, *ended.refused) {
			b.end(r.run, taskdb.Released(r.Claim, "not due yet"))
		}
		return
	}
	took := time.Since(r.began)
	b.averages.observe(e.Type, took)
	b.tally.ran(took)
	if ended.settled {
		outcome := taskdb.OutcomeCompleted
		if r.outdated {
			outcome = taskdb.OutcomeSuperseded
		}
		b.tally.recorded(outcome)
		b.log.DebugContext(r.ctx, "task COMPLETED", "task", e.ID, "type", e.Type,
			"revision", e.Revision, "attempt", e.Attempt, "outcome", taskdb.OutcomeCompleted)
		b.drop(r.run)
		return
	}
	b.end(r.run, ended.Settlement)
}

// attempted is the result of an attempt.
type attempted struct {
	taskdb.Settlement
	settled bool               // a transactional handler's own transaction has recorded the outcome
	refused *taskdb.GateAnswer // the attempt did not begin, because the gate, asked again after a wait, refused it
}

// attempt runs the handler on the current goroutine, which the handler may end by Goexit.
func (b *batch) attempt(
	ctx *leaseContext,
	r *run,
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
	call(ctx, func(ctx context.Context) (err error) {
		ended.settled, ended.refused, err = b.perform(ctx, r, variant, e, gateAt)
		return err
	}, func(err error) {
		ended.Settlement = decideOutcome(r.Claim, e, err, causeOf(ctx), safely(backoff))
		b.tracing.end(ctx, ended, err)
		done <- ended
	})
}

// perform decodes the payload and runs the handler. It reports whether the task is settled already. If it had to ask
// the gate again and the gate refused, it returns the answer.
func (b *batch) perform(
	ctx context.Context, r *run, variant *handlers.Variant, e *handlers.Execution, gateAt time.Time,
) (settled bool, refused *taskdb.GateAnswer, err error) {
	if err := decodePayload(ctx, b.config.Codec, e); err != nil {
		return false, nil, err
	}
	if variant.Kind != handlers.KindPlain {
		return b.attemptTx(ctx, r, variant, e, gateAt)
	}
	if b.config.Codec != nil && time.Since(gateAt) > gateValid { // the codec may have asked a slow service for its key
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

// safely keeps a backoff that panics from ending the process. DefaultBackoff takes its place.
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

// extendRunning does the work of Execution.Extend.
func (b *batch) extendRunning(ctx *leaseContext, r *run, d time.Duration) error {
	if cause := causeOf(ctx); cause != nil {
		return fmt.Errorf("extend task %s: %w", r.ID, cause)
	}
	d = min(d, store.MaxExpectedExecutionTime)
	return b.extendLease(ctx, r, &d)
}

// extend makes leases longer. If an application has locked a row, the claim keeps the lease that it has.
func (w *worker) extend(holds []taskdb.Claim, d *time.Duration) (map[int64]time.Duration, error) {
	ctx, cancel := context.WithTimeout(w.settling, answerLimit)
	defer cancel()
	return w.statements.Extend(ctx, w.enginePool, holds, w.config.StartAllowance, d)
}

// extendLease makes the handler's context last at least d from now, and the lease longer than that by the start
// allowance. If d is nil, it uses the time that the task is expected to run.
func (b *batch) extendLease(ctx *leaseContext, r *run, d *time.Duration) error {
	asked := time.Now()
	extended, err := b.extend([]taskdb.Claim{r.Claim}, d)
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
	if !ctx.extend(deadline, asked.Add(lease)) { // the context ended while the database answered
		return fmt.Errorf("extend task %s: %w", r.ID, causeOf(ctx))
	}
	return nil
}
