package scheduled

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestTaskRunsAtItsTimeAndIsRecorded(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	var log enginetest.LogText
	s.node(func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		task.Note("hello %s", task.Payload.Name)
		task.Result(map[string]int{"n": 1})
		return nil
	}))
	s.Add("invoice-7", func(task *store.Task) { task.At = time.Now().Add(1500 * time.Millisecond) })
	row := s.Is("invoice-7", store.StatusCompleted, taskdb.OutcomeCompleted)
	if row.StartedAt.Before(row.ScheduledAt) || row.StartedAt.Sub(row.ScheduledAt) > limit(time.Second) {
		t.Errorf("scheduled for %s, started at %s", row.ScheduledAt, row.StartedAt)
	}
	if *row.Message != "hello invoice-7" || string(row.Result) != `{"n": 1}` {
		t.Errorf("message %q, result %s", *row.Message, row.Result)
	}
	enginetest.Eventually(t, patience, "at debug the line of the claim names the task", func() bool {
		return len(log.Lines("level=DEBUG", "msg=claimed", "tasks=1", "expired=0", "ids=[invoice-7]")) == 1
	})
}
