package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// verbTable says what each verb comes to, by the row it meets: a column for each of the first rowKinds. A row that a
// claim holds, although it is QUEUED, PAUSED or CANCELLED, comes to the same, but it cannot be deleted.
//
//	verb          absent  QUEUED      PAUSED      EXECUTING   CANCELLED  COMPLETED FAILED    EXPIRED   SKIPPED
const verbTable = `
other_time    created rescheduled rescheduled rescheduled rearmed    rearmed   rearmed   rearmed   rearmed
other_field   created rescheduled rescheduled rescheduled rearmed    finished  finished  finished  finished
both          created rescheduled rescheduled rescheduled rearmed    rearmed   rearmed   rearmed   rearmed
identical     created unchanged   unchanged   unchanged   rearmed    finished  finished  finished  finished
at_zero       created unchanged   unchanged   unchanged   rearmed    finished  finished  finished  finished
at_zero_field created rescheduled rescheduled rescheduled rearmed    finished  finished  finished  finished
rearm_time    created rescheduled rescheduled rescheduled rearmed    rearmed   rearmed   rearmed   rearmed
rearm_same    created unchanged   unchanged   unchanged   rearmed    finished  finished  finished  finished
rearm_zero    created unchanged   unchanged   unchanged   rearmed    rearmed   rearmed   rearmed   rearmed
keep_zero     created unchanged   unchanged   unchanged   rearmed    finished  finished  finished  finished
keep_time     created rescheduled rescheduled rescheduled rearmed    finished  finished  finished  finished
keep_field    created rescheduled rescheduled rescheduled rearmed    finished  finished  finished  finished
keep_same     created unchanged   unchanged   unchanged   rearmed    finished  finished  finished  finished
re_other      absent  rescheduled rescheduled rescheduled rearmed    rearmed   rearmed   rearmed   rearmed
re_same       absent  unchanged   unchanged   unchanged   rearmed    finished  finished  finished  finished
cancel        absent  cancelled   cancelled   cancelled   unchanged  finished  finished  finished  finished
pause         absent  paused      unchanged   paused      finished   finished  finished  finished  finished
resume        absent  unchanged   queued      unchanged   finished   finished  finished  finished  finished
run_now       absent  queued      queued      again       queued     queued    queued    queued    queued
retry         absent  unchanged   unchanged   unchanged   unchanged  finished  queued    queued    finished
delete        absent  deleted     deleted     running     deleted    deleted   deleted   deleted   deleted`

func TestEachVerbOnEachRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	columns := rowKinds[:slices.Index(rowKinds, "held QUEUED")]
	for line := range strings.Lines(strings.TrimSpace(verbTable)) {
		cells := strings.Fields(line)
		if len(cells) != 1+len(columns) {
			t.Fatalf("%d cells in the line %q", len(cells), line)
		}
		for _, kind := range rowKinds {
			status, held := strings.CutPrefix(kind, "held ")
			verb, id := cells[0], cells[0]+" "+kind
			outcome := store.Outcome(cells[1+slices.Index(columns, status)])
			if held && verb == "delete" {
				outcome = store.Running
			}
			b.each(verb+"/"+kind, func(b *bench) {
				b.Make(id, kind)
				b.checkCall(id, lineVerb(verb), outcome, func() (store.Receipt, error) { return b.do(verb, id), nil },
					func(w *want) { expected(w, verb, outcome) })
			})
		}
	}
}

// do does the verb of a line of verbTable.
func (b *bench) do(verb, id string) store.Receipt {
	b.Helper()
	return b.doOn(b.Pool, verb, id)
}

func (b *bench) doOn(db store.DB, verb, id string) store.Receipt {
	b.Helper()
	task := base(id)
	if strings.HasPrefix(verb, "keep_") {
		task.IfFinished = store.Keep
	}
	if strings.HasPrefix(verb, "rearm_") {
		task.IfFinished = store.Rearm
	}
	if isZero(verb) {
		task.At = time.Time{}
	}
	switch verb {
	case "other_time", "keep_time", "rearm_time":
		task.At = far(5)
	case "other_field", "keep_field", "at_zero_field":
		task.Payload = payload(2)
	case "both":
		task.At, task.Payload = far(5), payload(2)
	}
	receipt, err := b.call(db, verb, id, task)
	b.Check(err)
	return receipt
}

// lineVerb is the verb in the line of changes of a line of verbTable, or of recurringVerbs.
func lineVerb(verb string) string {
	switch verb {
	case "cancel", "pause", "resume", "run_now", "retry", "delete":
		return verb
	case "pause_until", "pause_other":
		return "pause"
	case "re_other", "re_same":
		return "reschedule"
	}
	return "schedule"
}

// isZero says whether a line of verbTable schedules without a time.
func isZero(verb string) bool {
	return strings.HasPrefix(verb, "at_zero") || strings.HasSuffix(verb, "_zero")
}

func (b *bench) call(db store.DB, verb, id string, task store.Task) (store.Receipt, error) {
	switch verb {
	case "re_other":
		return b.Tasks.Reschedule(b.Ctx, db, id, far(5))
	case "re_same":
		return b.Tasks.Reschedule(b.Ctx, db, id, far(0))
	case "cancel":
		return b.Tasks.Cancel(b.Ctx, db, id)
	case "pause":
		return b.Tasks.Pause(b.Ctx, db, id)
	case "resume":
		return b.Tasks.Resume(b.Ctx, db, id)
	case "run_now":
		return b.Tasks.RunNow(b.Ctx, db, id)
	case "retry":
		return b.Tasks.Retry(b.Ctx, db, id)
	case "delete":
		return b.Tasks.Delete(b.Ctx, db, id)
	default:
		return b.Tasks.Schedule(b.Ctx, db, task)
	}
}

// A month has no fixed length, and a recurring task fires at its own times.
func TestDelayOfRetry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "FAILED")
	b.MakeRecurring("recurring", "FAILED")
	for _, delay := range []string{"-1 second", "25 hours", "1200 month -36000 days"} {
		b.refused(`SELECT tasktable.retry('one', delay => $1::interval)`,
			"delay of retry must be from 0 to 24 hours, without months", delay)
	}
	b.refused(`SELECT tasktable.retry('recurring', delay => '1 hour')`,
		"delay of retry must be null for the recurring task")
	for _, id := range []string{"one", "recurring"} {
		same(b, id, b.Get(id).Status, store.StatusFailed)
	}
	b.Exec(b.Pool, `SELECT tasktable.retry('one', delay => '1 day'), tasktable.retry('recurring', delay => '0')`)
	if late := one[time.Duration](b, b.Pool, `SELECT run_now_at - now() FROM tasktable.scheduled_tasks
		WHERE id = 'one'`); late < 23*time.Hour || late > 24*time.Hour {
		t.Errorf("due in %s", late)
	}
}

func wrote(outcome store.Outcome) bool {
	switch outcome {
	case store.Unchanged, store.Finished, store.Running, store.Absent:
		return false
	default:
		return true
	}
}

// askedRevision is the revision in the idempotency key of a row that a verb has written.
func askedRevision(before, after *store.Row) int64 {
	if before == nil || string(before.Payload) != string(after.Payload) || !before.ScheduledAt.Equal(after.ScheduledAt) ||
		before.Status == store.StatusCompleted && after.Status != store.StatusCompleted {
		return after.Revision
	}
	return before.AskedRevision
}

// pausesClaim says whether a verb pauses a task whose claim is current, or wants it once more: that draws no revision.
func pausesClaim(verb string, before *store.Row) bool {
	return (verb == "pause" || verb == "run_now") && before != nil && before.Status == store.StatusExecuting
}

func revisionOf(row *store.Row) int64 {
	if row == nil {
		return 0
	}
	return row.Revision
}
