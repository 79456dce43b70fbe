package taskdb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// countedTx counts the statements that are sent through it.
type countedTx struct {
	pgx.Tx
	statements int
}

func (c *countedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c.statements++
	return c.Tx.Exec(ctx, sql, args...)
}

func (c *countedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.statements++
	return c.Tx.Query(ctx, sql, args...)
}

// A group of tasks with follow-ups takes as many statements as one task does: each statement is a round trip.
func TestFollowUpsOfAGroupShareStatements(t *testing.T) {
	b := newBench(t)
	const n = 60
	for i := range n {
		b.Due(fmt.Sprintf("asks %02d", i))
	}
	holds := b.Take(noon)
	var group []taskdb.Settlement
	for i := range n {
		h := holds[fmt.Sprintf("asks %02d", i)]
		group = append(group, enginetest.FollowedBy(h,
			store.Task{ID: fmt.Sprintf("own %02d", i), Payload: job{Name: "own"}, At: noon},
			store.Task{ID: "shared", Payload: job{Name: h.ID}, At: noon},
		))
	}
	const most = 4 // lock, settle, schedule, say who asked
	b.InTx(func(tx pgx.Tx) {
		counted := &countedTx{Tx: tx}
		done, err := b.SettleAll(t.Context(), counted, &noon, nil, "test", group)
		b.OK(err)
		if slices.ContainsFunc(done, func(s taskdb.SettleResult) bool { return !s.Settled }) || len(done) != n {
			t.Errorf("settled %+v", done)
		}
		if counted.statements > most {
			t.Errorf("%d statements for %d tasks, want %d at most", counted.statements, n, most)
		}
	})
	for i := range n {
		b.Expect("each is scheduled by the task that asked for it", fmt.Sprintf("own %02d", i), fmt.Sprintf(`
			QUEUED rev=1 attempt=0 scheduled=noon next=noon
			1 schedule created by task asks %02d`, i))
	}
	shared, err := enginetest.Tasks.History(t.Context(), b.Pool, "shared")
	b.OK(err)
	if len(shared.Changes) != n {
		t.Errorf("%d changes of the follow-up that all ask for, want %d", len(shared.Changes), n)
	}
	row, err := enginetest.Tasks.Get(t.Context(), b.Pool, "shared")
	if err != nil || string(row.Payload) != fmt.Sprintf(`{"name": "asks %d", "type": "JOB"}`, n-1) {
		t.Errorf("the last duplicate did not win: %s, %v", row.Payload, err)
	}
}

// mortal is a task that schedules another one if it dies.
func mortal(maxAttempts int) store.Task {
	return store.Task{ID: "one", Payload: job{Name: "one"}, MaxAttempts: maxAttempts, IfDead: []store.Task{
		{ID: "undo", Payload: job{Name: "undo"}, Queue: "other"}}}
}

func failed(h taskdb.Claim) taskdb.Settlement {
	s := enginetest.Completed(h)
	s.Outcome, s.To, s.Error, s.Message = taskdb.OutcomeFailed, store.StatusFailed, new("oh"), new("oh")
	return s
}

// Each statement of the engine by which a task dies schedules what is to happen then, and no other does.
func TestEachDeathSchedules(t *testing.T) {
	t.Parallel()
	end := func(maxAttempts int, settle func(taskdb.Claim) taskdb.Settlement) func(b *bench) {
		return func(b *bench) { b.End(noon.Add(time.Second), settle(b.TakeOne(mortal(maxAttempts)))) }
	}
	lost := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Lost(h, "its node died") }
	for name, c := range map[string]struct {
		die  func(b *bench)
		dies bool
	}{
		"completed":    {end(5, enginetest.Completed), false},
		"retried":      {end(5, func(h taskdb.Claim) taskdb.Settlement { return enginetest.Retried(h, 0, "oh") }), false},
		"lost":         {end(5, lost), false},
		"lost at last": {end(1, lost), true},
		"failed":       {end(5, failed), true},
		"expired":      {end(5, taskdb.Expired), true},
		"a broken settlement": {func(b *bench) {
			h := b.TakeOne(mortal(5))
			failHeld(b, h)
		}, true},
		"edited meanwhile": {func(b *bench) {
			h := b.TakeOne(mortal(5))
			b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = 'one'`)
			b.End(noon.Add(time.Second), failed(h))
		}, false},
		"expired before its claim": {func(b *bench) {
			task := mortal(5)
			task.At, task.Expiration = noon, time.Minute
			b.Schedule(task)
			b.Take(noon.Add(time.Hour))
		}, true},
		"given up by the leader": {func(b *bench) {
			b.Schedule(mortal(5))
			b.InTx(func(tx pgx.Tx) {
				head, err := b.LockHead(t.Context(), tx, enginetest.Jobs(0, 1).Lane, time.Second)
				if err != nil || head == nil {
					t.Fatal(head, err)
				}
				enginetest.OK(t, b.FailHead(t.Context(), tx, *head, "spoiled"))
			})
		}, true},
		"deleted": {func(b *bench) {
			b.Schedule(mortal(5))
			b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = 'one'`)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.die(b)
			spawned := enginetest.Ask[int](b.Bench, `SELECT count(*) FROM tasktable.scheduled_tasks
				WHERE id = 'undo' AND spawned_by = 'one' AND status = 'QUEUED'`)
			if dies := spawned == 1; dies != c.dies {
				t.Errorf("scheduled: %v, want %v", dies, c.dies)
			}
		})
	}
}

// While an application has the row of the task that is to be scheduled, the death is not recorded: the settle fails
// within a moment as if a lock had timed out, and succeeds when the row is free. It must not wait for long, because
// others wait for it.
func TestDeathBesideALock(t *testing.T) {
	b := newBench(t)
	b.Schedule(store.Task{ID: "undo", Payload: job{Name: "undo"}, Queue: "other"})
	hold := b.TakeOne(mortal(5))
	unlock := enginetest.Lock(t, b.Pool, "undo")
	settle := func() error {
		return pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
			_, err := b.SettleAll(t.Context(), tx, nil, nil, "test", []taskdb.Settlement{failed(hold)})
			return err
		})
	}
	shortest := time.Hour // of some, because the machine may be busy
	for range 5 {
		began := time.Now()
		if err := settle(); !pg.IsTimeout(err) {
			t.Errorf("got %v, want a timeout", err)
		}
		shortest = min(shortest, time.Since(began))
	}
	if shortest > 150*time.Millisecond {
		t.Errorf("it took %s", shortest)
	}
	b.Expect("held still", "one", `
		EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=6m0s
		1 schedule created by test`)
	unlock()
	b.OK(settle())
	if row := enginetest.Await(t, b.Pool, "one", 0, store.StatusFailed); *row.Message != "oh" {
		t.Errorf("message %q", *row.Message)
	}
}

// A task that has just run, and that a death schedules again, starts a second after its last start.
func TestDeathAfterItsTaskHasJustRun(t *testing.T) {
	b := newBench(t)
	undo := store.Task{ID: "undo", Payload: job{Name: "undo"}, At: noon, IfFinished: store.Rearm}
	b.End(noon, enginetest.Completed(b.TakeOne(undo)))
	undo.At = time.Time{}
	b.Schedule(store.Task{ID: "one", Payload: job{Name: "one"}, At: noon, IfDead: []store.Task{undo}})
	b.End(noon, failed(b.Take(noon)["one"]))
	row := enginetest.Await(t, b.Pool, "undo", 0, store.StatusQueued)
	if want := noon.Add(time.Second); !row.NextAttemptAt.Equal(want) {
		t.Errorf("it is due at %s, want %s", row.NextAttemptAt, want)
	}
}

// The tasks that an attempt has asked for in case it is the last are scheduled if it is, and not if its task was edited
// meanwhile.
func TestFollowUpsIfDead(t *testing.T) {
	t.Parallel()
	for name, edited := range map[string]bool{"dead": false, "edited meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			hold := b.TakeOne(store.Task{ID: "one", Payload: job{Name: "one"}})
			if edited {
				b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = 'one'`)
			}
			s := failed(hold)
			s.Effects = handlers.Effects{FollowUps: []store.Task{{ID: "undo", Payload: job{Name: "undo"}}}}
			b.End(noon.Add(time.Second), s)
			var spawned bool
			if err := b.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM tasktable.scheduled_tasks
				WHERE id = 'undo' AND spawned_by = 'one')`).Scan(&spawned); err != nil || spawned == edited {
				t.Errorf("scheduled: %v, %v", spawned, err)
			}
		})
	}
}
