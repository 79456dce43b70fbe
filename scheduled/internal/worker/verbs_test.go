package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Each verb on a task whose handler is running: what it answers, what becomes of the run, and what becomes of the task.
func TestVerbsOnARunningTask(t *testing.T) {
	s := newBench(t)
	s.node(nil, handlers.Handle(s.HandleDeaf)) // a run ends when the test says so, whatever its context
	type outcome = store.Outcome
	verbs := map[string]func(id string) (store.Receipt, error){
		"cancel":  func(id string) (store.Receipt, error) { return s.Tasks.Cancel(t.Context(), s.Pool, id) },
		"pause":   func(id string) (store.Receipt, error) { return s.Tasks.Pause(t.Context(), s.Pool, id) },
		"resume":  func(id string) (store.Receipt, error) { return s.Tasks.Resume(t.Context(), s.Pool, id) },
		"run now": func(id string) (store.Receipt, error) { return s.Tasks.RunNow(t.Context(), s.Pool, id) },
		"retry":   func(id string) (store.Receipt, error) { return s.Tasks.Retry(t.Context(), s.Pool, id) },
		"delete":  func(id string) (store.Receipt, error) { return s.Tasks.Delete(t.Context(), s.Pool, id) },
		"later": func(id string) (store.Receipt, error) {
			return s.Tasks.Reschedule(t.Context(), s.Pool, id, time.Now().Add(time.Hour))
		},
		"now": func(id string) (store.Receipt, error) {
			return s.Tasks.Reschedule(t.Context(), s.Pool, id, time.Now())
		},
		"same": func(id string) (store.Receipt, error) {
			return s.Tasks.Schedule(t.Context(), s.Pool, store.Task{ID: id, Payload: enginetest.Job{Name: id}})
		},
		"edit": func(id string) (store.Receipt, error) {
			return s.Tasks.Schedule(t.Context(), s.Pool, store.Task{ID: id, Payload: enginetest.Job{Name: "edited"}})
		},
		"SQL pause": func(id string) (store.Receipt, error) {
			s.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'PAUSED' WHERE id = $1`, id)
			return store.Receipt{}, nil
		},
		"SQL edit": func(id string) (store.Receipt, error) {
			s.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 7 WHERE id = $1`, id)
			return store.Receipt{}, nil
		},
	}
	tests := map[string]struct {
		verbs     []string
		want      []outcome
		cancelled bool // the context ends
		runsAgain bool
		status    store.Status
	}{
		"schedule the same": {verbs: []string{"same"}, want: []outcome{store.Unchanged}, status: store.StatusCompleted},
		"edit": {
			verbs: []string{"edit"}, want: []outcome{store.Rescheduled}, runsAgain: true, status: store.StatusCompleted,
		},
		"edit by SQL": {
			verbs: []string{"SQL edit"}, want: []outcome{""}, runsAgain: true, status: store.StatusCompleted,
		},
		"move to now": {
			verbs: []string{"now"}, want: []outcome{store.Rescheduled}, runsAgain: true, status: store.StatusCompleted,
		},
		"move to later": {verbs: []string{"later"}, want: []outcome{store.Rescheduled}, status: store.StatusQueued},
		"later, then run now": {
			verbs: []string{"later", "run now"}, want: []outcome{store.Rescheduled, store.Queued}, runsAgain: true,
			status: store.StatusCompleted,
		},
		"cancel": {
			verbs: []string{"cancel"}, want: []outcome{store.Cancelled}, cancelled: true, status: store.StatusCancelled,
		},
		"cancel twice": {
			verbs: []string{"cancel", "cancel"}, want: []outcome{store.Cancelled, store.Unchanged}, cancelled: true,
			status: store.StatusCancelled,
		},
		"cancel and schedule": {
			verbs: []string{"cancel", "same"}, want: []outcome{store.Cancelled, store.Rearmed}, runsAgain: true,
			status: store.StatusCompleted,
		},
		"cancel and run now": {
			verbs: []string{"cancel", "run now"}, want: []outcome{store.Cancelled, store.Queued}, runsAgain: true,
			status: store.StatusCompleted,
		},
		"cancel and delete": {
			verbs: []string{"cancel", "delete"}, want: []outcome{store.Cancelled, store.Running}, cancelled: true,
			status: store.StatusCancelled,
		},
		"cancel and retry": {
			verbs: []string{"cancel", "retry"}, want: []outcome{store.Cancelled, store.Unchanged}, cancelled: true,
			status: store.StatusCancelled,
		},
		"pause":        {verbs: []string{"pause"}, want: []outcome{store.Paused}, status: store.StatusCompleted},
		"pause by SQL": {verbs: []string{"SQL pause"}, want: []outcome{""}, status: store.StatusCompleted},
		"edit and pause": {
			verbs: []string{"edit", "pause"}, want: []outcome{store.Rescheduled, store.Paused},
			status: store.StatusPaused,
		},
		"pause and resume": {
			verbs: []string{"SQL pause", "resume"}, want: []outcome{"", store.Queued}, status: store.StatusCompleted,
		},
		"resume": {verbs: []string{"resume"}, want: []outcome{store.Unchanged}, status: store.StatusCompleted},
		"run now": {
			verbs: []string{"run now"}, want: []outcome{store.RunsAgain}, runsAgain: true, status: store.StatusCompleted,
		},
		"retry":  {verbs: []string{"retry"}, want: []outcome{store.Unchanged}, status: store.StatusCompleted},
		"delete": {verbs: []string{"delete"}, want: []outcome{store.Running}, status: store.StatusCompleted},
		"edit and delete": {
			verbs: []string{"edit", "delete"}, want: []outcome{store.Rescheduled, store.Running}, runsAgain: true,
			status: store.StatusCompleted,
		},
	}
	running := map[string]*enginetest.Attempt{}
	for id := range tests {
		s.Add(id, nil)
	}
	for id := range tests {
		running[id] = s.Begins(id)
	}
	for id, test := range tests {
		for i, verb := range test.verbs {
			if receipt, err := verbs[verb](id); err != nil || receipt.Outcome != test.want[i] {
				t.Errorf("%s: %s says %q, %v; want %q", id, verb, receipt.Outcome, err, test.want[i])
			}
		}
	}
	for id, test := range tests {
		a := running[id]
		edited := test.want[0] != store.RunsAgain && (test.runsAgain || test.status != store.StatusCompleted)
		switch {
		case test.cancelled:
			if cause := a.Ends(t, patience); !errors.Is(cause, handlers.ErrCancelled) {
				t.Errorf("%s: the context ended by %v", id, cause)
			}
		case len(test.verbs) == 1 && a.Ctx.Err() != nil:
			t.Errorf("%s: the context ended", id)
		}
		if n := len(s.Of(id)); n != 0 {
			t.Errorf("%s: runs %d times more while it runs", id, n)
		}
		a.End <- nil
		want := []string{taskdb.OutcomeCompleted}
		if edited {
			want = []string{taskdb.OutcomeSuperseded}
		}
		if test.runsAgain {
			again := s.Begins(id)
			if again.Revision <= a.Revision || again.Attempt != 1 || again.Fence <= a.Fence {
				t.Errorf(
					"%s: ran again as revision %d after %d, attempt %d", id, again.Revision, a.Revision, again.Attempt,
				)
			}
			if edit := test.verbs[0] == "edit"; edit != (again.Payload.Name == "edited") {
				t.Errorf("%s: ran again with the payload %q", id, again.Payload.Name)
			}
			again.End <- nil
			want = append(want, taskdb.OutcomeCompleted)
		}
		s.Is(id, test.status, want...)
		s.Idle(id)
	}
}

// A cancel ends the handler's context within two seconds even if no notification comes.
func TestCancelEndsTheContextWithoutNotify(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(nil)
	s.Add("a", nil)
	a := s.Begins("a")
	s.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER task_4_update`) // what notifies
	cancelled := time.Now()
	if receipt, err := s.Tasks.Cancel(t.Context(), s.Pool, "a"); err != nil || receipt.Outcome != store.Cancelled {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if cause := a.Ends(t, patience); !errors.Is(cause, handlers.ErrCancelled) {
		t.Errorf("the context ended by %v", cause)
	}
	if took := time.Since(cancelled); took > limit(2*time.Second) {
		t.Errorf("the context ended %s after the cancel", took)
	}
	s.Is("a", store.StatusCancelled, taskdb.OutcomeSuperseded)
}

// What is edited or cancelled between claim and start is handed back at once, not at its time.
func TestEditsOfClaimedTasks(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.ahead = 10 * time.Second
	s.node(nil)
	at := time.Now().Add(8 * time.Second)
	names := []string{"cancel", "pause", "move", "sooner", "delete"}
	for _, name := range names {
		s.Add(name, func(task *store.Task) { task.At = at })
	}
	for _, name := range names {
		enginetest.Await(t, s.Pool, name, patience, store.StatusExecuting)
	}
	began := time.Now()
	if receipt, err := s.Tasks.Cancel(t.Context(), s.Pool, "cancel"); err != nil || receipt.Outcome != store.Cancelled {
		t.Errorf("%+v, %v", receipt, err)
	}
	s.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'PAUSED' WHERE id = 'pause'`)
	for name, to := range map[string]time.Time{"move": time.Now().Add(time.Hour), "sooner": time.Now()} {
		if receipt, err := s.Tasks.Reschedule(t.Context(), s.Pool, name, to); err != nil ||
			receipt.Outcome != store.Rescheduled {
			t.Errorf("%+v, %v", receipt, err)
		}
	}
	if receipt, err := s.Tasks.Delete(t.Context(), s.Pool, "delete"); err != nil || receipt.Outcome != store.Running {
		t.Errorf("%+v, %v", receipt, err)
	}
	s.Is("cancel", store.StatusCancelled, taskdb.OutcomeCancelled)
	s.Is("pause", store.StatusPaused, taskdb.OutcomeReleased)
	s.Is("move", store.StatusQueued, taskdb.OutcomeReleased)
	sooner := s.Begins("sooner")
	if late := time.Since(began); late > limit(3*time.Second) {
		t.Errorf("a task moved to now began %s later", late)
	}
	sooner.End <- nil
	s.Is("sooner", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
	s.Idle("cancel", "pause", "move")
	s.Did(s.Tasks.Cancel(t.Context(), s.Pool, "delete"))
	s.Is("delete", store.StatusCancelled, taskdb.OutcomeCancelled)
	if receipt, err := s.Tasks.Delete(t.Context(), s.Pool, "delete"); err != nil || receipt.Outcome != store.Deleted {
		t.Errorf("%+v, %v", receipt, err)
	}
}

// A claim is handed back once, however often its row is edited before that is recorded.
func TestClaimedTaskIsHandedBackOnce(t *testing.T) {
	s := newBench(t)
	s.ahead = 10 * time.Second
	s.node(nil)
	s.Add("a", func(task *store.Task) { task.At = time.Now().Add(8 * time.Second) })
	enginetest.Await(t, s.Pool, "a", patience, store.StatusExecuting)
	// Nothing can be recorded for a while.
	tx, err := s.Pool.Begin(t.Context())
	s.OK(err)
	s.Did(tx.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_task_executions IN EXCLUSIVE MODE`))
	for i := range 20 { // each is notified
		s.Exec(`UPDATE tasktable.scheduled_tasks SET priority = $1, status = 'PAUSED'`, i+1)
		s.Sees("the node hears of it", `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()
				AND wait_event_type = 'Lock'`)
	}
	s.OK(tx.Rollback(t.Context()))
	s.Is("a", store.StatusPaused, taskdb.OutcomeReleased)
	s.Add("b", nil)
	s.Begins("b").End <- nil // the node is well
	s.Is("b", store.StatusCompleted, taskdb.OutcomeCompleted)
}

// A task that is paused while it waits for a slot goes back at once, and does not start when the slot falls free.
func TestAPauseOfATaskThatWaitsForASlot(t *testing.T) {
	s := newBench(t)
	s.node(slotsOf(1))
	s.Add("first", nil)
	first := s.Begins("first")
	s.Add("second", nil)
	enginetest.Await(t, s.Pool, "second", patience, store.StatusExecuting)
	receipt, err := s.Tasks.Pause(t.Context(), s.Pool, "second")
	if err != nil || receipt.Outcome != store.Paused {
		t.Fatalf("pause: %+v, %v", receipt, err)
	}
	s.Sees("its claim goes back while the slot is taken",
		`SELECT count(*) = 1 FROM tasktable.scheduled_tasks WHERE id = 'second' AND status = 'PAUSED'
			AND fence IS NULL`)
	first.End <- nil
	s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Add("third", nil)
	s.Begins("third").End <- nil // the slot is free
	s.Is("third", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("second", store.StatusPaused, taskdb.OutcomeReleased)
	if n := len(s.Of("second")); n != 0 {
		t.Errorf("it ran %d times", n)
	}
	s.Did(s.Tasks.Resume(t.Context(), s.Pool, "second"))
	s.Begins("second").End <- nil
	s.Is("second", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
}

// A RunNow during an attempt holds, although the handler schedules its own task for a later time. What the handler asks
// for holds, too.
func TestRunNowDuringAnAttemptThatSchedulesItsOwnTask(t *testing.T) {
	s := newBench(t)
	s.node(nil)
	later := time.Now().Add(24 * time.Hour)
	for name, ask := range map[string]func(*enginetest.Attempt){
		"again": func(a *enginetest.Attempt) { a.Again(later) },
		"follow-up": func(a *enginetest.Attempt) {
			a.FollowUp(store.Task{ID: a.ID, Payload: enginetest.Job{Name: "step 2"}, At: later})
		},
		"snooze": func(*enginetest.Attempt) {},
	} {
		s.Add(name, nil)
		first := s.Begins(name)
		ask(first)
		receipt, err := s.Tasks.RunNow(t.Context(), s.Pool, name)
		if err != nil || receipt.Outcome != store.RunsAgain {
			t.Fatalf("%s: %+v, %v", name, receipt, err)
		}
		if name == "snooze" {
			first.End <- handlers.Snooze(time.Hour)
		} else {
			first.End <- nil
		}
		second := s.Begins(name)
		if got := second.Payload.Name; name == "follow-up" && got != "step 2" {
			t.Errorf("%s: the second run has the payload of %q", name, got)
		}
		if sameKey := second.IdempotencyKey() == first.IdempotencyKey(); sameKey != (name == "snooze") {
			t.Errorf("%s: keys %s and %s", name, first.IdempotencyKey(), second.IdempotencyKey())
		}
		second.End <- nil
		row := enginetest.Await(t, s.Pool, name, patience, store.StatusCompleted)
		if name != "snooze" && row.ScheduledAt.Before(later.Add(-time.Minute)) {
			t.Errorf("%s: scheduled at %s", name, row.ScheduledAt)
		}
	}
}
