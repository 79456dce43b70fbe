package scheduled

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// Five hundred tasks die, by the errors of their handlers or because they expire, while sessions and pools are cut. Each
// of them schedules its IfDead exactly once.
func TestEachDeathIsCompensated(t *testing.T) {
	t.Parallel()
	const deaths = 500
	b := benchOf(t)
	fail := func(context.Context, *handlers.Task[enginetest.Job]) error { return errors.New("no") }
	undo := func(context.Context, *handlers.Task[quick]) error { return nil }
	for range 2 {
		b.node(nil, handlers.Handle(fail), handlers.Handle(undo))
	}
	var tasks []store.Task
	for i := range deaths {
		name := fmt.Sprintf("%04d", i)
		task := store.Task{
			Payload: enginetest.Job{Name: name}, MaxAttempts: 1, IfDead: []store.Task{{Payload: quick{"undo-" + name}}},
		}
		if i%20 == 0 {
			task.At, task.Expiration = b.Now().Add(-time.Minute), time.Second
		}
		tasks = append(tasks, task)
	}
	b.Did(b.Tasks.ScheduleMany(t.Context(), b.Pool, tasks))
	for _, name := range []string{"tasktable engine", "tasktable session", "tasktable engine"} {
		b.Sees("some have died", `SELECT count(*) > 0 FROM tasktable.scheduled_tasks WHERE type = 'JOB' AND finished_at IS NOT NULL`)
		b.end(name)
	}
	b.SeesWithin(time.Minute, "each death has been followed", `SELECT count(*) = $1 FROM tasktable.scheduled_tasks
		WHERE type = 'QUICK' AND status = 'COMPLETED'`, deaths)
	b.Never("a task did not die, or was not followed by its own", `SELECT count(*) FROM tasktable.scheduled_tasks AS d
		LEFT JOIN tasktable.scheduled_tasks AS u ON u.id = replace(d.id, 'JOB-', 'QUICK-undo-') AND u.spawned_by = d.id
		WHERE d.type = 'JOB' AND (d.status NOT IN ('FAILED', 'EXPIRED') OR u.id IS NULL)`)
	b.Never("something was scheduled twice", `SELECT count(*) FROM (SELECT FROM tasktable.scheduled_task_changes
		WHERE task_id LIKE 'task-QUICK-undo-%' GROUP BY task_id HAVING count(*) > 1) AS twice`)
}
