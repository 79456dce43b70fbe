package store_test

import (
	"testing"

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
	for _, verb := range []string{"many", "other_field", "re_other", "pause", "resume", "run_now", "cancel"} {
		b.Schedule(base("a"))
		for order, first := range []bool{true, false} {
			one, other := b.Begin(pgx.TxOptions{}), b.Begin(pgx.TxOptions{})
			b.Exec(one, `SET LOCAL lock_timeout = '5s'`)
			b.Exec(other, `SET LOCAL lock_timeout = '5s'`)
			if first {
				b.Exec(one, refer)
			}
			if verb == "many" {
				b.succeeds(b.Tasks.ScheduleMany(b.Ctx, other, []store.Task{base("a"), base("b")}))
			} else {
				b.doOn(other, verb, "a")
			}
			if _, err := one.Exec(b.Ctx, refer); err != nil {
				t.Errorf("%s, order %d: the row that refers to the task: %v", verb, order, err)
			}
			b.Check(one.Rollback(b.Ctx))
			b.Check(other.Commit(b.Ctx))
		}
	}
}
