package worker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// GateValid is how old the answer of the gate may be when the handler is called. It is also how long a task may run
// before the rest of its batch goes on in another slot.
const GateValid = 250 * time.Millisecond

// stale reports whether an answer of the gate is too old, so that no handler may be called because of it. gateAt is
// when the gate counts as passed. It is measured in gatepace.go (instant).
func stale(gateAt time.Time) bool { return time.Since(gateAt) > GateValid }

// gateAsk is a question to the gate by one batch. Questions that arrive together share one read.
type gateAsk struct {
	holds  []taskdb.Claim
	known  map[int64]string // payloads from earlier answers, by fence
	bytes  int              // about how many bytes the other payloads have together
	answer chan gateAnswer
}

func (a *gateAsk) weight() int { return max(len(a.holds), a.bytes>>10) }

// gateAnswer has the time of the gate's answer, by this process's clock. rows is nil if the database did not answer.
type gateAnswer struct {
	rows map[int64]taskdb.GateAnswer
	at   time.Time
}

// ask puts tasks to the gate, together with the questions that other batches ask at the same time.
func (b *batch) ask(runs []*Run) gateAnswer {
	question := &gateAsk{answer: make(chan gateAnswer, 1), holds: make([]taskdb.Claim, 0, len(runs))}
	for _, r := range runs {
		question.holds = append(question.holds, r.Claim)
		if r.payload != nil {
			if question.known == nil {
				question.known = map[int64]string{}
			}
			question.known[r.Fence] = *r.payload
		}
	}
	question.bytes = (len(runs) - len(question.known)) * b.pace.payload(b.kind)
	select {
	case b.gates.In <- question:
	case <-b.settling.Done():
		return gateAnswer{}
	}
	select {
	case answer := <-question.answer:
		b.measure(runs, answer)
		return answer
	case <-b.settling.Done():
		return gateAnswer{}
	}
}

// measure notes how large the payloads were, so that later questions have a sensible size.
func (b *batch) measure(runs []*Run, answer gateAnswer) {
	if answer.rows == nil || len(runs) == 0 {
		return
	}
	bytes := 0
	for _, r := range runs {
		bytes += len(answer.rows[r.Fence].Payload)
	}
	b.pace.saw(b.kind, bytes/len(runs))
}

// part is how many of the due tasks share the next question to the gate.
func (b *batch) part(due int) int {
	average, measured := b.Averages.of(b.kind)
	return partOf(due, average, measured, b.pace.payload(b.kind), b.pace.limit())
}

// keepPayloads keeps the payloads of an answer that came too late, so that the next question need not read them
// again.
func keepPayloads(runs []*Run, late gateAnswer) {
	for _, r := range runs {
		if answer := late.rows[r.Fence]; answer.Verdict == taskdb.VerdictGo {
			r.payload = &answer.Payload
		}
	}
}

// answerGates puts all the questions that have arrived to the database at once. If the database does not answer, each
// batch asks again.
func (w *Worker) answerGates(ctx context.Context, asked []*gateAsk) {
	var holds []taskdb.Claim
	known := map[int64]string{}
	bytes := 0
	for _, question := range asked {
		holds = append(holds, question.holds...)
		maps.Copy(known, question.known)
		bytes += question.bytes
	}
	limited, cancel := context.WithTimeout(ctx, limitFor(bytes))
	defer cancel()
	answer, err := w.gate(limited, holds, known)
	w.config.Heard(err)
	if err != nil {
		w.pace.silent()
		w.config.Log.Warn("the gate did not answer; asking again", "tasks", len(holds), "error", err)
		select { // after a pause, because the database may need a moment
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	for _, question := range asked {
		question.answer <- answer
	}
}

// gate takes its connection before it notes the time, so that the wait for a connection does not make the answer
// older.
func (w *Worker) gate(ctx context.Context, holds []taskdb.Claim, known map[int64]string) (gateAnswer, error) {
	conn, err := w.config.EnginePool.Acquire(ctx)
	if err != nil {
		return gateAnswer{}, fmt.Errorf("connect to ask the gate: %w", err)
	}
	defer conn.Release()
	asked := time.Now()
	rows, err := w.gateEach(ctx, conn, holds, known)
	w.config.Metrics.GateTook.Observe(time.Since(asked).Seconds())
	if err != nil {
		return gateAnswer{}, err
	}
	return gateAnswer{rows: rows, at: w.pace.instant(asked, time.Now())}, nil
}

const (
	verdictBroken = "broken"         // the task cannot be read
	verdictNoTx   = "no transaction" // the handler's transaction failed before the handler began
	verdictHalted = "halted"         // the node is quiet, or stops
)

// gateTries is how many times a stale answer is asked for again. A few suffice, because in the end the pace takes slow
// answers for young ones.
const gateTries = 100

// gateEach asks the gate. It refuses only the tasks that cannot be read. The other tasks get their answers.
func (w *Worker) gateEach(
	ctx context.Context, conn pg.DB, holds []taskdb.Claim, known map[int64]string,
) (map[int64]taskdb.GateAnswer, error) {
	answers := map[int64]taskdb.GateAnswer{}
	err := pg.Isolate(holds, func(some []taskdb.Claim) error {
		found, err := w.config.Statements.Gate(ctx, conn, nil, some, known)
		switch {
		case err != nil:
			return err
		case len(answers) == 0: // nearly always, and then nothing is copied
			answers = found
		default:
			maps.Copy(answers, found)
		}
		return nil
	}, func(one taskdb.Claim, err error) error {
		answers[one.Fence] = taskdb.GateAnswer{Fence: one.Fence, Verdict: verdictBroken, Payload: err.Error()}
		return nil
	})
	return answers, err
}

// gateAgain asks the gate once more, as the last step before the handler, because the first answer has become stale. It
// asks in the handler's own transaction, or on the engine's pool if the handler takes no transaction. It asks again
// until an answer is young enough and the lease is long enough, up to gateTries times. It returns an answer that does
// not let the task through, or nil.
func (b *batch) gateAgain(
	ctx context.Context, tx pg.DB, r *Run, e *handlers.Execution,
) (refused *taskdb.GateAnswer) {
	lease, _ := ctx.(*leaseContext) // nil: the context of a test
	for range gateTries {
		if lease.short(GateValid) { // the wait must not take time from the handler
			if err := b.extendLease(lease, r, nil); err != nil {
				return &taskdb.GateAnswer{Verdict: verdictNoTx, Payload: err.Error()}
			}
		}
		asked := time.Now()
		now, err := databaseTime(ctx, tx) // the transaction's own time is too old
		if err != nil {
			return &taskdb.GateAnswer{Verdict: verdictNoTx, Payload: err.Error()}
		}
		answers, err := b.config.Statements.Gate(ctx, tx, &now, []taskdb.Claim{r.Claim}, map[int64]string{r.Fence: ""})
		if err != nil {
			return &taskdb.GateAnswer{Verdict: verdictNoTx, Payload: err.Error()}
		}
		answer := answers[r.Fence]
		if answer.Verdict != taskdb.VerdictGo {
			return &answer
		}
		r.restarts(e, answer.Now)
		if why := b.halted(); why != "" { // the node may have begun to stop meanwhile
			return &taskdb.GateAnswer{Verdict: verdictHalted, Payload: why}
		}
		if !stale(b.pace.instant(asked, time.Now())) && !lease.short(0) {
			return nil
		}
	}
	return &taskdb.GateAnswer{Verdict: verdictNoTx, Payload: "the database answers too slowly"}
}

// databaseTime returns the database's time, before the snapshot of the next statement is taken.
func databaseTime(ctx context.Context, tx pg.DB) (time.Time, error) {
	return pg.QueryOne[time.Time](ctx, tx, "ask the time", "SELECT clock_timestamp()")
}

// checkWaiting asks the gate about a task whose row has changed before the task was due or had a slot. It ends the
// claim if the row no longer belongs to this attempt.
func (b *batch) checkWaiting(r *Run) {
	asked := b.ask([]*Run{r})
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
func (b *batch) refuse(r *Run, answer taskdb.GateAnswer) (waits bool) {
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
		b.end(r, taskdb.Released(r.Claim, sanitize.Text("the handler could not begin: "+answer.Payload)))
	case verdictBroken:
		s := taskdb.Released(r.Claim, "the task cannot be read: "+answer.Payload)
		s.Outcome, s.To, s.NextAt = taskdb.OutcomeFailed, "FAILED", nil
		s.Error = new(sanitize.Text(*s.Error))
		s.Message = s.Error
		b.end(r, s)
	default: // the claim belongs to another holder by now, so there is nothing to settle
		b.drop(r)
	}
	return false
}
