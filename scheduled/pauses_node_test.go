package scheduled

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// otherJob is of another type than job.
type otherJob struct{}

func (otherJob) TaskType() string { return "OTHER" }

func (s *bench) handleOther(ctx context.Context, task *handlers.Task[otherJob]) error {
	return s.Handle(ctx, &handlers.Task[enginetest.Job]{Execution: task.Execution})
}

func (s *bench) pause(scope store.Scope, until time.Time) {
	s.T.Helper()
	if outcome, err := s.Tasks.PauseScope(s.T.Context(), s.Pool, scope, until, "to see what happens"); err != nil ||
		outcome != store.Paused {
		s.T.Fatalf("pause %s: %s, %v", scope, outcome, err)
	}
}

func (s *bench) resume(scope store.Scope) {
	s.T.Helper()
	if outcome, err := s.Tasks.ResumeScope(s.T.Context(), s.Pool, scope); err != nil || outcome != store.Queued {
		s.T.Fatalf("resume %s: %s, %v", scope, outcome, err)
	}
}

// Of what is paused the running handler finishes, and nothing else starts until it is resumed, then all that is due
// does at once. What is not paused goes on.
func TestPausedScopes(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(
		func(c *Config) { c.Queues = map[string]int{"default": 10, "side": 10} }, handlers.Handle(s.Handle),
		handlers.Handle(s.handleOther),
	)
	kinds := map[string]struct {
		queue   string
		payload store.Payload
	}{
		"job": {"default", enginetest.Job{}}, "other": {"default", otherJob{}}, "side job": {"side", enginetest.Job{}},
		"side other": {"side", otherJob{}},
	}
	for _, scope := range []store.Scope{store.Queue("side"), store.Type("JOB"), store.Everything()} {
		named := func(kind, what string) string { return fmt.Sprintf("%s: %s, %s", scope, kind, what) }
		put := func(kind, what string, at time.Time) {
			s.Add(named(kind, what), func(task *store.Task) {
				task.Payload, task.Queue, task.At = kinds[kind].payload, kinds[kind].queue, at
			})
		}
		running := map[string]*enginetest.Attempt{}
		for kind := range kinds {
			put(kind, "running", time.Time{})
			running[kind] = s.Begins(named(kind, "running"))
		}
		s.pause(scope, time.Time{})
		soon := s.Now().Add(500 * time.Millisecond)
		var held []string
		for kind, is := range kinds {
			put(kind, "due", time.Time{})
			put(kind, "soon", soon)
			if scope.Has(is.queue, is.payload.TaskType()) {
				held = append(held, kind)
			} else {
				s.Begins(named(kind, "due")).End <- nil
				s.Begins(named(kind, "soon")).End <- nil
			}
		}
		for kind, a := range running {
			if a.Ctx.Err() != nil {
				t.Errorf("%s: the context of a running task has ended", scope)
			}
			a.End <- nil
			s.Is(named(kind, "running"), store.StatusCompleted, taskdb.OutcomeCompleted)
		}
		s.Passes(soon.Add(1100 * time.Millisecond)) // and a look of the leader's
		for _, kind := range held {
			for _, what := range []string{"due", "soon"} {
				s.Is(named(kind, what), store.StatusQueued)
				s.Idle(named(kind, what))
			}
		}
		if n := s.Count(`SELECT count(*) FROM tasktable.late_tasks WHERE is_paused`); n != 2*len(held) {
			t.Errorf("%s: %d late tasks are said to be paused, want %d", scope, n, 2*len(held))
		}
		s.resume(scope)
		resumed := s.Now()
		for _, kind := range held {
			for _, what := range []string{"due", "soon"} {
				a := s.Begins(named(kind, what))
				if took := a.StartedAt.Sub(resumed); took > limit(500*time.Millisecond) {
					t.Errorf("%s started %s after it was resumed", a.ID, took)
				}
				a.End <- nil
				s.Is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
			}
		}
	}
}

// A pause until a time, of a scope and of one task, ends by itself; what is paused twice needs both ends.
func TestPauseUntil(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(nil, handlers.Handle(s.Handle), handlers.Handle(s.handleOther))
	// Far enough that none is claimed ahead of its time before it is paused.
	until := s.Now().Add(3500 * time.Millisecond)
	s.pause(store.Type("JOB"), until)
	s.Add("scope", nil)
	s.Add("alone", func(task *store.Task) { task.Payload, task.At = otherJob{}, until.Add(-time.Second/2) })
	s.Add("later", func(task *store.Task) { task.Payload, task.At = otherJob{}, until.Add(2*time.Second) })
	for _, id := range []string{"alone", "later"} {
		if receipt, err := s.Tasks.PauseUntil(t.Context(), s.Pool, id, until); err != nil ||
			receipt.Outcome != store.Paused {
			t.Fatalf("%+v, %v", receipt, err)
		}
	}
	s.Add("both", nil)
	if receipt, err := s.Tasks.PauseUntil(t.Context(), s.Pool, "both", until.Add(time.Second)); err != nil ||
		receipt.Outcome != store.Paused {
		t.Fatalf("%+v, %v", receipt, err)
	}
	for id, not := range map[string]time.Time{
		"scope": until, "alone": until, "both": until.Add(time.Second), "later": until.Add(2 * time.Second),
	} {
		a := s.Begins(id)
		if late := a.StartedAt.Sub(not); late < 0 || late > limit(5*time.Second) {
			t.Errorf("%s began %s after its pause", id, late)
		}
		a.End <- nil
		if row := s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted); row.PausedUntil != nil {
			t.Errorf("%s is paused until %s", id, row.PausedUntil)
		}
	}
}

// A pause that is committed after a task was claimed is honoured, whatever the task waits for: its time, a slot, or its
// transaction.
func TestPauseOfClaimedTasks(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) { c.Queues, c.LookAhead = map[string]int{"default": 10, "narrow": 1}, 10*time.Second },
		handlers.Handle(s.Handle),
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[otherJob]) error {
			return s.handleOther(ctx, task)
		}))
	due := s.Now().Add(2 * time.Second)
	narrow := func(task *store.Task) { task.Queue = "narrow" }
	s.Add("in the slot", narrow)
	inSlot := s.Begins("in the slot")
	s.Add("time", func(task *store.Task) { task.At = due })
	s.Add("time, tx", func(task *store.Task) { task.At, task.Payload = due, otherJob{} })
	s.Add("slot", narrow)
	claimed := []string{"time", "time, tx", "slot"}
	for _, id := range claimed {
		enginetest.Await(t, s.Pool, id, patience, store.StatusExecuting)
	}
	s.pause(store.Everything(), time.Time{})
	inSlot.End <- nil
	s.Is("in the slot", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("slot", store.StatusQueued, taskdb.OutcomeReleased)
	s.Passes(due)
	for _, id := range claimed {
		if row := s.Is(id, store.StatusQueued, taskdb.OutcomeReleased); row.Attempt != 0 ||
			s.ErrorOf(id) != "its queue or type is paused" {
			t.Errorf("%s was handed back as attempt %d: %s", id, row.Attempt, s.ErrorOf(id))
		}
	}
	s.Passes(due.Add(time.Second))
	s.Idle(claimed...)
	s.resume(store.Everything())
	for _, id := range claimed {
		s.Begins(id).End <- nil
		s.Is(id, store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
	}
}

// leftRunning has tasks that are due run on a node that is gone.
func (s *bench) leftRunning() {
	s.T.Helper()
	claims := slices.Collect(maps.Values(s.Take(time.Now())))
	s.Exec(`INSERT INTO tasktable.river_job
			(state, kind, args, metadata, max_attempts, queue, attempted_by, attempted_at)
		VALUES ('running', 'JOB', jsonb_build_object('tasks', $1::text), '{}', 1, 'default', ARRAY[$2::text], now())`,
		riverjobs.EncodeClaims(claims), taskdb.ClientID(999_999))
}

// A database is restored from a backup that was taken while a node worked: by the steps of UPGRADING.md nothing is
// done again that was done after the backup, and the rest is done. What a killed node leaves stands for the backup.
func TestRestoredDatabase(t *testing.T) {
	b := newBench(t)
	b.Add("sent since", nil)
	b.Add("running", nil)
	b.leftRunning()
	for i := range 5 {
		b.Add(fmt.Sprint("due ", i), func(task *store.Task) { task.At = time.Now().Add(500 * time.Millisecond) })
	}
	b.Add("later", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	b.Exec(`SELECT tasktable.pause_scope('all', reason => 'restored from a backup')`)
	b.Exec(`SELECT setval('tasktable.task_numbers', nextval('tasktable.task_numbers') + 1000000000)`)

	began := make(chan *handlers.Execution, 100)
	b.node(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		began <- task.Execution
		return nil
	}))
	const waiting = `SELECT count(*) = 7 FROM tasktable.scheduled_tasks WHERE status = 'QUEUED'
		AND next_attempt_at <= now()`
	b.Sees("what ran is taken back, and all that is due waits", waiting)
	b.Sees("the leader has looked", `SELECT clock_timestamp() > max(next_attempt_at) + interval '2 seconds'
		FROM tasktable.scheduled_tasks WHERE id <> $1`, "later")
	if len(began) != 0 {
		t.Errorf("%d tasks have begun", len(began))
	}
	b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, "sent since"))
	b.Exec(`SELECT tasktable.resume_scope('all')`)
	b.Sees("the rest is done", `SELECT count(*) = 6 FROM tasktable.scheduled_tasks
		WHERE status = 'COMPLETED'`)
	if got := enginetest.Outcomes(t, b.Pool, "running"); fmt.Sprint(got) != "[LOST COMPLETED]" {
		t.Errorf("what was running at the time of the backup has the history %v", got)
	}
	for range 6 {
		e := enginetest.Receive(t, began, patience, "each ran")
		if e.ID == "sent since" || e.ID == "later" {
			t.Errorf("%s ran", e.ID)
		}
		if e.Fence < 1000000000 {
			t.Errorf("%s has the fence %d, which may have been drawn after the backup", e.ID, e.Fence)
		}
	}
}
