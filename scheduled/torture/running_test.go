//go:build unix

package torture

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

const (
	runningSQL = `SELECT id::text FROM tasktable.scheduled_tasks WHERE status = 'EXECUTING'
		AND id LIKE $1 || '/%' LIMIT 5`
	lockSQL = `SELECT id FROM tasktable.scheduled_tasks WHERE id = ANY ($1) ORDER BY id FOR UPDATE`
)

// hold locks some rows of running tasks for a while, as an application may that looks before it edits.
func (w *writer) hold() {
	if ids := w.running(); len(ids) > 0 {
		w.lock(ids)
	}
}

// lockSchedule locks a recurring task of the writer's for a while. Nobody edits that task.
func (w *writer) lockSchedule() {
	id := w.recurringID(recurringEdited)
	task := parent(id, "@every 1s", store.OverlapAllow, store.CatchUpLatest, 0)
	if w.hasSchedule {
		w.lock([]string{id})
	} else {
		w.hasSchedule = w.transact([]string{id}, 0, false, w.scheduling(task)) == acknowledged
	}
}

func (w *writer) lock(ids []string) {
	most := int(cmp.Or(w.Hold, 1500*time.Millisecond) / time.Millisecond)
	long := time.Duration(most/5+w.random.IntN(most-most/5)) * time.Millisecond
	w.transact(ids, long, false, func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		_, err := tx.Exec(ctx, lockSQL, ids)
		return nil, err
	})
}

// regret cancels one of the writer's running tasks.
func (w *writer) regret() {
	ids := w.running()
	if len(ids) == 0 {
		return
	}
	w.transact(ids[:1], 0, false, func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		receipt, err := w.tasks.Cancel(ctx, tx, ids[0])
		return []deed{did("cancel", ids[0], receipt)}, err
	})
}

// running lists some of the writer's running tasks.
func (w *writer) running() (ids []string) {
	_ = w.ask(func(ctx context.Context) error { // if nobody can be asked, there are none
		return collect(ctx, w.pool, &ids, pgx.RowTo[string], runningSQL, w.name)
	})
	return ids
}

// longsKept is how many of its long tasks a writer remembers: about those that may run yet.
const longsKept = 4

// long schedules a task of its own that is due at once and runs for longer than a node may be silent. Nobody edits it
// but to run it once more. A short run would have to wait for the last of them, and has none.
func (w *writer) long() {
	if w.Length < minute && w.Work == nil {
		return
	}
	task := store.Task{ID: w.newID("PLAIN"), ExpectedExecutionTime: longTime, MaxAttempts: 20}
	task.Payload = plain{chore{Do: doWork, Nonce: w.random.Int64N(1 << 50), Millis: 3000 + w.random.IntN(4000)}}
	if w.transact([]string{task.ID}, 0, false, w.scheduling(task)) != acknowledged {
		return
	}
	if w.longs = append(w.longs, task); len(w.longs) > longsKept {
		w.longs = w.longs[1:]
	}
}

// onceMore has one of the long tasks run once more: by run_now, or by scheduling it as it is.
func (w *writer) onceMore() {
	if len(w.longs) == 0 {
		return
	}
	task := w.longs[w.random.IntN(len(w.longs))]
	verb, do := "run_now", func(ctx context.Context, tx pgx.Tx) (store.Receipt, error) {
		return w.tasks.RunNow(ctx, tx, task.ID)
	}
	if w.random.IntN(2) == 0 {
		task.IfRunning = store.Again
		verb, do = "schedule", func(ctx context.Context, tx pgx.Tx) (store.Receipt, error) {
			return w.tasks.Schedule(ctx, tx, task)
		}
	}
	wait := time.Duration(w.random.IntN(50)) * time.Millisecond
	w.transact([]string{task.ID}, wait, rollsBack(w.random), func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		receipt, err := do(ctx, tx)
		return []deed{did(verb, task.ID, receipt)}, err
	})
}
