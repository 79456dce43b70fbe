package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// fan asks for as many follow-ups as its handler's test wants.
type fan struct {
	Tasks int    `json:"tasks"`
	Type  string `json:"of"`
}

func (fan) TaskType() string { return "FAN" }

// fanOut asks for follow-ups that are due later, each with an id of its own.
func fanOut(_ context.Context, task *handlers.Task[fan]) error {
	for i := range task.Payload.Tasks {
		task.FollowUp(store.Task{
			ID: fmt.Sprint(task.ID, " ", i), At: task.ScheduledAt.Add(time.Hour),
			Payload: store.JSON(`{"type": "` + task.Payload.Type + `"}`),
		})
	}
	return nil
}

// An attempt with as many follow-ups as it may have is recorded. One with more fails at once, and one whose follow-ups
// Postgres cannot schedule in time fails after a few tries. The text names the reason.
func TestManyFollowUps(t *testing.T) {
	s := newBench(t)
	s.Exec(`CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014'; END $$`)
	s.Exec(`CREATE TRIGGER slow BEFORE INSERT ON tasktable.scheduled_tasks FOR EACH ROW
		WHEN (NEW.payload ->> 'type' = 'SLOW') EXECUTE FUNCTION public.slow()`)
	s.node(nil, handlers.Handle(fanOut))
	for name, payload := range map[string]fan{
		"most": {handlers.MaxFollowUps, "LATER"}, "one more": {handlers.MaxFollowUps + 1, "LATER"}, "slow": {3, "SLOW"},
	} {
		s.Add(name, func(task *store.Task) { task.Payload = payload })
	}
	for name, want := range map[string]string{
		"one more": "an attempt may ask for at most 10000 follow-ups",
		"slow":     "its 3 follow-ups could not be scheduled in time",
	} {
		s.Ends(name, store.StatusFailed, taskdb.OutcomeFailed)
		if got := s.ErrorOf(name); !strings.Contains(got, want) {
			t.Errorf("%s: the error is %q, want %q", name, got, want)
		}
	}
	enginetest.Await(t, s.Pool, "most", 45*time.Second, store.StatusCompleted)
	for name, want := range map[string]int{"most": handlers.MaxFollowUps, "one more": 0, "slow": 0} {
		got := s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE spawned_by = $1`, name)
		if got != want {
			t.Errorf("%s: %d follow-ups, want %d", name, got, want)
		}
	}
}

// step is a step of a chain of tasks without ids of their own.
type step struct {
	Left int `json:"left"`
}

func (step) TaskType() string { return "STEP" }

// The steps of a chain do not wait for each other's second.
func TestChainOfFollowUpsRunsAtOnce(t *testing.T) {
	s := newBench(t)
	s.node(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[step]) error {
		if task.Payload.Left > 0 {
			task.FollowUp(store.Task{Payload: step{task.Payload.Left - 1}})
		}
		return nil
	}))
	s.Add("first", func(task *store.Task) { task.Payload = step{4} })
	const done = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE type = 'STEP' AND status = 'COMPLETED'`
	enginetest.Eventually(t, patience, "all five steps are done", func() bool { return s.Count(done) == 5 })
	// Each wait of the engine's own would show here, however slow the machine is.
	if n := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE due_at > scheduled_at + interval '500 ms'`); n > 0 {
		t.Errorf("%d of five steps were put off", n)
	}
}

// A result has the bound of a payload. What is larger fails the attempt for good, and other tasks go on.
func TestLargeResult(t *testing.T) {
	s := newBench(t)
	s.node(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[fan]) error {
		task.Result(strings.Repeat("x", task.Payload.Tasks-len(`""`)))
		return nil
	}))
	for name, size := range map[string]int{"most": handlers.MaxResultBytes, "a byte more": handlers.MaxResultBytes + 1} {
		s.Add(name, func(task *store.Task) { task.Payload = fan{Tasks: size} })
	}
	s.Ends("most", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Ends("a byte more", store.StatusFailed, taskdb.OutcomeFailed)
	const rule = "the result must be at most 256 KiB of JSON text, got 262145 bytes"
	if got := s.ErrorOf("a byte more"); !strings.Contains(got, rule) {
		t.Errorf("the error is %q, want %q", got, rule)
	}
	for name, want := range map[string]int{"most": handlers.MaxResultBytes, "a byte more": 0} {
		got := s.Count(`SELECT coalesce(length(result::text), 0) FROM tasktable.scheduled_tasks WHERE id = $1`, name)
		if got != want {
			t.Errorf("%s: %d bytes are kept, want %d", name, got, want)
		}
	}
}

// What a goroutine asks for that its handler has left behind does not count, and the log names the task, once, without
// the payload.
func TestFollowUpThatComesLate(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]func(func(*handlers.Execution)) handlers.Part{
		"plain": func(leave func(*handlers.Execution)) handlers.Part {
			return handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
				leave(task.Execution)
				return nil
			})
		},
		"pgx": func(leave func(*handlers.Execution)) handlers.Part {
			return handlers.HandleTx(func(_ context.Context, _ pgx.Tx, task *handlers.Task[enginetest.Job]) error {
				leave(task.Execution)
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			var log enginetest.LogText
			late, called := make(chan struct{}), make(chan struct{})
			s.node(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) },
				handle(func(e *handlers.Execution) {
					go func() {
						defer close(called)
						<-late
						e.FollowUp(store.Task{ID: "late", Payload: enginetest.Job{Name: "canary"}})
						e.Note("canary")
					}()
				}))
			s.Add("left", nil)
			s.Is("left", store.StatusCompleted, taskdb.OutcomeCompleted)
			close(late)
			<-called
			lines := log.Lines("level=WARN", "method=FollowUp", "task=left ", "type=JOB", "attempt=1")
			if len(lines) != 1 || len(log.Lines("does not count")) != 1 || len(log.Lines("canary")) != 0 {
				t.Errorf("the log has %q", log.Lines(""))
			}
		})
	}
}
