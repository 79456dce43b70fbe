package scheduled

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// leftRunning has tasks that are due run on a node that is gone.
func (b *bench) leftRunning() {
	b.T.Helper()
	claims := slices.Collect(maps.Values(b.Take(time.Now())))
	b.Exec(`INSERT INTO tasktable.river_job
			(state, kind, args, metadata, max_attempts, queue, attempted_by, attempted_at)
		VALUES ('running', 'JOB', jsonb_build_object('tasks', $1::text), '{}', 1, 'default', ARRAY[$2::text], now())`,
		riverjobs.EncodeClaims(claims), taskdb.ClientID(999_999))
}

// A database is restored from a backup that was taken while a node worked: by the steps of UPGRADING.md nothing is
// done again that was done after the backup, and the rest is done. What a killed node leaves stands for the backup.
func TestRestoredDatabase(t *testing.T) {
	b := newBench(t)
	b.Add("sent since", nil)
	b.Add("running", nil)
	b.leftRunning()
	for i := range 5 {
		b.Add(fmt.Sprint("due ", i), func(task *store.Task) { task.At = time.Now().Add(500 * time.Millisecond) })
	}
	b.Add("later", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	b.Exec(`SELECT tasktable.pause_scope('all', reason => 'restored from a backup')`)
	b.Exec(`SELECT setval('tasktable.task_numbers', nextval('tasktable.task_numbers') + 1000000000)`)

	began := make(chan *handlers.Execution, 100)
	b.node(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		began <- task.Execution
		return nil
	}))
	const waiting = `SELECT count(*) = 7 FROM tasktable.scheduled_tasks WHERE status = 'QUEUED'
		AND next_attempt_at <= now()`
	b.Sees("what ran is taken back, and all that is due waits", waiting)
	b.Sees("the leader has looked", `SELECT clock_timestamp() > max(next_attempt_at) + interval '2 seconds'
		FROM tasktable.scheduled_tasks WHERE id <> $1`, "later")
	if len(began) != 0 {
		t.Errorf("%d tasks have begun", len(began))
	}
	b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, "sent since"))
	b.Exec(`SELECT tasktable.resume_scope('all')`)
	b.Sees("the rest is done", `SELECT count(*) = 6 FROM tasktable.scheduled_tasks
		WHERE status = 'COMPLETED'`)
	if got := enginetest.Outcomes(t, b.Pool, "running"); fmt.Sprint(got) != "[LOST COMPLETED]" {
		t.Errorf("what was running at the time of the backup has the history %v", got)
	}
	for range 6 {
		e := enginetest.Receive(t, began, patience, "each ran")
		if e.ID == "sent since" || e.ID == "later" {
			t.Errorf("%s ran", e.ID)
		}
		if e.Fence < 1000000000 {
			t.Errorf("%s has the fence %d, which may have been drawn after the backup", e.ID, e.Fence)
		}
	}
}
