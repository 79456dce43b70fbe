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
	during := func(what string, at *time.Time) *time.Time {
		b.Helper()
		if at == nil || at.Before(from) || at.After(until) {
			b.Errorf("%s is %v, not within the call, %v to %v", what, at, from, until)
		}
		return at
	}
	if outcome == store.Created {
		return expectedNew(verb, found, during)
	}
	want := *before
	edit(&want, verb)
	switch outcome {
	case store.Rescheduled:
		if want.Status != store.StatusPaused {
			want.Status = store.StatusQueued
		}
	case store.Rearmed:
		want.Status, want.RunNowAt = store.StatusQueued, nil
		if verb == "rearm_zero" {
			want.ScheduledAt = *during("scheduled_at", &found.ScheduledAt)
		}
	case store.Cancelled:
		want.Status, want.FinishedAt = store.StatusCancelled, during("finished_at", found.FinishedAt)
	case store.Paused:
		want.Status = store.StatusPaused
	case store.Queued:
		want.Status = store.StatusQueued
		if verb != "resume" {
			want.RunNowAt = during("run_now_at", found.RunNowAt)
		}
	}
	if want.Status != before.Status {
		want.LastStatusUpdate = *during("last_status_update", &found.LastStatusUpdate)
	}
	if !pausesClaim(verb, before) {
		settle(&want, before)
	}
	return &want
}

// settle fills in what follows from the status.
func settle(want, before *store.Row) {
	want.NextAttemptAt = nil
	if want.Status == store.StatusCancelled {
		return
	}
	want.Attempt, want.FinishedAt = 0, nil
	if before.FinishedAt != nil { // it begins anew
		want.Message, want.Result, want.StartedAt = nil, nil, nil
	}
	if want.Status == store.StatusQueued && want.Fence == nil {
		want.NextAttemptAt = &want.ScheduledAt
		if want.RunNowAt != nil {
			want.NextAttemptAt = want.RunNowAt
		}
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

func expectedNew(verb string, found *store.Row, during func(string, *time.Time) *time.Time) *store.Row {
	task, by, hour := base(found.ID), service, time.Hour
	want := &store.Row{
		ID: task.ID, Payload: []byte(`{"n": 1, "type": "TEST"}`), Type: "TEST", Entity: &task.Entity,
		TenantID: &task.TenantID, Queue: "default", Status: store.StatusQueued, ScheduledAt: task.At, Expiration: &hour,
		ExpectedExecutionTime: 5 * time.Minute, MaxAttempts: 10, ScheduledBy: &by,
		CreatedAt:        *during("created_at", &found.CreatedAt),
		LastStatusUpdate: *during("last_status_update", &found.LastStatusUpdate),
	}
	edit(want, verb)
	if isZero(verb) {
		want.ScheduledAt = *during("scheduled_at", &found.ScheduledAt)
	}
	want.NextAttemptAt = &want.ScheduledAt
	return want
}

// expectedLine is the change line of what a verb wrote.
func (b *bench) expectedLine(
	verb string, outcome store.Outcome, before, after state, from, until time.Time,
) store.Change {
	b.Helper()
	if len(after.Changes) != len(before.Changes)+1 {
		b.Fatalf("%d change lines instead of one", len(after.Changes)-len(before.Changes))
	}
	found := after.Changes[len(after.Changes)-1]
	if found.ChangedAt.Before(from) || found.ChangedAt.After(until) {
		b.Errorf("changed_at is %v, not within the call, %v to %v", found.ChangedAt, from, until)
	}
	want := store.Change{
		TaskID: found.TaskID, Verb: verb, Outcome: string(outcome), ChangedAt: found.ChangedAt, ChangedBy: service,
		Revision: revisionOf(after.Row),
	}
	if pausesClaim(verb, before.Row) {
		want.Revision = found.Revision // a number of its own
	}
	switch outcome {
	case store.Created:
		want.New = encoded(b, map[string]any{
			"status": "QUEUED", "type": "TEST", "scheduled_at": instant(&after.Row.ScheduledAt),
		})
	case store.Deleted:
		want.Revision = found.Revision // a number of its own
		want.Old = encoded(b, content(before.Row))
	case store.RunsAgain:
		want.Old, want.New = found.Old, found.New // again_at
	default:
		was, is := edits(before.Row, after.Row)
		want.Old, want.New = encoded(b, was), encoded(b, is)
	}
	switch verb {
	case "cancel", "pause", "resume", "run_now", "retry", "delete":
	case "re_other", "re_same":
		want.Verb = "reschedule"
	default:
		want.Verb = "schedule"
	}
	return want
}
