package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

// ended ends the claim of a task, as the engine does.
func (b *bench) ended(id, status string) {
	b.Helper()
	next, finished := "NULL", "NULL"
	switch status {
	case "QUEUED":
		next = "'2100-01-01 01:00Z'"
	case "COMPLETED", "FAILED", "CANCELLED":
		finished = "clock_timestamp()"
	}
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET status = $2, fence = NULL, lease_expires_at = NULL,
			next_attempt_at = `+next+`, finished_at = `+finished+` WHERE id = $1`, id, status)
	})
}

// RunNow of a running task, and Schedule with IfRunning, are done when the attempt has ended, in whatever way.
func TestAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		name, comes string // what the attempt comes to
		between     step
		want        store.Status
		due         bool // at once
	}{
		{name: "completes", comes: "COMPLETED", want: store.StatusQueued, due: true},
		{name: "dies", comes: "FAILED", want: store.StatusQueued, due: true},
		{name: "is retried", comes: "QUEUED", want: store.StatusQueued, due: true},
		{name: "is paused", comes: "COMPLETED", want: store.StatusPaused, between: does("pause")},
		{name: "is cancelled", comes: "CANCELLED", want: store.StatusCancelled, between: does("cancel")},
		{name: "is edited", comes: "QUEUED", want: store.StatusQueued, between: func(b *bench, id string) {
			task := base(id)
			task.Priority = 7
			b.Schedule(task)
			if row := b.Get(id); row.RunNowAt == nil {
				b.Errorf("the edit has lost it: %s", pretty(row))
			}
		}},
		{name: "is moved", comes: "QUEUED", want: store.StatusQueued, between: does("re_other")},
	} {
		for way, ask := range map[string]func(b *bench, id string) store.Receipt{
			"by RunNow": func(b *bench, id string) store.Receipt { return b.do("run_now", id) },
			"by Schedule": func(b *bench, id string) store.Receipt {
				task := base(id)
				task.IfRunning = store.Again
				return b.Schedule(task)
			},
			"by ScheduleMany": func(b *bench, id string) store.Receipt {
				task := base(id)
				task.IfRunning = store.Again
				receipts, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{task})
				b.Check(err)
				return receipts[0]
			},
		} {
			b.each(c.name+" "+way, func(b *bench) {
				id := c.name + " " + way
				b.Make(id, "EXECUTING")
				before := b.Get(id)
				for range 2 {
					receipt := ask(b, id)
					if receipt.Outcome != store.RunsAgain || receipt.Revision != before.Revision {
						b.Errorf("got %+v", receipt)
					}
				}
				if row := b.Get(id); row.Revision != before.Revision || row.Status != store.StatusExecuting {
					b.Errorf("the attempt is not current: %s", pretty(row))
				}
				if lines := len(b.Lines(id)); lines != 2 {
					b.Errorf("%d lines", lines)
				}
				if c.between != nil {
					c.between(b, id)
				}
				b.ended(id, c.comes)
				row := b.Get(id)
				due := row.NextAttemptAt != nil && !row.NextAttemptAt.After(b.Now())
				if row.Status != c.want || due != c.due || row.Attempt != 0 && c.want == store.StatusQueued {
					b.Errorf("got %s", pretty(row))
				}
				wants := c.comes == "COMPLETED" || c.between != nil && c.name != "is paused"
				if (row.AskedRevision != before.AskedRevision) != wants {
					b.Errorf("asked_revision went from %d to %d", before.AskedRevision, row.AskedRevision)
				}
				if one[bool](b, b.Pool, `SELECT again_at IS NOT NULL FROM tasktable.scheduled_tasks WHERE id = $1`, id) {
					b.Error("it would run once more still")
				}
			})
		}
	}
}

// A pause after the claim must not swallow a RunNow.
func TestRunNowOfATaskThatWasPausedWhileItRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "EXECUTING")
	b.do("pause", "one")
	b.wantOutcome("run now", store.RunsAgain, b.do("run_now", "one"))
	same(b, "status", b.Get("one").Status, store.StatusExecuting)
	b.ended("one", "COMPLETED")
	if row := b.Get("one"); row.Status != store.StatusQueued || row.NextAttemptAt == nil {
		t.Errorf("got %s", pretty(row))
	}
}

// The caller's transaction may have written what the task is to read. So the task must not run before the commit, even
// if it waits and is not changed.
func TestScheduleWithIfRunningLocksATaskThatWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("one"))
	tx := b.Begin(pgx.TxOptions{})
	task := base("one")
	task.IfRunning = store.Again
	receipt, err := b.Tasks.Schedule(b.Ctx, tx, task)
	if err != nil || receipt.Outcome != store.Unchanged {
		t.Fatalf("%+v, %v", receipt, err)
	}
	call := start(b, func(conn *pgxpool.Conn) (int, error) {
		b.Exec(conn, `SELECT FROM tasktable.scheduled_tasks WHERE id = 'one' FOR UPDATE`)
		return 0, nil
	}).blockedBy(tx)
	b.Check(tx.Commit(b.Ctx))
	b.succeeds(call.result())
}

func TestIfRunningIsChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.refused(`SELECT tasktable.schedule('{"type": "TEST"}', id => 'one', if_running => 'twice')`,
		"if_running must be 'again' or null")
	task := base("one")
	task.IfRunning = "twice"
	if _, err := b.Tasks.Schedule(b.Ctx, noDB(b), task); err == nil {
		t.Error("no error")
	}
}
