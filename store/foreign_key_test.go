package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// An application has a table that refers to tasks. A verb does not wait for a transaction that inserts a row there, and
// such a transaction does not wait for a verb.
func TestVerbsAndForeignKeysDoNotWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Exec(b.Pool, `CREATE TABLE public.parcels (task_id text REFERENCES tasktable.scheduled_tasks)`)
	const refer = `INSERT INTO public.parcels VALUES ('a')`
	for _, c := range []struct {
		verb string
		do   func(store.DB) error
	}{
		{"schedule", func(db store.DB) error {
			task := base("a")
			task.Priority = 7
			_, err := b.Tasks.Schedule(b.Ctx, db, task)
			return err
		}},
		{"schedule many", func(db store.DB) error {
			_, err := b.Tasks.ScheduleMany(b.Ctx, db, []store.Task{base("a"), base("b")})
			return err
		}},
		{"reschedule", func(db store.DB) error {
			_, err := b.Tasks.Reschedule(b.Ctx, db, "a", time.Now().Add(time.Hour))
			return err
		}},
		{"pause", func(db store.DB) error { _, err := b.Tasks.Pause(b.Ctx, db, "a"); return err }},
		{"resume", func(db store.DB) error { _, err := b.Tasks.Resume(b.Ctx, db, "a"); return err }},
		{"run now", func(db store.DB) error { _, err := b.Tasks.RunNow(b.Ctx, db, "a"); return err }},
		{"cancel", func(db store.DB) error { _, err := b.Tasks.Cancel(b.Ctx, db, "a"); return err }},
	} {
		b.Schedule(base("a"))
		for order, first := range []bool{true, false} {
			one, other := b.Begin(pgx.TxOptions{}), b.Begin(pgx.TxOptions{})
			b.Exec(one, `SET LOCAL lock_timeout = '5s'`)
			b.Exec(other, `SET LOCAL lock_timeout = '5s'`)
			if first {
				b.Exec(one, refer)
			}
			if err := c.do(other); err != nil {
				t.Errorf("%s, order %d: the verb: %v", c.verb, order, err)
			} else if _, err := one.Exec(b.Ctx, refer); err != nil {
				t.Errorf("%s, order %d: the row that refers to the task: %v", c.verb, order, err)
			}
			b.Check(one.Rollback(b.Ctx))
			b.Check(other.Commit(b.Ctx))
		}
	}
}
