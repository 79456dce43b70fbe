package inspect_test

import (
	"strings"
	"testing"
	"time"
)

// A task that waits for something that is out of order is late since it was due, although its next attempt is in the
// future. Every way to ask about it says so.
func TestATaskThatWaitsIsLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := base("waits")
	task.Expiration = 0
	b.Schedule(task)
	now := b.Now()
	due := now.Add(-2 * time.Hour)
	put := func(at time.Time, set string) {
		t.Helper()
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1::text::timestamptz,
			message = 'host a answered 500, and its circuit is open', waits = 12, `+set+` WHERE id = $3`,
			at.Format(time.RFC3339Nano), due.Format(time.RFC3339Nano), task.ID)
	}
	asks := func(late, waiting int) {
		t.Helper()
		gotLate, gotWaiting := b.attention("late"), b.attention("waiting")
		since := "(" + task.ID + ") since " + due.UTC().Format(time.RFC3339)
		if len(gotLate) != late || len(gotWaiting) != waiting ||
			waiting > 0 && (!strings.Contains(gotLate[0], since) || !strings.Contains(gotWaiting[0], since+": host a answered")) {
			t.Errorf("%q and %q, want %d late and %d waiting", gotLate, gotWaiting, late, waiting)
		}
	}
	put(now.Add(time.Hour), `waiting_since = $2::text::timestamptz`)
	asks(1, 1)
	var late bool
	b.Check(b.Pool.QueryRow(b.Ctx, `SELECT late_by > interval '2 hours' FROM tasktable.late_tasks`).Scan(&late))
	if !late {
		t.Error("late_tasks does not have it")
	}
	why, err := b.Inspector.Why(b.Ctx, b.Pool, task.ID)
	b.Check(err)
	sentence := why.Reason.Sentence(func(at time.Time) string { return at.Sub(now).Round(time.Hour).String() })
	if want := "its handler puts it off, because something is out of order, 12 times, was due at -2h0m0s, tried again at " +
		"1h0m0s: host a answered 500, and its circuit is open"; why.Reason.Code != "waits" || !strings.HasPrefix(sentence, want) {
		t.Errorf("%s: %s", why.Reason.Code, sentence)
	}
	put(now.Add(-time.Hour), `waiting_since = $2::text::timestamptz`) // its time has come, and nobody claims it
	asks(1, 1)
	put(now.Add(time.Hour), `waiting_since = NULL, created_at = $2::text::timestamptz`) // a snooze of its own
	asks(0, 0)
}
