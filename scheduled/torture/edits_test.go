//go:build unix

package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// edit changes one of the tasks that the writer knows.
func (w *writer) edit() {
	if len(w.known) == 0 {
		return
	}
	id := w.known[w.random.IntN(len(w.known))]
	w.verb(id, w.ids[id])
}

// verb does something to a task.
func (w *writer) verb(id, kind string) {
	at := w.now().Add(time.Duration(w.random.IntN(1500)-200) * time.Millisecond)
	one := func(verb string, due time.Time, do func(ctx context.Context, tx pgx.Tx) (store.Receipt, error)) {
		w.transact([]string{id}, w.linger(), rollsBack(w.random), func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
			receipt, err := do(ctx, tx)
			done := did(verb, id, receipt)
			done.Due = due
			return []deed{done}, err
		})
	}
	simple := func(verb string, do func(ctx context.Context, db store.DB, id string) (store.Receipt, error)) {
		one(verb, time.Time{}, func(ctx context.Context, tx pgx.Tx) (store.Receipt, error) { return do(ctx, tx, id) })
	}
	switch w.random.IntN(14) {
	case 0, 1:
		one("reschedule", at, func(ctx context.Context, tx pgx.Tx) (store.Receipt, error) {
			return w.tasks.Reschedule(ctx, tx, id, at)
		})
	case 2, 3:
		simple("cancel", w.tasks.Cancel)
	case 4:
		simple("pause", w.tasks.Pause)
	case 5, 6:
		until := at.Add(500 * time.Millisecond)
		w.transact([]string{id}, w.linger(), rollsBack(w.random), func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
			receipt, err := w.tasks.PauseUntil(ctx, tx, id, until)
			done := did("pause", id, receipt)
			done.Until = until
			return []deed{done}, err
		})
	case 7, 8:
		simple("resume", w.tasks.Resume)
	case 9:
		simple("run_now", w.tasks.RunNow)
	case 10:
		simple("retry", w.tasks.Retry)
	case 11:
		w.deleteAndMakeAgain(id, kind)
	default: // priority, expiration and all else become others; the time stays
		task := w.task(id, kind)
		task.At = time.Time{}
		w.transact([]string{id}, w.linger(), rollsBack(w.random), w.scheduling(task))
	}
}

// deleteAndMakeAgain deletes a task, and in the same transaction or the next one makes another of the same id.
func (w *writer) deleteAndMakeAgain(id, kind string) {
	task := w.task(id, kind)
	together := w.random.IntN(2) == 0
	remake := w.scheduling(task)
	deleting := func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		receipt, err := w.tasks.Delete(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		deeds := []deed{did("delete", id, receipt)}
		if !together {
			return deeds, nil
		}
		more, err := remake(ctx, tx)
		return append(deeds, more...), err
	}
	done := w.transact([]string{id}, w.linger(), rollsBack(w.random), deleting)
	if !together && done == acknowledged {
		w.transact([]string{id}, 0, false, remake)
	}
}

// rest pauses a task of its own for about a second. Nobody edits it afterwards.
func (w *writer) rest() {
	task := store.Task{ID: w.newID("PLAIN"), At: w.now().Add(time.Second), ExpectedExecutionTime: w.Expected}
	task.Payload = plain{chore{Do: doWork, Nonce: w.random.Int64N(1 << 50)}}
	until := w.now().Add(time.Duration(500+w.random.IntN(1000)) * time.Millisecond)
	w.transact([]string{task.ID}, 0, false, func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		deeds, err := w.scheduling(task)(ctx, tx)
		if err != nil {
			return nil, err
		}
		receipt, err := w.tasks.PauseUntil(ctx, tx, task.ID, until)
		paused := did("pause", task.ID, receipt)
		paused.Until = until
		return append(deeds, paused), err
	})
}

// pauseScope pauses a type, a queue or everything for a short while.
func (w *writer) pauseScope() {
	p := &pauseEntry{}
	scope := store.Everything()
	switch w.random.IntN(4) {
	case 0:
		p.Type = "RARE"
		scope = store.Type(p.Type)
	case 1:
		p.Type = "IN_TX"
		scope = store.Type(p.Type)
	case 2:
		p.Queue = slowQueue
		scope = store.Queue(p.Queue)
	}
	if !w.opLog.pause(p) {
		return // it is another writer's, which its end would end, too
	}
	if w.ask(func(ctx context.Context) error {
		_, err := w.tasks.PauseScope(ctx, w.pool, scope, time.Time{}, "to see")
		return err
	}) == nil {
		w.opLog.edit(func() { p.Held = time.Now() })
	}
	<-time.After(time.Duration(200+w.random.IntN(1000)) * time.Millisecond)
	w.resumeScope(p, scope)
}

// resumeScope ends a pause, trying until it is done.
func (w *writer) resumeScope(p *pauseEntry, scope store.Scope) {
	w.opLog.edit(func() { p.Resuming = time.Now() })
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		if w.ask(func(ctx context.Context) error {
			_, err := w.tasks.ResumeScope(ctx, w.pool, scope)
			return err
		}) == nil {
			w.opLog.edit(func() { p.Over = time.Now() })
			return
		}
	}
}

func (w *writer) ask(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), opLimit)
	defer cancel()
	return do(ctx)
}

// parent is a recurring task, with its settings.
func parent(id, cron string, overlap store.Overlap, catchUp store.CatchUp, millis int) store.Task {
	return store.Task{
		ID: id, Payload: tick{chore{Do: doWork, Millis: millis}}, ExpectedExecutionTime: expectedTime, MaxAttempts: 50,
		Recurrence: &store.Recurrence{
			Cron: cron, Overlap: overlap, CatchUp: catchUp, CatchUpPaused: catchUp, CatchUpLimit: 1000,
		},
	}
}

// steady are the recurring tasks that nobody edits: of these each single fire can be told.
func steady() []store.Task {
	skip := parent("steady/skip", "@every 1s", store.OverlapSkip, store.CatchUpLatest, 1400)
	// Else the latest fire of the pause and the latest after it are both to run.
	skip.Recurrence.CatchUpPaused = store.CatchUpNone
	return []store.Task{
		skip,
		parent("steady/all", "@every 1s", store.OverlapAllow, store.CatchUpAll, 0),
		parent("steady/fields", "* * * * * *", store.OverlapAllow, store.CatchUpAll, 30),
		parent("steady/latest", "@every 1s", store.OverlapAllow, store.CatchUpLatest, 0),
		parent("steady/cancel", "*/2 * * * * *", store.OverlapCancelRunning, store.CatchUpLatest, 1900),
		parent("steady/none", "@every 1s", store.OverlapAllow, store.CatchUpNone, 0),
	}
}

// recur makes, edits or ends a recurring task of the writer's.
func (w *writer) recur() {
	id := w.recurringID(w.random.IntN(recurringEdited))
	overlaps := []store.Overlap{store.OverlapSkip, store.OverlapAllow, store.OverlapCancelRunning}
	catchUps := []store.CatchUp{store.CatchUpLatest, store.CatchUpAll, store.CatchUpNone}
	task := parent(id, []string{"@every 1s", "* * * * * *", "*/2 * * * * *"}[w.random.IntN(3)],
		overlaps[w.random.IntN(3)], catchUps[w.random.IntN(3)], w.random.IntN(600))
	if w.random.IntN(3) == 0 { // another time: a fire that was due does not happen any more
		task.At = w.now().Add(time.Duration(w.random.IntN(1000)) * time.Millisecond)
	}
	w.transact([]string{id}, w.linger(), rollsBack(w.random), func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
		verb, do := "schedule", func() (store.Receipt, error) { return w.tasks.Schedule(ctx, tx, task) }
		switch w.random.IntN(6) {
		case 0:
			verb, do = "cancel", func() (store.Receipt, error) { return w.tasks.Cancel(ctx, tx, id) }
		case 1:
			verb, do = "pause", func() (store.Receipt, error) { return w.tasks.Pause(ctx, tx, id) }
		case 2:
			verb, do = "resume", func() (store.Receipt, error) { return w.tasks.Resume(ctx, tx, id) }
		case 3:
			verb, do = "run_now", func() (store.Receipt, error) { return w.tasks.RunNow(ctx, tx, id) }
		}
		receipt, err := do()
		d := did(verb, id, receipt)
		if verb == "schedule" {
			d.Content = contentOf(task)
		}
		return []deed{d}, err
	})
}

// recurringEdited is how many recurring tasks a writer edits.
const recurringEdited = 3

// recurringID is the id of one of the writer's recurring tasks.
func (w *writer) recurringID(i int) string { return fmt.Sprintf("%s/recurring/%d", w.name, i) }

// refusedPrefix begins the ids of recurring tasks whose occurrences a trigger of the application refuses.
const refusedPrefix = "refused/"

// refused schedules such a task. The engine fails it.
func (w *writer) refused() {
	task := parent(refusedPrefix+w.newID("TICK"), "@every 1s", store.OverlapAllow, store.CatchUpLatest, 0)
	w.transact([]string{task.ID}, 0, false, w.scheduling(task))
}
