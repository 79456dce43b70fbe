package taskdb_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/outcome"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// paused pauses a claimed task, which must not draw a revision.
func (b *bench) paused(h taskdb.Claim, until time.Time) {
	b.T.Helper()
	pause := func() (store.Receipt, error) { return store.New(store.Config{}).Pause(b.T.Context(), b.Pool, h.ID) }
	if !until.IsZero() {
		pause = func() (store.Receipt, error) {
			return store.New(store.Config{}).PauseUntil(b.T.Context(), b.Pool, h.ID, until)
		}
	}
	if receipt, err := pause(); err != nil || receipt.Outcome != store.Paused || receipt.Revision != h.Revision {
		b.T.Fatalf("pause: %+v, %v", receipt, err)
	}
}

func (b *bench) row(id string) store.Row {
	b.T.Helper()
	row, err := store.New(store.Config{}).Get(b.T.Context(), b.Pool, id)
	b.OK(err)
	return row
}

// A claimed task that is paused does not pass the gate: it goes back, stays PAUSED, and has used no attempt.
func TestTheGateHonoursThePauseOfAClaimedTask(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{ID: "a", Payload: job{Name: "n"}})
	b.paused(h, time.Time{})
	if answer := b.Ask(noon, h)[h.Fence]; answer.Verdict != taskdb.VerdictEdited {
		t.Fatalf("the gate says %+v", answer)
	}
	b.End(noon, taskdb.Released(h, "paused"))
	if row := b.row("a"); row.Status != store.StatusPaused || row.Fence != nil || row.Attempt != 0 {
		t.Errorf("the row is %+v", row)
	}
	if receipt, err := store.New(store.Config{}).Resume(b.T.Context(), b.Pool, "a"); err != nil ||
		receipt.Outcome != store.Queued {
		t.Fatalf("resume: %+v, %v", receipt, err)
	}
	if again := b.Take(noon); len(again) != 1 {
		t.Errorf("claimed again: %v", again)
	}
}

// A pause that ends before the claim does lets the claim go on.
func TestAResumedClaimPassesTheGate(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{ID: "a", Payload: job{Name: "n"}})
	b.paused(h, time.Time{})
	receipt, err := store.New(store.Config{}).Resume(b.T.Context(), b.Pool, "a")
	if err != nil || receipt.Outcome != store.Queued || receipt.Revision != h.Revision {
		t.Fatalf("resume: %+v, %v", receipt, err)
	}
	if answer := b.Ask(noon, h)[h.Fence]; answer.Verdict != taskdb.VerdictGo {
		t.Errorf("the gate says %+v", answer)
	}
	if row := b.row("a"); row.Status != store.StatusExecuting {
		t.Errorf("the row is %s", row.Status)
	}
	history, err := store.New(store.Config{}).History(b.T.Context(), b.Pool, "a")
	b.OK(err)
	var told []string
	for _, change := range history.Changes {
		told = append(told, change.Verb+" "+change.Outcome)
	}
	if len(told) != 3 || told[1] != "pause paused" || told[2] != "resume queued" {
		t.Errorf("the change lines are %v", told)
	}
}

// An attempt that has begun ends as it would: its outcome counts. What would have run again waits for the resume.
func TestTheAttemptOfAPausedTaskIsRecorded(t *testing.T) {
	t.Parallel()
	again := func(e *handlers.Execution) { e.Again(noon.Add(time.Hour)) }
	for name, test := range map[string]struct {
		do      func(*handlers.Execution)
		err     error
		outcome store.AttemptOutcome
		status  store.Status
		attempt int
	}{
		"completed": {outcome: taskdb.OutcomeCompleted, status: store.StatusCompleted, attempt: 1},
		"failed":    {err: errors.New("no"), outcome: taskdb.OutcomeRetried, status: store.StatusPaused, attempt: 1},
		"for good": {
			err: handlers.Permanent(errors.New("no")), outcome: taskdb.OutcomeFailed, status: store.StatusFailed,
			attempt: 1,
		},
		"snoozed": {err: handlers.Snooze(time.Minute), outcome: taskdb.OutcomeSnoozed, status: store.StatusPaused},
		"again":   {do: again, outcome: taskdb.OutcomeCompleted, status: store.StatusPaused},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			h := b.TakeOne(store.Task{ID: "a", Payload: job{Name: "n"}})
			answer := b.Ask(noon, h)[h.Fence]
			e := answer.Execution(h)
			until := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
			b.paused(h, until)
			if test.do != nil {
				test.do(e)
			}
			b.End(
				noon,
				outcome.Decide(h, e, test.err, nil, func(int, error) time.Duration { return time.Second }),
			)
			row := b.row("a")
			if row.Status != test.status || row.Fence != nil || row.NextAttemptAt != nil ||
				row.Attempt != test.attempt {
				t.Errorf("the row is %+v", row)
			}
			if (row.PausedUntil != nil) != (test.status == store.StatusPaused) {
				t.Errorf("it is %s, and paused until %v", row.Status, row.PausedUntil)
			}
			history, err := store.New(store.Config{}).History(b.T.Context(), b.Pool, "a")
			b.OK(err)
			if len(history.Executions) != 1 || history.Executions[0].Outcome != test.outcome ||
				history.Executions[0].Revision != h.Revision {
				t.Errorf("the executions are %+v", history.Executions)
			}
		})
	}
}

// A claimed task is paused until a time, and then fails because its claim cannot be settled. It stays a dead letter
// when that time comes.
func TestTheEndOfAPauseResumesNoDeadLetter(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{ID: "a", Payload: job{Name: "n"}})
	b.paused(h, noon.Add(time.Hour))
	failHeld(b, h)
	if row := b.row("a"); row.Status != store.StatusFailed || row.PausedUntil != nil {
		t.Errorf("it is %s, and paused until %v", row.Status, row.PausedUntil)
	}
	if n := b.resumesAt(noon.Add(2 * time.Hour)); n != 0 {
		t.Errorf("%d resumed", n)
	}
	if row := b.row("a"); row.Status != store.StatusFailed {
		t.Errorf("after the pause it is %s", row.Status)
	}
}
