package store_test

import (
	"time"

	"github.com/tasktable/tasktable/store"
)

// expected is the row that an outcome stands for, worked out apart from the SQL. Of the row that was found it takes
// the times that the database's clock gave, after a check that they lie within the call.
func (b *bench) expected(
	verb string, outcome store.Outcome, before, found *store.Row, from, until time.Time,
) *store.Row {
	b.Helper()
	if outcome == store.Deleted {
		return nil
	}
	if found == nil {
		b.Fatal("the row is gone")
	}
	w := &want{b: b, before: before, found: found, from: from, until: until}
	if before != nil {
		w.row = *before
	} else {
		w.row.ID, w.row.ScheduledBy = found.ID, pointerTo(service)
		w.hold(base(found.ID))
	}
	edit(&w.row, verb)
	if before == nil && isZero(verb) || outcome == store.Rearmed && verb == "rearm_zero" {
		w.row.ScheduledAt = *w.during("scheduled_at", &found.ScheduledAt)
	}
	status := store.StatusQueued
	switch {
	case outcome == store.Paused, outcome == store.Rescheduled && before.Status == store.StatusPaused:
		status = store.StatusPaused
	case outcome == store.Cancelled:
		status = store.StatusCancelled
	case outcome == store.Rearmed:
		w.row.RunNowAt = nil
	case outcome == store.Queued && verb != "resume":
		w.row.RunNowAt = w.during("run_now_at", found.RunNowAt)
	}
	switch {
	case !pausesClaim(verb, before):
		w.become(status)
	case outcome == store.Paused:
		w.row.Status, w.row.LastStatusUpdate = status, *w.during("last_status_update", &found.LastStatusUpdate)
	}
	return &w.row
}

// edit is what each line of verbTable that schedules changes in base.
func edit(row *store.Row, verb string) {
	switch verb {
	case "other_time", "both", "keep_time", "rearm_time", "re_other":
		row.ScheduledAt = far(5)
	}
	switch verb {
	case "other_field", "both", "keep_field", "at_zero_field":
		row.Payload = []byte(`{"n": 2, "type": "TEST"}`)
	}
}
