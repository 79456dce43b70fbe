package store_test

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
)

// want is a row as it should be after a call, with what it takes to say so.
type want struct {
	b           *bench
	row         store.Row
	before      *store.Row // nil: there was none
	found       *store.Row // whose times count, if they lie within the call
	from, until time.Time
}

// during is a time that the database's clock gave in the call.
func (w *want) during(what string, at *time.Time) *time.Time {
	w.b.Helper()
	if at == nil || at.Before(w.from) || at.After(w.until) {
		w.b.Errorf("%s is %v, not within the call, %v to %v", what, at, w.from, w.until)
	}
	return at
}

// hold puts the fields of a task into the row, with the defaults for those it leaves zero; the time
// stays if it is zero.
func (w *want) hold(task store.Task) {
	w.b.Helper()
	r := &w.row
	r.Payload, r.Type = []byte(fmt.Sprintf(`{"n": %d, "type": "TEST"}`, payloadOf(task))), "TEST"
	r.Entity, r.TenantID = &task.Entity, &task.TenantID
	r.Queue, r.Priority, r.MaxAttempts = task.Queue, task.Priority, 10
	r.Expiration, r.ExpectedExecutionTime = &task.Expiration, 5*time.Minute
	r.Jitter, r.Retention = orNone(task.Jitter), orNone(task.Retention)
	if r.Queue == "" {
		r.Queue = "default"
	}
	if !task.At.IsZero() {
		r.ScheduledAt = task.At
	}
	r.Cron, r.TimeZone, r.Overlap, r.CatchUp, r.CatchUpPaused, r.CatchUpLimit, r.EndsAt, r.MaxOccurrences = nil, nil,
		nil, nil, nil, nil, nil, nil
	if of := task.Recurrence; of != nil {
		r.Cron, r.TimeZone = &of.Cron, pointerTo(orDefault(of.TimeZone, "UTC"))
		r.Overlap = pointerTo(orDefault(of.Overlap, store.OverlapSkip))
		r.CatchUp, r.CatchUpPaused = pointerTo(orDefault(of.CatchUp, store.CatchUpLatest)), pointerTo(orDefault(
			of.CatchUpPaused, store.CatchUpNone,
		))
		r.CatchUpLimit, r.EndsAt, r.MaxOccurrences = pointerTo(
			orDefault(of.CatchUpLimit, 100),
		), orNone(of.EndsAt), orNone(of.MaxOccurrences)
	}
}

func payloadOf(task store.Task) (n int) {
	_, _ = fmt.Sscanf(string(task.Payload.(store.JSON)), `{"type": "TEST", "n": %d}`, &n)
	return n
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func orNone[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// become fills in what follows from the row's new status: its content, if edited, is there already.
func (w *want) become(status store.Status) {
	w.b.Helper()
	r, was := &w.row, w.before
	if was != nil && w.found.Revision <= was.Revision {
		w.b.Errorf("revision %d after %d", w.found.Revision, was.Revision)
	}
	r.Status, r.Revision = status, w.found.Revision
	r.AskedRevision = askedRevision(was, r)
	moved := was != nil && !was.ScheduledAt.Equal(r.ScheduledAt)
	owed := was != nil && was.Cron != nil && r.Cron != nil && was.Status == "QUEUED" && status == "QUEUED" && !moved &&
		was.PlannedRevision != nil && *was.PlannedRevision == was.Revision && was.NextAttemptAt.Before(w.from)
	switch {
	case was == nil:
		r.CreatedAt, r.LastStatusUpdate = *w.during("created_at", &w.found.CreatedAt), *w.during(
			"last_status_update", &w.found.LastStatusUpdate,
		)
	case was.Status != status:
		r.LastStatusUpdate = *w.during("last_status_update", &w.found.LastStatusUpdate)
	}
	waits := status == "QUEUED" || status == "PAUSED"
	// A plain task that waits is paused or resumed, and nothing else: that is no edit.
	pauses := waits && was != nil && was.Cron == nil && was.Fence == nil && was.FinishedAt == nil &&
		(was.Status == "PAUSED") != (status == "PAUSED") && !moved && w.found.RunNowAt == was.RunNowAt
	if waits && !pauses {
		r.Attempt = 0
	}
	switch {
	case waits && was != nil && was.FinishedAt != nil: // it begins anew
		r.FinishedAt, r.Message, r.Result, r.StartedAt = nil, nil, nil, nil
		if moved && status == "QUEUED" {
			r.OccurrenceCount = 0
		}
	case !waits && was == nil && r.FinishedAt != nil: // it was given
	case !waits && (was == nil || was.Status != status):
		r.FinishedAt = w.during("finished_at", w.found.FinishedAt)
	}
	if status != "PAUSED" {
		r.PausedUntil = nil
	}
	if status != "FAILED" && status != "EXPIRED" {
		r.ArchivedAt, r.ArchivedNote = nil, nil
	}
	r.NextAttemptAt = nil
	switch {
	case owed:
		r.NextAttemptAt, r.PlannedRevision = was.NextAttemptAt, &r.Revision
	case r.Cron == nil:
		r.PlannedRevision = nil
		if status == "QUEUED" && r.Fence == nil {
			r.NextAttemptAt = cmp.Or(r.RunNowAt, &r.ScheduledAt)
		}
	case status == "QUEUED" && !moved && was != nil && was.Status == "QUEUED" && was.NextAttemptAt != nil &&
		was.Cron != nil &&
		*was.Cron == *r.Cron && *was.TimeZone == *r.TimeZone && deref(was.TenantID) == deref(r.TenantID) &&
		(was.PlannedRevision == nil || *was.PlannedRevision != was.Revision):
		r.NextAttemptAt = was.NextAttemptAt // still to be planned from the earlier edit on: what came since is not lost
	case status == "QUEUED":
		r.NextAttemptAt = w.during("next_attempt_at", w.found.NextAttemptAt)
	}
}

func digits(n *int) any {
	if n == nil {
		return nil
	}
	return float64(*n)
}

// checkWhole compares a task with its row as wanted and one more change line, by verb; with no line if verb is "".
func (b *bench) checkWhole(before, after state, row *store.Row, verb, outcome, by string) {
	b.Helper()
	expected := state{Row: row, Version: before.Version, Changes: before.Changes}
	if verb != "" {
		if len(after.Changes) != len(before.Changes)+1 {
			b.Fatalf("%d change lines instead of one", len(after.Changes)-len(before.Changes))
		}
		found := after.Changes[len(after.Changes)-1]
		line := store.Change{
			TaskID: found.TaskID, Verb: verb, Outcome: outcome, ChangedAt: found.ChangedAt, ChangedBy: by,
			Revision: found.Revision,
		}
		switch {
		case before.Row == nil:
			line.Revision = row.Revision
			line.New = encoded(b, map[string]any{
				"status": string(row.Status), "type": row.Type, "scheduled_at": instant(&row.ScheduledAt),
			})
		case row == nil:
			line.Old = encoded(b, content(before.Row))
		default:
			if after.Row.Revision != before.Row.Revision {
				line.Revision = after.Row.Revision
			}
			was, is := edits(before.Row, row)
			line.Old, line.New = encoded(b, was), encoded(b, is)
			if outcome == string(store.RunsAgain) {
				line.Old, line.New = found.Old, found.New // again_at, which is no field of a Row
			}
		}
		if before.Row != nil && found.Revision <= before.Row.Revision { // of the row, or a number of its own
			b.Errorf("the line has number %d after revision %d", found.Revision, before.Row.Revision)
		}
		expected.Version, expected.Changes = after.Version, append(
			expected.Changes[:len(expected.Changes):len(expected.Changes)], line,
		)
	}
	same(b, "task", after, expected)
}
