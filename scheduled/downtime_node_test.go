package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// An hour without any node: what was missed runs as each task wishes it, and the table tells the rest.
func TestDowntime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	node := func() (stop func()) {
		return s.node(nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	}
	stop := node()
	// Once a minute, half a minute from here: no fire comes while the test counts them.
	cron := fmt.Sprintf("%d * * * * *", (time.Now().Second()+30)%60)
	tests := map[string]struct {
		recurrence store.Recurrence
		runs       int
		reason     string
	}{
		"latest":  {store.Recurrence{CatchUp: store.CatchUpLatest}, 1, "missed, and catch_up runs only the latest"},
		"default": {store.Recurrence{}, 1, "missed, and catch_up runs only the latest"},
		"all":     {store.Recurrence{CatchUp: store.CatchUpAll}, 60, ""},
		"all, up to 10": {
			store.Recurrence{CatchUp: store.CatchUpAll, CatchUpLimit: 10}, 10,
			"missed, and catch_up runs only the latest 10",
		},
		"none":     {store.Recurrence{CatchUp: store.CatchUpNone}, 0, "missed, and catch_up is none"},
		"overlaps": {store.Recurrence{CatchUp: store.CatchUpAll, Overlap: store.OverlapAllow}, 60, ""},
		"cancels": {
			store.Recurrence{CatchUp: store.CatchUpLatest, Overlap: store.OverlapCancelRunning}, 1,
			"missed, and catch_up runs only the latest",
		},
		"ends": {store.Recurrence{CatchUp: store.CatchUpAll, MaxOccurrences: 7}, 7, ""},
	}
	var ids []string
	for id, test := range tests {
		test.recurrence.Cron = cron
		s.recur(id, test.recurrence)
		ids = append(ids, id)
	}
	s.planned(ids...)
	stop()
	// The fire that was to come in half a minute was to come an hour and half a minute ago.
	s.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = next_attempt_at - interval '60 minutes'`)
	if n := s.count(`SELECT count(*) FROM tasktable.recurring_tasks
		WHERE next_fire BETWEEN clock_timestamp() - interval '1 hour'
		AND clock_timestamp() - interval '59 minutes'`); n != len(tests) {
		t.Fatalf("%d of %d tasks are an hour late", n, len(tests))
	}
	node()
	enginetest.Eventually(t, patience, "all have fired", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.recurring_tasks WHERE last_fire IS NOT NULL`) == len(tests)
	})
	for id, test := range tests {
		status, fires := store.StatusQueued, 60
		if test.recurrence.MaxOccurrences > 0 {
			status, fires = store.StatusCompleted, test.recurrence.MaxOccurrences
		}
		row := s.is(id, status)
		enginetest.Eventually(t, patience, "the occurrences of "+id+" have ended", func() bool {
			return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id = $1
				AND finished_at IS NULL`, id) == 0
		})
		lines := s.lines(id)
		ran, skipped := inStatus(lines, store.StatusCompleted), inStatus(lines, store.StatusSkipped)
		if len(lines) != fires || len(ran) != test.runs || len(skipped) != fires-test.runs ||
			row.OccurrenceCount != test.runs {
			t.Errorf(
				"%s: of %d fires %d ran and %d were skipped, count %d; want %d of %d", id, len(lines), len(ran),
				len(skipped), row.OccurrenceCount, test.runs, fires,
			)
			continue
		}
		if missing := gaps(lines, time.Minute); missing != nil {
			t.Errorf("%s has nothing for %v", id, missing)
		}
		if last := lines[fires-1]; !row.StartedAt.Equal(last.Fire) ||
			test.runs > 0 && last.Status != store.StatusCompleted {
			t.Errorf("%s: the last fire is %+v, by the task's row at %s", id, last, row.StartedAt)
		}
		for _, one := range skipped {
			if taskdb.TextOf(one.Message) != test.reason {
				t.Errorf("%s: the fire at %s was skipped: %s", id, one.Fire, taskdb.TextOf(one.Message))
			}
		}
		if status == store.StatusQueued &&
			(row.NextAttemptAt.Sub(*row.StartedAt) != time.Minute || row.NextAttemptAt.Before(time.Now())) {
			t.Errorf("%s: next fire %s after %s", id, row.NextAttemptAt, row.StartedAt)
		}
	}
}
