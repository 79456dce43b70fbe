package scheduled

import (
	"context"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestTaskRunsAtItsTimeAndIsRecorded(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		task.Note("hello %s", task.Payload.Name)
		task.Result(map[string]int{"n": 1})
		return nil
	}))
	s.Add("a", func(task *store.Task) { task.At = time.Now().Add(1500 * time.Millisecond) })
	row := s.Is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
	if row.StartedAt.Before(row.ScheduledAt) || row.StartedAt.Sub(row.ScheduledAt) > limit(time.Second) {
		t.Errorf("scheduled for %s, started at %s", row.ScheduledAt, row.StartedAt)
	}
	if *row.Message != "hello a" || string(row.Result) != `{"n": 1}` {
		t.Errorf("message %q, result %s", *row.Message, row.Result)
	}
}
