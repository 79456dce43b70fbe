package scheduled

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestTaskRunsAtItsTimeAndIsRecorded(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	startNode(t, pool, nil, handlers.Handle(func(_ context.Context, task *handlers.Task[job]) error {
		task.Note("hello %s", task.Payload.Name)
		task.Result(map[string]int{"n": 1})
		return nil
	}))
	receipt := schedule(t, pool, store.Task{Payload: job{"a"}, At: time.Now().Add(1500 * time.Millisecond)})
	row := await(t, pool, receipt.ID, 10*time.Second, store.StatusCompleted)
	if row.StartedAt.Before(row.ScheduledAt) || row.StartedAt.Sub(row.ScheduledAt) > time.Second {
		t.Errorf("scheduled for %s, started at %s", row.ScheduledAt, row.StartedAt)
	}
	if *row.Message != "hello a" || string(row.Result) != `{"n": 1}` {
		t.Errorf("message %q, result %s", *row.Message, row.Result)
	}
	if got := outcomes(t, pool, receipt.ID); fmt.Sprint(got) != "[COMPLETED]" {
		t.Errorf("history %v", got)
	}
}

func TestBacklogRunsEachTaskOnce(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	const n = 2000
	var list []store.Task
	for i := range n {
		list = append(list, store.Task{Payload: job{fmt.Sprint(i)}})
	}
	if _, err := tasks.ScheduleMany(t.Context(), pool, list); err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	begin := time.Now()
	startNode(t, pool, nil, handlers.Handle(func(context.Context, *handlers.Task[job]) error { ran.Add(1); return nil }))
	eventually(t, 60*time.Second, "all are completed", func() bool {
		var completed int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`).Scan(&completed); err != nil {
			t.Fatal(err)
		}
		return completed == n
	})
	t.Logf("%d tasks in %s", n, time.Since(begin))
	if ran.Load() != n {
		t.Errorf("%d runs of %d tasks", ran.Load(), n)
	}
}
