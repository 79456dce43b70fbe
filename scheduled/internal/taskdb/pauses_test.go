package taskdb_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/outcome"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// resumesAt resumes what was paused until then, and returns how many tasks that were.
func (b *bench) resumesAt(now time.Time) (resumed int) {
	b.T.Helper()
	b.InTx(func(tx pgx.Tx) {
		b.Did(tx.Exec(b.T.Context(), "SET LOCAL lock_timeout = '5s'"))
		var err error
		if resumed, err = b.ResumeDue(b.T.Context(), tx, &now); err != nil {
			b.T.Fatal(err)
		}
	})
	return resumed
}

func (b *bench) pauseUntil(id string, until time.Time) {
	b.T.Helper()
	if receipt, err := enginetest.Tasks.PauseUntil(b.T.Context(), b.Pool, id, until); err != nil ||
		receipt.Outcome != store.Paused {
		b.T.Fatalf("pause %s: %+v, %v", id, receipt, err)
	}
}

// A pause is no edit. So a task that is to be retried keeps its attempts and the time of its retry, also if it was
// paused while the attempt ran. An edit begins anew.
func TestPauseKeepsTheRetry(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{"waits", "runs", "snoozes", "edited"} {
		b.Due(id)
	}
	pause := func(id string) { b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, id)) }
	taken := b.Take(noon)
	snoozed := enginetest.Retried(taken["snoozes"], time.Hour, "later")
	snoozed.Outcome, snoozed.Refund = taskdb.OutcomeSnoozed, true
	pause("runs")
	b.End(noon, enginetest.Retried(taken["waits"], time.Hour, "no"), enginetest.Retried(taken["runs"], time.Hour, "no"),
		snoozed, enginetest.Retried(taken["edited"], time.Hour, "no"))
	for id := range taken {
		pause(id)
		if id == "edited" {
			b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 5 WHERE id = $1`, id)
		}
		b.Did(enginetest.Tasks.Resume(t.Context(), b.Pool, id))
	}
	for id, want := range map[string]string{
		"waits": "1 in 01:00:00", "runs": "1 in 01:00:00", "snoozes": "0 in 01:00:00", "edited": "0 in 00:00:00",
	} {
		if got := enginetest.Ask[string](b.Bench, `SELECT attempt || ' in ' || greatest(next_attempt_at - $2, '0')
			FROM tasktable.scheduled_tasks WHERE id = $1`, id, noon); got != want {
			t.Errorf("%s: %s, not %s", id, got, want)
		}
	}
}

// A task that was paused until a time is queued again at it, for its own time.
func TestResumeDue(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{"until one", "until two", "for ever", "resumed", "cancelled", "edited"} {
		b.Due(id)
		if id == "for ever" {
			b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, id))
			continue
		}
		until := noon.Add(time.Hour)
		if id == "until two" {
			until = noon.Add(2 * time.Hour)
		}
		b.pauseUntil(id, until)
	}
	b.Did(enginetest.Tasks.Resume(t.Context(), b.Pool, "resumed"))
	b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, "cancelled"))
	b.Did(enginetest.Tasks.Reschedule(t.Context(), b.Pool, "edited", noon.Add(3*time.Hour)))
	if taken := b.Take(noon.Add(30 * time.Minute)); len(taken) != 1 || taken["resumed"].Fence == 0 {
		t.Errorf("claimed %v", taken)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{time.Hour - time.Microsecond, 0}, {time.Hour, 2}, {time.Hour, 0}, {3 * time.Hour, 1}, {1000 * time.Hour, 0}} {
		if n := b.resumesAt(noon.Add(step.after)); n != step.want {
			t.Errorf("%s after noon: %d resumed, want %d", step.after, n, step.want)
		}
	}
	b.Expect("its pause has ended", "until one", `
		QUEUED rev=3 attempt=0 scheduled=noon next=noon
		1 schedule created by test
		2 pause paused by test
		3 resume queued by tester`)
	b.Expect("edited while it was paused", "edited", `
		QUEUED rev=4 attempt=0 scheduled=3h0m0s next=3h0m0s
		1 schedule created by test
		2 pause paused by test
		3 reschedule rescheduled by test
		4 resume queued by tester`)
	b.Expect("not until a time", "for ever", `
		PAUSED rev=2 attempt=0 scheduled=noon
		1 schedule created by test
		2 pause paused by test`)
	b.Expect("cancelled meanwhile", "cancelled", `
		CANCELLED rev=3 attempt=0 scheduled=noon finished=real
		1 schedule created by test
		2 pause paused by test
		3 cancel cancelled by test`)
}

// A pause that is changed ends when it was last said to.
func TestResumeDueAfterAChange(t *testing.T) {
	b := newBench(t)
	b.Due("later", "never", "after all")
	b.pauseUntil("later", noon.Add(time.Hour))
	b.pauseUntil("later", noon.Add(2*time.Hour))
	b.pauseUntil("never", noon.Add(time.Hour))
	b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, "never"))
	b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, "after all"))
	b.pauseUntil("after all", noon.Add(time.Hour))
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{time.Hour, "[after all]"}, {2 * time.Hour, "[later]"}, {200 * time.Hour, "[]"}} {
		b.resumesAt(noon.Add(step.after))
		got := []string{}
		for id := range b.Take(noon.Add(step.after)) {
			got = append(got, id)
		}
		if fmt.Sprint(got) != step.want {
			t.Errorf("%s after noon: claimed %v, want %s", step.after, got, step.want)
		}
	}
}

// A task that somebody has locked is resumed later, and holds up no other task. Many tasks are resumed in steps.
func TestResumeDueOfManyAndLocked(t *testing.T) {
	b := newBench(t)
	for i := range taskdb.MaxResumed + 20 {
		b.Due(fmt.Sprint(i))
	}
	b.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'PAUSED', paused_until = $1`, noon)
	unlock := enginetest.Lock(t, b.Pool, "7")
	if first, second, third := b.resumesAt(noon), b.resumesAt(noon),
		b.resumesAt(noon); first != taskdb.MaxResumed || second != 19 ||
		third != 0 {
		t.Errorf("resumed %d, %d, %d", first, second, third)
	}
	unlock()
	if n := b.resumesAt(noon); n != 1 {
		t.Errorf("resumed %d, unlocked", n)
	}
	if n := len(b.Take(noon)); n != taskdb.MaxResumed+20 {
		t.Errorf("claimed %d", n)
	}
}

// A recurring task does not fire by being resumed.
func TestResumeDueOfARecurringTask(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "@hourly", noon, nil)
	b.Fires(noon)
	b.pauseUntil("tick", noon.Add(90*time.Minute))
	if n := b.Fires(noon.Add(time.Hour)); n != 0 {
		t.Errorf("looked at %d that are paused", n)
	}
	b.resumesAt(noon.Add(90 * time.Minute))
	// As of the bench's clock.
	b.Exec(
		`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE id = 'tick'`,
		noon.Add(90*time.Minute),
	)
	b.Fires(noon.Add(91 * time.Minute))
	b.Recurs("resumed", "tick", `
		QUEUED count=1 next=2h0m0s last=1h0m0s
		noon QUEUED
		1h0m0s SKIPPED missed while paused, and catch_up_paused is none`)
}

// What is paused between claim and gate does not start; it starts when no pause of it holds.
func TestGateWhilePaused(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	for _, test := range []struct {
		scope, name string
		ends        *time.Time
		want        string
	}{
		{"all", "", nil, taskdb.VerdictPaused},
		{"queue", "default", nil, taskdb.VerdictPaused},
		{"type", "JOB", nil, taskdb.VerdictPaused},
		{"queue", "job", nil, taskdb.VerdictGo},
		{"type", "default", nil, taskdb.VerdictGo},
		{"queue", "other", nil, taskdb.VerdictGo},
		{"all", "", new(noon.Add(time.Microsecond)), taskdb.VerdictPaused},
		{"all", "", new(noon), taskdb.VerdictGo},
	} {
		b.Exec(`INSERT INTO tasktable.pauses (scope, name, ends_at)
			VALUES ($1, $2, $3)`, test.scope, test.name, test.ends)
		if got := b.Ask(noon, h)[h.Fence].Verdict; got != test.want {
			t.Errorf("while %s %s is paused until %v: %s, want %s", test.scope, test.name, test.ends, got, test.want)
		}
		b.Exec(`DELETE FROM tasktable.pauses`)
	}
	// One that was cancelled is that in the first place: it is not to wait for the pause's end.
	b.Exec(`INSERT INTO tasktable.pauses (scope) VALUES ('all')`)
	b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, "a"))
	if got := b.Ask(noon, h)[h.Fence].Verdict; got != taskdb.VerdictEdited {
		t.Errorf("cancelled while paused: %s", got)
	}
}

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
