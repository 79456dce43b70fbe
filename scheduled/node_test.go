package scheduled

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestTaskRunsAtItsTimeAndIsRecorded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		task.Note("hello %s", task.Payload.Name)
		task.Result(map[string]int{"n": 1})
		return nil
	}))
	s.schedule("a", func(task *store.Task) { task.At = time.Now().Add(1500 * time.Millisecond) })
	row := s.is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
	if row.StartedAt.Before(row.ScheduledAt) || row.StartedAt.Sub(row.ScheduledAt) > limit(time.Second) {
		t.Errorf("scheduled for %s, started at %s", row.ScheduledAt, row.StartedAt)
	}
	if *row.Message != "hello a" || string(row.Result) != `{"n": 1}` {
		t.Errorf("message %q, result %s", *row.Message, row.Result)
	}
}

func TestBacklogRunsEachTaskOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const n = 2000
	var list []store.Task
	for i := range n {
		list = append(list, store.Task{Payload: enginetest.Job{Name: fmt.Sprint(i)}})
	}
	if _, err := s.tasks.ScheduleMany(t.Context(), s.pool, list); err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	begin := time.Now()
	s.node(nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { ran.Add(1); return nil }))
	enginetest.Eventually(t, 60*time.Second, "all are completed", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`) == n
	})
	t.Logf("%d tasks in %s", n, time.Since(begin))
	if ran.Load() != n {
		t.Errorf("%d runs of %d tasks", ran.Load(), n)
	}
}
