package store_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

// many schedules tasks of those ids by one call, as another goroutine.
func (b *bench) many(ids ...string) *later[[]store.Receipt] {
	b.Helper()
	return start(b, func(conn *pgxpool.Conn) ([]store.Receipt, error) {
		return b.Tasks.ScheduleMany(b.Ctx, conn, moved(ids, "event:1"))
	})
}

// ends demands that none of the calls is the victim of a deadlock.
func ends[T any](b *bench, calls ...*later[T]) {
	b.Helper()
	for _, call := range calls {
		b.succeeds(call.result())
	}
}

// The first call finds that another transaction has inserted its first task meanwhile, and goes on to insert the
// others. If it locked the first task only after the last one, it would wait for the second call, and that one for it.
func TestBulkCallsThatInsertTheSameTasksDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := make([]string, 25)
	for i := range ids {
		ids[i] = fmt.Sprintf("task %02d", i)
	}
	insert := func(id string) pgx.Tx {
		tx := b.Begin(pgx.TxOptions{})
		b.succeeds(b.Tasks.Schedule(b.Ctx, tx, base(id)))
		return tx
	}
	first, middle := insert(ids[0]), insert(ids[12])
	one := b.many(ids...).blockedBy(first)
	b.Check(first.Commit(b.Ctx))
	one.blockedBy(middle)
	two := b.many(ids...).blocked()
	b.Check(middle.Rollback(b.Ctx))
	ends(b, one, two)
}

// An edit of an occurrence that waits locks the occurrence, and then, by a trigger, the recurring task.
func TestBulkCallsAndAnEditOfAnOccurrenceDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(recurs("job"))
	occurrence := "job@2100-01-01T09:00:00Z"
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at, parent_id)
		VALUES ($1, '{"type": "TEST"}', '2100-01-01 12:00Z', 'job')`, occurrence)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET open_occurrences_from = '2100-01-01 11:00Z' WHERE id = 'job'`)
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT FROM tasktable.scheduled_tasks WHERE id = 'job' FOR UPDATE`)
	bulk := b.many("job", occurrence).blocked()
	edit := start(b, func(conn *pgxpool.Conn) ([]store.Receipt, error) {
		receipt, err := b.Tasks.Reschedule(b.Ctx, conn, occurrence, far(0))
		return []store.Receipt{receipt}, err
	}).blocked()
	b.Check(tx.Rollback(b.Ctx))
	ends(b, bulk, edit)
}

// The rows lie in the table in another order than that of their ids.
func TestEraseAndBulkCallsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"z", "a"} {
		task := base(id)
		task.Entity = "event:1"
		b.Schedule(task)
	}
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT FROM tasktable.scheduled_tasks WHERE id = 'a' FOR UPDATE`)
	bulk := b.many("z", "a").blocked()
	erase := start(b, func(conn *pgxpool.Conn) (store.Erasure, error) {
		return b.Tasks.EraseEntity(b.Ctx, conn, "event:1")
	}).blocked()
	b.Check(tx.Rollback(b.Ctx))
	ends(b, bulk)
	ends(b, erase)
}
