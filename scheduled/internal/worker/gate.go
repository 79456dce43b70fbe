package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// maxGateAsks is the greatest weight of a read of the gate: this many tasks, or this many kilobytes of payload. A
// larger read would take so long that the answer is too old for the last tasks.
const maxGateAsks = 1000

// stale reports whether an answer of the gate is too old, so that no handler may be called because of it. asked is
// when the gate was asked, by this process's clock.
func (w *Worker) stale(asked time.Time) bool { return time.Since(asked) > w.trip.valid() }

// gateAsk is a question to the gate by one batch. Questions that arrive together share one read.
type gateAsk struct {
	claims []taskdb.Claim
	bytes  int // about how many bytes their payloads have together
	answer gateAnswer
}

func (a *gateAsk) weight() int { return max(len(a.claims), a.bytes>>10) }

// gateAnswer is the answer to a question.
type gateAnswer struct {
	// By fence. A claim that is no longer there has an answer without a verdict. nil: the database did not answer.
	rows  map[int64]taskdb.GateAnswer
	asked time.Time // by this process's clock
}

// gate returns the gate's answer for the task r, which is due. It asks together about as many of the tasks behind it
// as will begin while the answer is valid. If the database does not answer, it asks again until the node stops.
func (b *batch) gate(r *run) taskdb.GateAnswer {
	answer, asked := b.answers.rows[r.Fence]
	for !asked || b.stale(b.answers.asked) {
		if why := b.halted(); why != "" {
			return taskdb.GateAnswer{Verdict: verdictHalted, Payload: why}
		}
		about := b.averages.of(b.kind)
		part := partOf(1+b.due(), about, b.gateSize.Now())
		question := &gateAsk{claims: claimsOf(append([]*run{r}, b.runs[:part-1]...)), bytes: about.payload * part}
		if !b.gates.Do(b.settling, question) || question.answer.rows == nil {
			continue
		}
		b.answers = question.answer
		read := 0
		for _, claim := range question.claims {
			read += len(b.answers.rows[claim.Fence].Payload)
		}
		b.averages.observePayload(b.kind, read/part)
		// However old the answer is: the attempt looks at that, and asks again about this task alone.
		return b.answers.rows[r.Fence]
	}
	return answer
}

// partOf is how many of the due tasks of a batch share a question. It is as many as one slot begins while the answer
// is valid, and at most as many as a read may have. If nobody has measured how long their handlers take, each question
// is about one task, and batches of this type have one task too.
func partOf(due int, about average, limit int) int {
	if !about.measured() {
		return 1
	}
	part := due
	if about.value > 0 {
		part = int(min(int64(due), int64(gateValid/about.value)))
	}
	return max(1, min(part, limit/max(1, about.payload>>10)))
}

// answerGates puts all the questions that have arrived to the database at once. If the database does not answer, each
// batch asks again.
func (w *Worker) answerGates(ctx context.Context, asked []*gateAsk) {
	var claims []taskdb.Claim
	bytes := 0
	for _, question := range asked {
		claims = append(claims, question.claims...)
		bytes += question.bytes
	}
	limited, cancel := context.WithTimeout(ctx, limitFor(bytes))
	defer cancel()
	answer, err := w.readGate(limited, claims)
	w.config.Answered(err)
	if err != nil {
		w.gateSize.Shrink(w.gateSize.Now())
		w.config.Log.Warn("the gate did not answer; asking again", "tasks", len(claims), "error", err)
		select { // after a pause, because the database may need a moment
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	for _, question := range asked {
		question.answer = answer
	}
}

// readGate asks the gate, by Queries.Gate, on a connection of its own. It refuses only the tasks that cannot be read.
// The other tasks get their answers. Reads that take long become smaller. The cause may be a busy database, a slow link
// or large payloads.
func (w *Worker) readGate(ctx context.Context, claims []taskdb.Claim) (gateAnswer, error) {
	conn, err := w.config.EnginePool.Acquire(ctx)
	if err != nil {
		return gateAnswer{}, fmt.Errorf("connect to ask the gate: %w", err)
	}
	defer conn.Release()
	asked := time.Now() // only now, so that the wait for a connection does not make the answer older
	answers := map[int64]taskdb.GateAnswer{}
	err = pg.Isolate(pg.IsDataError, claims, func(some []taskdb.Claim) error {
		found, err := w.config.Statements.Gate(ctx, conn, nil, some, true)
		switch {
		case err != nil:
			return err
		case len(answers) == 0: // nearly always, and then nothing is copied
			answers = found
		default:
			maps.Copy(answers, found)
		}
		return nil
	}, func(claim taskdb.Claim, err error) error {
		answers[claim.Fence] = taskdb.GateAnswer{Fence: claim.Fence, Verdict: verdictBroken, Payload: err.Error()}
		return nil
	})
	took := time.Since(asked)
	w.config.Metrics.GateTook.Observe(took.Seconds())
	if err != nil {
		return gateAnswer{}, err
	}
	for _, claim := range claims {
		if _, there := answers[claim.Fence]; !there {
			answers[claim.Fence] = taskdb.GateAnswer{}
		}
	}
	w.trip.took(took, time.Now())
	w.gateSize.Pace(took, gateValid/2)
	return gateAnswer{rows: answers, asked: asked}, nil
}

const (
	verdictBroken   = "broken"    // the task cannot be read
	verdictNotReady = "not ready" // what the handler needs failed before the handler began
	verdictHalted   = "halted"    // the node is quiet, or stops
)

// refusal is the error of an attempt whose handler was not called, because the gate, asked again, refused it.
type refusal struct{ taskdb.GateAnswer }

func (r *refusal) Error() string { return r.Verdict + ": " + r.Payload }

// notReady is the refusal of an attempt whose handler could not be called.
func notReady(err error) error {
	return &refusal{taskdb.GateAnswer{Verdict: verdictNotReady, Payload: err.Error()}}
}

// gateTries is how many times a stale answer is asked for again. A few suffice, because a link that stays slow makes
// answers valid for longer.
const gateTries = 100

// gateAgain asks the gate once more, as the last step before the handler, because the first answer has become stale. It
// asks in the handler's own transaction, or on the engine's pool if the handler takes no transaction. It asks again
// until an answer is young enough, up to gateTries times. If the lease is too short by now, it extends it. It returns a
// refusal if the handler may not be called.
func (a *attempt) gateAgain(ctx context.Context, tx pg.DB) error {
	for range gateTries {
		if a.lease.short(gateValid) { // the wait must not take time from the handler
			if err := a.extend(nil); err != nil {
				return notReady(err)
			}
		}
		asked := time.Now()
		// The transaction's own time is too old. This is a statement of its own, because the time must be earlier than
		// the snapshot of the next one.
		now, err := pg.QueryOne[time.Time](ctx, tx, "ask the time", "SELECT clock_timestamp()")
		if err != nil {
			return notReady(err)
		}
		a.trip.took(time.Since(asked), time.Now())
		answers, err := a.config.Statements.Gate(ctx, tx, &now, []taskdb.Claim{a.run.Claim}, false)
		if err != nil {
			return notReady(err)
		}
		answer := answers[a.run.Fence]
		if answer.Verdict != taskdb.VerdictGo {
			return &refusal{answer}
		}
		if why := a.halted(); why != "" { // the node may have begun to stop meanwhile
			return &refusal{taskdb.GateAnswer{Verdict: verdictHalted, Payload: why}}
		}
		if !a.stale(asked) && !a.lease.short(0) { // the extension may have taken long
			a.execution.StartedAt = answer.Now
			return nil
		}
	}
	return notReady(errors.New("the database answers too slowly"))
}

// maxEarly is how long a claimed task may wait on a node until it is due. It is the longest look-ahead and a little
// more. A row may name a much later time if somebody moved the task with the triggers switched off. The time may also
// be much later because the database's clock was set back. Such a task goes back to the queue, because it would occupy
// one of River's workers.
const maxEarly = 15 * time.Second

// refuse ends a claim that the gate did not let through.
func (j *job) refuse(r *run, answer taskdb.GateAnswer) {
	if s, is := taskdb.Refused(r.Claim, answer); is {
		j.end(r, s)
		return
	}
	switch answer.Verdict {
	case verdictHalted:
		j.end(r, taskdb.Released(r.Claim, answer.Payload))
	case verdictNotReady:
		j.wait(nil, nil, notReadyRest)
		j.end(r, taskdb.Released(r.Claim, sanitize.Text("the handler could not begin: "+answer.Payload)))
	case verdictBroken:
		s := taskdb.Released(r.Claim, "the task cannot be read: "+answer.Payload)
		s.Outcome, s.To, s.NextAt = taskdb.OutcomeFailed, "FAILED", nil
		s.Error = new(sanitize.Text(*s.Error))
		s.Message = s.Error
		j.end(r, s)
	default: // the claim belongs to another holder by now, so there is nothing to settle
		j.drop(r)
	}
}

// notReadyRest is how long a claim whose handler could not begin keeps its places before it goes back. The task keeps
// its due time, so the leader claims it again at once. Without this rest, the node would ask a database that refuses
// connections again and again without a pause, and each refusal would write a line of history.
const notReadyRest = time.Second
