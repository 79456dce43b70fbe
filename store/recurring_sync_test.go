package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// The occurrences of a recurring task that is to be there are neither listed nor in the way; those of
// another go with it.
func TestSyncAndOccurrences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	daily := func(id string) store.Task {
		task := recurs(id)
		task.Entity = ""
		return task
	}
	sync := func(want []string, tasks ...store.Task) {
		b.Helper()
		receipts, err := b.Tasks.Sync(b.Ctx, b.Pool, "event:1", tasks...)
		b.Check(err)
		same(b, "receipts", outcomes(receipts), want)
	}
	sync([]string{"kept created", "gone created", "plain created"}, daily("kept"), daily("gone"), of("plain"))
	kept := []string{
		b.fork("kept", "2100-01-01 09:00Z"), b.fork("kept", "2100-01-02 09:00Z"),
		b.fork("kept", "2100-01-03 09:00Z", "skipped"),
	}
	gone := []string{b.fork("gone", "2100-01-01 09:00Z"), b.fork("gone", "2100-01-02 09:00Z", "skipped")}
	b.succeeds(b.Tasks.Pause(b.Ctx, b.Pool, kept[1]))
	before := map[string]state{}
	for _, id := range append(kept, "kept", "plain", gone[1]) {
		before[id] = b.state(id)
	}
	sync(
		[]string{"kept unchanged", "plain unchanged", gone[0] + " cancelled", "gone cancelled"}, daily("kept"),
		of("plain"),
	)
	for id, state := range before {
		same(b, id, b.state(id), state)
	}
	sync([]string{"kept unchanged", "plain unchanged"}, daily("kept"), of("plain"))
	for id, state := range before {
		same(b, id, b.state(id), state)
	}

	// One of them may be listed itself; and the occurrences of what recurs no more are as good as any other task.
	plain := of("kept")
	plain.Replace = true
	sync(
		[]string{"kept rescheduled", kept[1] + " rescheduled", kept[0] + " cancelled", "plain cancelled"}, plain,
		of(kept[1]),
	)
	if row := b.Get(kept[1]); row.Status != "PAUSED" || *row.ParentID != "kept" {
		t.Errorf("got %s", pretty(row))
	}
	sync([]string{kept[1] + " cancelled", "kept cancelled"})
}

// As in every bulk call rows are locked in the order of their ids, so that two cannot wait for each other, though the
// oldest are chosen.
func TestRetryOfDeadLettersLocksInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"c", "a", "b"} {
		b.Make(id, "FAILED")
	}
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT 1 FROM tasktable.scheduled_tasks WHERE id = 'b' FOR UPDATE`)
	call := start(b, func(conn *pgxpool.Conn) ([]store.Receipt, error) {
		done, err := b.Inspector.Do(b.Ctx, conn, inspect.Action{Verb: inspect.Retry},
			inspect.Targets{Filter: new(inspect.DeadLetters())})
		return done.Receipts, err
	}).blocked()
	free := one[[]string](b, b.Pool, `SELECT array_agg(id::text)
		FROM (SELECT id FROM tasktable.scheduled_tasks FOR UPDATE SKIP LOCKED) AS t`)
	same(b, "not locked yet", free, []string{"c"})
	b.Check(tx.Rollback(b.Ctx))
	receipts, err := call.result()
	b.Check(err)
	same(b, "receipts", outcomes(receipts), []string{"a queued", "b queued", "c queued"})
}
