//go:build unix

package scheduled

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// Six thousand tasks die, by their handlers' errors, because their processes are killed, or because they expire, while
// sessions and pools are cut. Each of them schedules what was to follow, exactly once.
func TestEachDeathIsCompensated(t *testing.T) {
	const deaths = 6000
	f := newField(t)
	processes := []*process{f.start(nil), f.start(nil), f.start(nil)}
	var tasks []store.Task
	for i := range deaths {
		id := fmt.Sprintf("doomed-%04d", i)
		task := store.Task{ID: id, Payload: quick{id, 5}, MaxAttempts: 1,
			IfDead: []store.Task{{Payload: quick{"undo-" + id, 0}}}}
		if i%20 == 0 {
			task.At, task.Expiration = time.Now().Add(-time.Minute), time.Second
		}
		tasks = append(tasks, task)
	}
	if _, err := enginetest.Tasks.ScheduleMany(t.Context(), f.pool, tasks); err != nil {
		t.Fatal(err)
	}
	const left = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE id LIKE 'doomed%' AND finished_at IS NULL`
	begin, kills := time.Now(), 0
	for f.count(left) > 0 {
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("%d tasks are left", f.count(left))
		}
		i := rand.IntN(len(processes))
		switch {
		case kills < 6 && rand.IntN(2) == 0:
			processes[i].kill()
			processes[i] = f.start(nil)
			kills++
		case rand.IntN(2) == 0:
			f.cut("tasktable session")
		default:
			f.cut("tasktable engine")
		}
		<-time.After(rand.N(2 * time.Second))
	}
	f.until(2*time.Minute, "all that follows has run", `SELECT count(*) = $1 FROM tasktable.scheduled_tasks
		WHERE type = 'QUICK' AND status = 'COMPLETED'`, deaths)
	f.never("a task did not die, or was not followed by its own", `SELECT count(*) FROM tasktable.scheduled_tasks AS d
		LEFT JOIN tasktable.scheduled_tasks AS u ON u.id = 'task-QUICK-undo-' || d.id AND u.spawned_by = d.id
		WHERE d.id LIKE 'doomed%' AND (d.status NOT IN ('FAILED', 'EXPIRED') OR u.id IS NULL)`)
	f.never("something was scheduled twice", `SELECT count(*) FROM (SELECT FROM tasktable.scheduled_task_changes
		WHERE task_id LIKE 'task-QUICK-undo-%' GROUP BY task_id HAVING count(*) > 1) AS twice`)
	t.Logf("%s, %d kills, %s", time.Since(begin), kills, ask[string](f, `SELECT string_agg(outcome || ' ' || n, ', ') FROM
		(SELECT outcome, count(*) AS n FROM tasktable.scheduled_task_executions GROUP BY outcome) AS o`))
}
