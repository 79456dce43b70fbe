//go:build unix

package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// A database is restored from a backup that was taken while a node worked: by the steps of UPGRADING.md nothing is
// done again that was done after the backup, and the rest is done. What a killed node leaves stands for the backup.
func TestRestoredDatabase(t *testing.T) {
	f := newField(t)
	f.shut(1)
	node := f.start(nil)
	sentSince := enginetest.Schedule(t, f.pool, store.Task{Payload: gated{"sent since", 1}})
	running := enginetest.Schedule(t, f.pool, store.Task{Payload: gated{"running", 1}})
	for _, id := range []string{sentSince.ID, running.ID} {
		node.runs(id, patience)
	}
	for i := range 5 {
		enginetest.Schedule(t, f.pool, store.Task{
			Payload: gated{fmt.Sprint("due ", i), 1}, At: time.Now().Add(500 * time.Millisecond),
		})
	}
	later := enginetest.Schedule(t, f.pool, store.Task{Payload: gated{"later", 1}, At: time.Now().Add(time.Hour)})
	node.kill()
	f.exec(`SELECT tasktable.pause_scope('all', reason => 'restored from a backup')`)
	f.exec(`SELECT setval('tasktable.task_numbers', nextval('tasktable.task_numbers') + 1000000000)`)

	began := make(chan *handlers.Execution, 100)
	startNode(t, f.nodePool(), nil, handlers.Handle(func(_ context.Context, task *handlers.Task[gated]) error {
		began <- task.Execution
		return nil
	}))
	const waiting = `SELECT count(*) = 7 FROM tasktable.scheduled_tasks WHERE status = 'QUEUED'
		AND next_attempt_at <= now()`
	f.until(patience, "what ran is taken back, and all that is due waits", waiting)
	f.until(
		patience, "the leader has looked", `SELECT clock_timestamp() > max(next_attempt_at) + interval '2 seconds'
		FROM tasktable.scheduled_tasks WHERE id <> $1`, later.ID,
	)
	if len(began) != 0 {
		t.Errorf("%d tasks have begun", len(began))
	}
	if _, err := enginetest.Tasks.Cancel(t.Context(), f.pool, sentSince.ID); err != nil {
		t.Fatal(err)
	}
	f.exec(`SELECT tasktable.resume_scope('all')`)
	f.until(patience, "the rest is done", `SELECT count(*) = 6 FROM tasktable.scheduled_tasks
		WHERE status = 'COMPLETED'`)
	if got := enginetest.Outcomes(t, f.pool, running.ID); fmt.Sprint(got) != "[LOST COMPLETED]" {
		t.Errorf("what was running at the time of the backup has the history %v", got)
	}
	for range 6 {
		e := enginetest.Receive(t, began, patience, "each ran")
		if e.ID == sentSince.ID || e.ID == later.ID {
			t.Errorf("%s ran", e.ID)
		}
		if e.Fence < 1000000000 {
			t.Errorf("%s has the fence %d, which may have been drawn after the backup", e.ID, e.Fence)
		}
	}
}
