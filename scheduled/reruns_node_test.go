package scheduled

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Tasks that ask for "now" for ever, in each way there is, run once a second, and a chain of new tasks runs ten times a
// second. The metric counts them, and others
// still start at their times. The log is silent, because each has asked only a few times.
func TestEndlessReruns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	var log enginetest.LogText
	var over atomic.Bool
	registry := prometheus.NewPedanticRegistry()
	reruns := map[string]func(task *handlers.Execution) error{
		"again":  func(task *handlers.Execution) error { task.Again(time.Now()); return nil },
		"snooze": func(*handlers.Execution) error { return handlers.Snooze(0) },
		"new": func(task *handlers.Execution) error {
			task.FollowUp(store.Task{Payload: unkeyed{"new"}})
			return nil
		},
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
	s.node(func(c *Config) { c.Logger, c.Metrics = slog.New(slog.NewTextHandler(&log, nil)), registry },
		handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
			return run(task.Execution, task.Payload.Name)
		}),
		handlers.HandleTx(func(_ context.Context, _ pgx.Tx, task *handlers.Task[transactional]) error {
			return run(task.Execution, task.Payload.Name)
		}),
	)
	const each = 8 // of 4 kinds: more than the log lets pass without a word
	began := time.Now()
	for i := range each {
		for name := range reruns {
			s.schedule(fmt.Sprint(name, " ", i), func(task *store.Task) { task.Payload = unkeyed{name} })
		}
	}
	s.schedule("transactional", func(task *store.Task) { task.Payload = transactional{"again"} })
	enginetest.Eventually(t, 30*time.Second, "they have been put off", func() bool {
		got := enginetest.Scraped(t, registry)
		return got["tasks_put_off_total JOB"] >= 3*4*each && got["tasks_put_off_total TRANSACTIONAL"] >= 3
	})
	s.schedule("other", nil)
	if row := s.is(
		"other", store.StatusCompleted, taskdb.OutcomeCompleted,
	); row.StartedAt.Sub(row.ScheduledAt) > limit(time.Second) {
		t.Errorf("another started %s late", row.StartedAt.Sub(row.ScheduledAt))
	}
	lines, took := s.count(`SELECT count(*) FROM tasktable.scheduled_task_executions`), time.Since(began)
	if most := (3*each+taskdb.MaxSteps*each+1)*(int(took.Seconds())+3) + 1; lines > most {
		t.Errorf("%d lines of history in %s, want %d at most", lines, took, most)
	}
	over.Store(true)
	enginetest.Eventually(t, patience, "they have ended", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE finished_at IS NULL`) == 0
	})
	if told := log.Lines("level=WARN", "again and again"); told != nil {
		t.Errorf("each task asked a few times, and the log tells: %q", told)
	}
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
