package store_test

import (
	"github.com/tasktable/tasktable/store"
)

// checkCall makes a call on a task, and compares all there is of the task with what the outcome stands for. It also
// expects a line of changes by verb. expect makes of the row before the call the row after it. If it is nil, the call
// writes nothing to the task.
func (b *bench) checkCall(
	id, verb string, outcome store.Outcome, call func() (store.Receipt, error), expect func(*want),
) {
	b.Helper()
	before, from := b.state(id), b.Now()
	receipt, err := call()
	b.Check(err)
	until, after := b.Now(), b.state(id)
	same(b, "receipt", receipt, store.Receipt{ID: id, Outcome: outcome, Revision: revisionOf(after.Row)})
	w := &want{b: b, before: before.Row, found: after.Row, from: from, until: until}
	switch {
	case !wrote(outcome) || expect == nil:
		b.checkWhole(before, after, before.Row, "", "", "")
		return
	case outcome == store.Deleted:
		b.checkWhole(before, after, nil, verb, string(outcome), service)
		return
	case after.Row == nil:
		b.Fatalf("%s: the row is gone", id)
	case before.Row != nil:
		w.row = *before.Row
	default:
		w.row.ID, w.row.ScheduledBy = id, pointerTo(service)
	}
	expect(w)
	b.checkWhole(before, after, &w.row, verb, string(outcome), service)
	if at := after.Changes[len(after.Changes)-1].ChangedAt; at.Before(from) || at.After(until) {
		b.Errorf("changed_at is %v, not within the call, %v to %v", at, from, until)
	}
}

// expected makes of a row what a line of verbTable makes of it, worked out apart from the SQL.
func expected(w *want, verb string, outcome store.Outcome) {
	w.b.Helper()
	r := &w.row
	if w.before == nil {
		w.hold(base(r.ID))
	}
	edit(r, verb)
	if w.before == nil && isZero(verb) || outcome == store.Rearmed && verb == "rearm_zero" {
		r.ScheduledAt = *w.during("scheduled_at", &w.found.ScheduledAt)
	}
	status := store.StatusQueued
	switch {
	case outcome == store.Paused, outcome == store.Rescheduled && r.Status == store.StatusPaused:
		status = store.StatusPaused
	case outcome == store.Cancelled:
		status = store.StatusCancelled
	case outcome == store.Rearmed:
		r.RunNowAt = nil
	case outcome == store.Queued && verb != "resume":
		r.RunNowAt = w.during("run_now_at", w.found.RunNowAt)
	}
	switch {
	case !pausesClaim(verb, w.before):
		w.become(status)
	case outcome == store.Paused:
		r.Status, r.LastStatusUpdate = status, *w.during("last_status_update", &w.found.LastStatusUpdate)
	}
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
