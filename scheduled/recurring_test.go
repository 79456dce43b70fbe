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

func TestRecurringTaskFires(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	var ran atomic.Int64
	startNode(t, pool, nil, handlers.Handle(func(context.Context, *handlers.Task[job]) error { ran.Add(1); return nil }))
	receipt := schedule(t, pool, store.Task{Payload: job{"tick"}, Recurrence: &store.Recurrence{Cron: "* * * * * *", MaxOccurrences: 3}})
	row := await(t, pool, receipt.ID, 15*time.Second, store.StatusCompleted)
	if row.OccurrenceCount != 3 {
		t.Errorf("parent %+v", row)
	}
	eventually(t, 5*time.Second, "three occurrences ran", func() bool { return ran.Load() == 3 })
	rows, err := pool.Query(t.Context(), `SELECT e.task_id, e.outcome, extract(epoch FROM e.started_at - e.due_at)::float8 FROM tasktable.scheduled_task_executions e ORDER BY fence`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id, outcome string
		var delay float64
		if err := rows.Scan(&id, &outcome, &delay); err != nil {
			t.Fatal(err)
		}
		t.Log(id, outcome, fmt.Sprintf("%.1f ms", 1000*delay))
	}
}
