package scheduled

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Whatever is done to a recurring task while a node runs: it does not fire for it.
func TestEditsDoNotFire(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(nil, handlers.Handle(s.handleFired))
	verb := func(do func(id string) (store.Receipt, error), want store.Outcome) func(id string) {
		return func(id string) {
			t.Helper()
			if receipt, err := do(id); err != nil || receipt.Outcome != want {
				t.Errorf("%s: %+v, %v, want %s", id, receipt, err, want)
			}
		}
	}
	again := func(change func(*store.Task), want store.Outcome) func(id string) {
		return verb(func(id string) (store.Receipt, error) {
			task := store.Task{ID: id, Payload: enginetest.Job{Name: id}, Recurrence: &store.Recurrence{Cron: farOff}}
			change(&task)
			return s.tasks.Schedule(t.Context(), s.pool, task)
		}, want)
	}
	pause := verb(
		func(id string) (store.Receipt, error) { return s.tasks.Pause(t.Context(), s.pool, id) }, store.Paused,
	)
	resume := verb(
		func(id string) (store.Receipt, error) { return s.tasks.Resume(t.Context(), s.pool, id) }, store.Queued,
	)
	cancel := verb(
		func(id string) (store.Receipt, error) { return s.tasks.Cancel(t.Context(), s.pool, id) }, store.Cancelled,
	)
	past := time.Now().Add(-1000 * time.Hour)
	edits := map[string][]func(id string){
		"nothing": {again(func(*store.Task) {}, store.Unchanged)},
		"payload": {again(
			func(task *store.Task) { task.Payload = enginetest.Job{Name: "other"} }, store.Rescheduled,
		)},
		"expression": {again(func(task *store.Task) { task.Recurrence.Cron = "@yearly" }, store.Rescheduled)},
		"zone":       {again(func(task *store.Task) { task.Recurrence.TimeZone = "Asia/Tokyo" }, store.Rescheduled)},
		"policy":     {again(func(task *store.Task) { task.Recurrence.CatchUp = store.CatchUpAll }, store.Rescheduled)},
		"long ago": {again(
			func(task *store.Task) { task.At, task.Recurrence.CatchUp = past, store.CatchUpAll }, store.Rescheduled,
		)},
		"hourly": {again(
			func(task *store.Task) { task.At, task.Recurrence.Cron = past, "@hourly" }, store.Rescheduled,
		)},
		"paused": {pause, resume},
		"paused, all": {
			again(func(task *store.Task) { task.Recurrence.CatchUpPaused = store.CatchUpAll }, store.Rescheduled),
			pause, resume,
		},
		"paused, moved": {pause, again(func(task *store.Task) { task.At = past }, store.Rescheduled), resume},
		"cancelled":     {cancel, again(func(*store.Task) {}, store.Rearmed)},
		"cancelled, long ago": {cancel, again(func(task *store.Task) {
			task.At, task.Recurrence.CatchUp, task.Recurrence.Cron = past, store.CatchUpAll, "@hourly"
		}, store.Rearmed)},
		"SQL": {func(id string) {
			s.exec(`UPDATE tasktable.scheduled_tasks SET priority = 7, cron = '@weekly', overlap = NULL
				WHERE id = $1`, id)
		}},
		"SQL pause": {func(id string) {
			s.exec(`UPDATE tasktable.scheduled_tasks SET status = 'PAUSED', catch_up_paused = 'all' WHERE id = $1`, id)
			s.exec(`UPDATE tasktable.scheduled_tasks SET status = 'QUEUED' WHERE id = $1`, id)
		}},
	}
	var ids []string
	for id := range edits {
		s.recur(id, store.Recurrence{Cron: farOff})
		ids = append(ids, id)
	}
	s.planned(ids...)
	for id, list := range edits {
		for _, edit := range list {
			edit(id)
		}
	}
	s.planned(ids...)
	s.schedule("after", nil) // the leader has made its pass
	s.begins("after").end <- nil
	for _, id := range ids {
		row := enginetest.Await(t, s.pool, id, patience, store.StatusQueued)
		if lines := s.lines(id); len(lines) != 0 || row.OccurrenceCount != 0 || row.StartedAt != nil ||
			row.NextAttemptAt.Before(time.Now().Add(-time.Second)) {
			t.Errorf("%s has fired: %+v, %+v", id, lines, row)
		}
	}
}

// A task that is edited on and on fires each second all the same, and once.
func TestEditsLoseNoFire(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	const id = "edited"
	edit := func(n int) {
		s.schedule(id, func(task *store.Task) {
			task.Payload, task.Recurrence = enginetest.Job{Name: fmt.Sprint(n)}, &store.Recurrence{
				Cron: eachSecond, CatchUp: store.CatchUpAll, Overlap: store.OverlapAllow,
			}
		})
	}
	n := 0
	enginetest.Eventually(t, 30*time.Second, "it has fired four times", func() bool {
		edit(n)
		n++
		s.planned(id)
		return s.count(`SELECT occurrence_count FROM tasktable.scheduled_tasks WHERE id = $1`, id) >= 4
	})
	if _, err := s.tasks.Cancel(t.Context(), s.pool, id); err != nil {
		t.Fatal(err)
	}
	lines := s.lines(id)
	t.Logf("%d edits, %d fires", n, len(lines))
	if missing := gaps(lines, time.Second); missing != nil {
		t.Errorf("it did not fire at %v", missing)
	}
	for _, one := range lines {
		s.is(one.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	if row := s.is(id, store.StatusCancelled); row.OccurrenceCount != len(lines) {
		t.Errorf("counts %d of %d occurrences", row.OccurrenceCount, len(lines))
	}
}

// Of the fires missed while it was paused, by itself or with its queue, a task runs as many as it wishes;
// by default, none.
func TestFiresMissedWhilePaused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 50, "side": 50} },
		handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	policies := map[string]store.CatchUp{}
	var alone, ids []string // those paused by themselves, and all
	for _, policy := range []store.CatchUp{"", store.CatchUpNone, store.CatchUpLatest, store.CatchUpAll} {
		for _, queue := range []string{"default", "side"} {
			id := queue + " " + string(policy)
			s.schedule(id, func(task *store.Task) {
				// What applies to other missed fires is another thing.
				task.Queue, task.Recurrence = queue, &store.Recurrence{
					Cron: eachSecond, CatchUp: store.CatchUpAll, CatchUpPaused: policy, Overlap: store.OverlapAllow,
				}
			})
			if ids, policies[id] = append(ids, id), policy; queue == "default" {
				alone = append(alone, id)
			}
		}
	}
	fired := func(after time.Time) func() bool {
		return func() bool {
			return s.count(`SELECT count(*) FROM tasktable.recurring_tasks WHERE last_fire > $1`, after) == len(ids)
		}
	}
	enginetest.Eventually(t, patience, "all have fired", fired(time.Time{}))
	if outcome, err := s.tasks.PauseScope(
		t.Context(), s.pool, store.Queue("side"), time.Time{}, "to see",
	); err != nil || outcome != store.Paused {
		t.Fatalf("%s, %v", outcome, err)
	}
	for _, id := range alone {
		if receipt, err := s.tasks.Pause(t.Context(), s.pool, id); err != nil || receipt.Outcome != store.Paused {
			t.Fatalf("%+v, %v", receipt, err)
		}
	}
	paused := s.now()
	s.passes(paused.Truncate(time.Second).Add(3500 * time.Millisecond))
	last := map[string]time.Time{} // what was due a moment before the pause may have been caught by it
	for _, id := range ids {
		row, err := enginetest.Tasks.Get(t.Context(), s.pool, id)
		if err != nil {
			t.Fatal(err)
		}
		if last[id] = *row.StartedAt; row.StartedAt.After(paused) {
			t.Errorf("%s fired at %s, paused before %s", id, row.StartedAt, paused)
		}
	}
	if _, err := s.tasks.ResumeScope(t.Context(), s.pool, store.Queue("side")); err != nil {
		t.Fatal(err)
	}
	for _, id := range alone {
		if receipt, err := s.tasks.Resume(t.Context(), s.pool, id); err != nil || receipt.Outcome != store.Queued {
			t.Fatalf("%+v, %v", receipt, err)
		}
	}
	enginetest.Eventually(t, patience, "all have fired since", fired(s.now()))
	for _, id := range ids {
		if _, err := s.tasks.Cancel(t.Context(), s.pool, id); err != nil {
			t.Fatal(err)
		}
		s.judgePaused(id, last[id], policies[id])
	}
	enginetest.Eventually(t, patience, "all occurrences have ended", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE finished_at IS NULL`) == 0
	})
}

// now is the database's time.
func (s *stage) now() (now time.Time) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		s.t.Fatal(err)
	}
	return now
}

// judgePaused looks at the fires of a task that was paused, after the last one before that.
func (s *stage) judgePaused(id string, last time.Time, policy store.CatchUp) {
	t := s.t
	t.Helper()
	alone := strings.HasPrefix(id, "default")
	var paused, resumed, changed time.Time
	err := s.pool.QueryRow(t.Context(), `SELECT p.paused_at, p.ends_at::timestamptz,
		coalesce(c.changed_at, p.ends_at::timestamptz) FROM tasktable.pauses AS p
		LEFT JOIN tasktable.scheduled_task_changes AS c ON c.task_id = $1
			AND c.verb = 'resume'`, id).Scan(&paused, &resumed, &changed)
	if err != nil {
		t.Fatal(err)
	}
	if alone {
		resumed = changed
	} else if tick := paused.Truncate(time.Second); tick.After(last) {
		last = tick // due before its queue was paused: that one runs
	}
	var missed []line
	for _, one := range s.lines(id) {
		switch {
		case !one.Fire.After(last):
		case !one.Fire.After(resumed):
			missed = append(missed, one)
		case one.Status == store.StatusSkipped:
			t.Errorf(
				"%s: the fire at %s was skipped, resumed at %s: %s", id, one.Fire, resumed, taskdb.TextOf(one.Message),
			)
		}
	}
	fires := int(resumed.Sub(last) / time.Second)
	runs, reason := 0, "missed while paused, and catch_up_paused is none"
	switch policy {
	case store.CatchUpAll:
		runs = fires
	case store.CatchUpLatest:
		runs, reason = 1, "missed while paused, and catch_up_paused runs only the latest"
	}
	skipped := inStatus(missed, store.StatusSkipped)
	if len(missed) != fires || len(missed)-len(skipped) != runs ||
		runs > 0 && missed[fires-1].Status == store.StatusSkipped {
		t.Errorf(
			"%s missed %d fires, of which %d ran, want %d of %d: last %s, resumed %s: %v", id, len(missed),
			len(missed)-len(skipped), runs, fires, last, resumed, missed,
		)
	}
	for _, one := range skipped {
		if taskdb.TextOf(one.Message) != reason {
			t.Errorf("%s: the fire at %s was skipped: %s", id, one.Fire, taskdb.TextOf(one.Message))
		}
	}
}
