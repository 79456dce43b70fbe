package scheduled

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
	t.Parallel()
	s := newStage(t)
	s.node(nil, handlers.Handle(s.handleDeaf)) // a run ends when the test says so, whatever its context
	type outcome = store.Outcome
	verbs := map[string]func(id string) (store.Receipt, error){
		"cancel":  func(id string) (store.Receipt, error) { return s.tasks.Cancel(t.Context(), s.pool, id) },
		"pause":   func(id string) (store.Receipt, error) { return s.tasks.Pause(t.Context(), s.pool, id) },
		"resume":  func(id string) (store.Receipt, error) { return s.tasks.Resume(t.Context(), s.pool, id) },
		"run now": func(id string) (store.Receipt, error) { return s.tasks.RunNow(t.Context(), s.pool, id) },
		"retry":   func(id string) (store.Receipt, error) { return s.tasks.Retry(t.Context(), s.pool, id) },
		"delete":  func(id string) (store.Receipt, error) { return s.tasks.Delete(t.Context(), s.pool, id) },
		"later": func(id string) (store.Receipt, error) {
			return s.tasks.Reschedule(t.Context(), s.pool, id, time.Now().Add(time.Hour))
		},
		"now": func(id string) (store.Receipt, error) {
			return s.tasks.Reschedule(t.Context(), s.pool, id, time.Now())
		},
		"same": func(id string) (store.Receipt, error) {
			return s.tasks.Schedule(t.Context(), s.pool, store.Task{ID: id, Payload: enginetest.Job{Name: id}})
		},
		"edit": func(id string) (store.Receipt, error) {
			return s.tasks.Schedule(t.Context(), s.pool, store.Task{ID: id, Payload: enginetest.Job{Name: "edited"}})
		},
		"SQL pause": func(id string) (store.Receipt, error) {
			s.exec(`UPDATE tasktable.scheduled_tasks SET status = 'PAUSED' WHERE id = $1`, id)
			return store.Receipt{}, nil
		},
		"SQL edit": func(id string) (store.Receipt, error) {
			s.exec(`UPDATE tasktable.scheduled_tasks SET priority = 7 WHERE id = $1`, id)
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
	running := map[string]*act{}
	for id := range tests {
		s.schedule(id, nil)
	}
	for id := range tests {
		running[id] = s.begins(id)
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
			if cause := a.ends(t, patience); !errors.Is(cause, handlers.ErrCancelled) {
				t.Errorf("%s: the context ended by %v", id, cause)
			}
		case len(test.verbs) == 1 && a.ctx.Err() != nil:
			t.Errorf("%s: the context ended", id)
		}
		if n := len(s.of(id)); n != 0 {
			t.Errorf("%s: runs %d times more while it runs", id, n)
		}
		a.end <- nil
		want := []string{taskdb.OutcomeCompleted}
		if edited {
			want = []string{taskdb.OutcomeSuperseded}
		}
		if test.runsAgain {
			again := s.begins(id)
			if again.Revision <= a.Revision || again.Attempt != 1 || again.Fence <= a.Fence {
				t.Errorf(
					"%s: ran again as revision %d after %d, attempt %d", id, again.Revision, a.Revision, again.Attempt,
				)
			}
			if edit := test.verbs[0] == "edit"; edit != (again.Payload.Name == "edited") {
				t.Errorf("%s: ran again with the payload %q", id, again.Payload.Name)
			}
			again.end <- nil
			want = append(want, taskdb.OutcomeCompleted)
		}
		s.is(id, test.status, want...)
		s.idle(id)
	}
}

// A cancel ends the handler's context within two seconds even if no notification comes.
func TestCancelEndsTheContextWithoutNotify(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(nil)
	s.schedule("a", nil)
	a := s.begins("a")
	s.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER task_4_update`) // what notifies
	cancelled := time.Now()
	if receipt, err := s.tasks.Cancel(t.Context(), s.pool, "a"); err != nil || receipt.Outcome != store.Cancelled {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if cause := a.ends(t, patience); !errors.Is(cause, handlers.ErrCancelled) {
		t.Errorf("the context ended by %v", cause)
	}
	if took := time.Since(cancelled); took > limit(2*time.Second) {
		t.Errorf("the context ended %s after the cancel", took)
	}
	s.is("a", store.StatusCancelled, taskdb.OutcomeSuperseded)
}

// What is edited or cancelled between claim and start is handed back at once, not at its time.
func TestEditsOfClaimedTasks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(func(c *Config) { c.LookAhead = 10 * time.Second })
	at := time.Now().Add(8 * time.Second)
	names := []string{"cancel", "pause", "move", "sooner", "delete"}
	for _, name := range names {
		s.schedule(name, func(task *store.Task) { task.At = at })
	}
	for _, name := range names {
		enginetest.Await(t, s.pool, name, patience, store.StatusExecuting)
	}
	began := time.Now()
	if receipt, err := s.tasks.Cancel(t.Context(), s.pool, "cancel"); err != nil || receipt.Outcome != store.Cancelled {
		t.Errorf("%+v, %v", receipt, err)
	}
	s.exec(`UPDATE tasktable.scheduled_tasks SET status = 'PAUSED' WHERE id = 'pause'`)
	for name, to := range map[string]time.Time{"move": time.Now().Add(time.Hour), "sooner": time.Now()} {
		if receipt, err := s.tasks.Reschedule(t.Context(), s.pool, name, to); err != nil ||
			receipt.Outcome != store.Rescheduled {
			t.Errorf("%+v, %v", receipt, err)
		}
	}
	if receipt, err := s.tasks.Delete(t.Context(), s.pool, "delete"); err != nil || receipt.Outcome != store.Running {
		t.Errorf("%+v, %v", receipt, err)
	}
	s.is("cancel", store.StatusCancelled, taskdb.OutcomeCancelled)
	s.is("pause", store.StatusPaused, taskdb.OutcomeReleased)
	s.is("move", store.StatusQueued, taskdb.OutcomeReleased)
	sooner := s.begins("sooner")
	if late := time.Since(began); late > limit(3*time.Second) {
		t.Errorf("a task moved to now began %s later", late)
	}
	sooner.end <- nil
	s.is("sooner", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
	s.idle("cancel", "pause", "move")
	if _, err := s.tasks.Cancel(t.Context(), s.pool, "delete"); err != nil {
		t.Fatal(err)
	}
	s.is("delete", store.StatusCancelled, taskdb.OutcomeCancelled)
	if receipt, err := s.tasks.Delete(t.Context(), s.pool, "delete"); err != nil || receipt.Outcome != store.Deleted {
		t.Errorf("%+v, %v", receipt, err)
	}
}

// A claim is handed back once, however often its row is edited before that is recorded.
func TestClaimedTaskIsHandedBackOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(func(c *Config) { c.LookAhead = 10 * time.Second })
	s.schedule("a", func(task *store.Task) { task.At = time.Now().Add(8 * time.Second) })
	enginetest.Await(t, s.pool, "a", patience, store.StatusExecuting)
	// Nothing can be recorded for a while.
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_task_executions IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // each is notified
		s.exec(`UPDATE tasktable.scheduled_tasks SET priority = $1, status = 'PAUSED'`, i+1)
		enginetest.Eventually(t, patience, "the node hears of it", func() bool {
			return s.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND wait_event_type = 'Lock'`) > 0
		})
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.is("a", store.StatusPaused, taskdb.OutcomeReleased)
	s.schedule("b", nil)
	s.begins("b").end <- nil // the node is well
	s.is("b", store.StatusCompleted, taskdb.OutcomeCompleted)
}

// A task that is paused while it waits for a slot goes back at once, and does not start when the slot falls free.
func TestAPauseOfATaskThatWaitsForASlot(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 1} })
	s.schedule("first", nil)
	first := s.begins("first")
	s.schedule("second", nil)
	enginetest.Await(t, s.pool, "second", patience, store.StatusExecuting)
	receipt, err := s.tasks.Pause(t.Context(), s.pool, "second")
	if err != nil || receipt.Outcome != store.Paused {
		t.Fatalf("pause: %+v, %v", receipt, err)
	}
	enginetest.Eventually(t, patience, "its claim goes back while the slot is taken", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE id = 'second' AND status = 'PAUSED'
			AND fence IS NULL`) == 1
	})
	first.end <- nil
	s.is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.schedule("third", nil)
	s.begins("third").end <- nil // the slot is free
	s.is("third", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.is("second", store.StatusPaused, taskdb.OutcomeReleased)
	if n := len(s.of("second")); n != 0 {
		t.Errorf("it ran %d times", n)
	}
	if _, err := s.tasks.Resume(t.Context(), s.pool, "second"); err != nil {
		t.Fatal(err)
	}
	s.begins("second").end <- nil
	s.is("second", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
}
