package taskdb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Waits that follow each other are one line of the history. The row counts them, and keeps the time at which the task
// was due. The next real outcome ends that, and says how many they were.
func TestWaitsAreOneLine(t *testing.T) {
	b := newBench(t)
	at := noon
	end := func(h taskdb.Claim, outcome string, waits bool) taskdb.SettleResult {
		t.Helper()
		at = at.Add(time.Second)
		s := enginetest.Retried(h, time.Minute, "down")
		s.Outcome, s.Refund, s.Waits = outcome, outcome != taskdb.OutcomeRetried, waits
		done := b.End(at, s)
		if len(done) != 1 || !done[0].Settled || !done[0].Current {
			t.Fatalf("settled %+v", done)
		}
		return done[0]
	}
	row := func(want string) {
		t.Helper()
		var got string
		err := b.Pool.QueryRow(t.Context(), `SELECT concat_ws(' ', coalesce(waits, 0),
			'since ' || (waiting_since = $1)::text, 'attempt ' || attempt,
			(SELECT string_agg(outcome || ' ' || error, ', ' ORDER BY fence) FROM tasktable.scheduled_task_executions))
			FROM tasktable.scheduled_tasks`, noon).Scan(&got)
		if err != nil || got != want {
			t.Errorf("got %s, want %s (%v)", got, want, err)
		}
	}
	h := b.TakeOne(store.Task{Payload: job{Name: "waits"}})
	for i := range 5 {
		if done := end(h, taskdb.OutcomeSnoozed, true); done.Folded != (i > 0) {
			t.Errorf("wait %d: %+v", i+1, done)
		}
		row(fmt.Sprintf("%d since true attempt 0 SNOOZED down", i+1))
		at = at.Add(time.Minute)
		h = b.Take(at)["waits"]
	}
	// A claim that comes to nothing does not end the wait.
	end(h, taskdb.OutcomeInterrupted, false)
	row("5 since true attempt 0 SNOOZED down, INTERRUPTED down")
	at = at.Add(time.Minute)
	end(b.Take(at)["waits"], taskdb.OutcomeSnoozed, true)
	at = at.Add(time.Minute)
	end(b.Take(at)["waits"], taskdb.OutcomeRetried, false)
	const lines = "SNOOZED down, INTERRUPTED down, RETRIED down (before that it waited 6 times)"
	row("0 attempt 1 " + lines)
	// A handler's own snooze is a line each time, and no wait.
	for range 2 {
		at = at.Add(time.Minute)
		end(b.Take(at)["waits"], taskdb.OutcomeSnoozed, false)
	}
	row("0 attempt 1 " + lines + ", SNOOZED down, SNOOZED down")
	at = at.Add(time.Minute)
	end(b.Take(at)["waits"], taskdb.OutcomeSnoozed, true)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1`) // an edit is a new beginning
	row("0 attempt 0 " + lines + ", SNOOZED down, SNOOZED down, SNOOZED down")
}
