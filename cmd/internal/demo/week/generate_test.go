package week

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// The calendar of a week depends on the hour and on the weekday.
func TestGenerateAtAnyHour(t *testing.T) {
	t.Parallel()
	for hours := 0; hours < 7*24; hours += 41 {
		now := time.Date(2026, 3, 25, hours, 13, 7, 0, time.UTC)
		w := newWeek(now, uint64(hours))
		w.generate()
		for _, x := range w.executions {
			if !x.fence.at.After(x.revision.at) || x.endedAt.Before(x.fence.at) || x.endedAt.After(w.until) ||
				x.startedAt.Before(x.dueAt) && !x.startedAt.IsZero() {
				t.Errorf("%s: task %s, revision at %s: claimed %s, due %s, started %s, %s at %s", now, x.task.id,
					x.revision.at, x.fence.at, x.dueAt, x.startedAt, x.outcome, x.endedAt)
			}
		}
		for _, n := range w.numbers {
			if n.at.After(w.until) {
				t.Errorf("%s: a number of %s", now, n.at)
			}
		}
		w.checkReminders(t)
	}
}

// checkReminders compares the waiting reminders with the events, as the demo's script does.
func (w *week) checkReminders(t *testing.T) {
	t.Helper()
	waiting := map[*task]bool{}
	for _, one := range w.tasks {
		if one.kind == "SEND_EVENT_REMINDER" && one.waits() && !one.deleted {
			waiting[one] = true
			if one.next.Before(w.now.Add(quietStart)) {
				t.Errorf("%s: reminder %s is due at %s", w.now, one.id, one.next)
			}
		}
	}
	for _, e := range w.events {
		if !waiting[e.reminder] || e.reminder.status != store.StatusQueued {
			t.Errorf("%s: the reminder of event %s is %s", w.now, e.id, e.reminder.status)
		}
		delete(waiting, e.reminder)
	}
	for one := range waiting {
		t.Errorf("%s: reminder %s waits, and has no event", w.now, one.id)
	}
}
