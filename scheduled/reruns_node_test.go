package scheduled

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Tasks that ask for "now" for ever, in each way there is, run once a second, and others still start at their times.
func TestEndlessReruns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	var over atomic.Bool
	reruns := map[string]func(task *handlers.Execution) error{
		"again":  func(task *handlers.Execution) error { task.Again(time.Now()); return nil },
		"snooze": func(*handlers.Execution) error { return handlers.Snooze(0) },
		"ring": func(task *handlers.Execution) error {
			next := strings.Replace(task.ID, "ring", "gnir", 1)
			if next == task.ID {
				next = strings.Replace(task.ID, "gnir", "ring", 1)
			}
			task.FollowUp(store.Task{ID: next, Payload: unkeyed{"ring"}, At: time.Now()})
			return nil
		},
	}
	run := func(e *handlers.Execution, name string) error {
		if rerun := reruns[name]; rerun != nil && !over.Load() {
			return rerun(e)
		}
		return nil
	}
	s.node(nil,
		handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
			return run(task.Execution, task.Payload.Name)
		}),
		handlers.HandleTx(func(_ context.Context, _ pgx.Tx, task *handlers.Task[transactional]) error {
			return run(task.Execution, task.Payload.Name)
		}),
	)
	const each = 8
	began := time.Now()
	for i := range each {
		for name := range reruns {
			s.schedule(fmt.Sprint(name, " ", i), func(task *store.Task) { task.Payload = unkeyed{name} })
		}
	}
	s.schedule("transactional", func(task *store.Task) { task.Payload = transactional{"again"} })
	const ran = `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE type = $1`
	enginetest.Eventually(t, 30*time.Second, "they have run again and again", func() bool {
		return s.count(ran, "JOB") >= 3*4*each && s.count(ran, "TRANSACTIONAL") >= 3
	})
	s.schedule("other", nil)
	if row := s.is(
		"other", store.StatusCompleted, taskdb.OutcomeCompleted,
	); row.StartedAt.Sub(row.ScheduledAt) > limit(time.Second) {
		t.Errorf("another started %s late", row.StartedAt.Sub(row.ScheduledAt))
	}
	lines, took := s.count(`SELECT count(*) FROM tasktable.scheduled_task_executions`), time.Since(began)
	if most := (4*each+1)*(int(took.Seconds())+3) + 1; lines > most { // a ring has two tasks
		t.Errorf("%d lines of history in %s, want %d at most", lines, took, most)
	}
	over.Store(true)
	enginetest.Eventually(t, patience, "they have ended", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE finished_at IS NULL`) == 0
	})
}

// unkeyed is a job without an id of its own.
type unkeyed struct {
	Name string `json:"name"`
}

func (unkeyed) TaskType() string { return "JOB" }

// transactional is the payload of a transactional handler beside those of jobs.
type transactional struct {
	Name string `json:"name"`
}

func (transactional) TaskType() string { return "TRANSACTIONAL" }
