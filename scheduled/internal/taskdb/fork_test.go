package taskdb_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

func TestForkPlansAndFires(t *testing.T) {
	b := newBench(t)
	enginetest.Schedule(t, b.Pool, store.Task{
		Payload: job{Name: "tick"}, ID: "tick", At: noon,
		Recurrence: &store.Recurrence{Cron: "@hourly"},
	})
	b.Recurs("new", "tick", `QUEUED count=0 next=real unplanned`)
	if n := b.Fires(noon.Add(-time.Hour)); n != 1 {
		t.Errorf("looked at %d", n)
	}
	b.Recurs("planned", "tick", `QUEUED count=0 next=noon`)
	if n := b.Fires(noon.Add(-time.Microsecond)); n != 0 {
		t.Errorf("looked at %d before its time", n)
	}
	if n := b.Fires(noon.Add(time.Millisecond)); n != 1 {
		t.Errorf("looked at %d", n)
	}
	b.Recurs("fired", "tick", `
		QUEUED count=1 next=1h0m0s last=noon
		noon QUEUED`)
	b.Expect("the parent has no history but its own", "tick", `
		QUEUED rev=1 attempt=0 scheduled=noon next=1h0m0s started=noon
		1 schedule created by test`)
	b.Expect("the occurrence", "tick@2030-01-01T12:00:00Z", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 fork created by tester`)
	if n := b.Fires(noon.Add(2 * time.Millisecond)); n != 0 {
		t.Errorf("looked at %d again", n)
	}
	// The occurrence runs like any task.
	h := b.Take(noon.Add(time.Second))["tick@2030-01-01T12:00:00Z"]
	b.End(noon.Add(2*time.Second), enginetest.Completed(h))
	b.Fires(noon.Add(time.Hour))
	b.Recurs("fired again", "tick", `
		QUEUED count=2 next=2h0m0s last=1h0m0s
		noon COMPLETED
		1h0m0s QUEUED`)
}

// An occurrence has all that its parent has, but for what makes it recur.
func TestOccurrencesTakeAfterTheirParent(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "30 15 12 * * *", noon, func(task *store.Task) {
		task.Queue, task.Priority, task.Entity, task.TenantID, task.MaxAttempts = "default", 7, "event:1", "acme", 3
		task.Expiration, task.ExpectedExecutionTime, task.Jitter, task.Retention = time.Hour, time.Minute,
			10*time.Minute, 48*time.Hour
		task.Recurrence.TimeZone, task.Recurrence.MaxOccurrences, task.Recurrence.EndsAt = "UTC", 9,
			noon.AddDate(1, 0, 0)
	})
	fire := noon.Add(15*time.Minute + 30*time.Second)
	b.Fires(fire)
	got, err := enginetest.Tasks.Get(t.Context(), b.Pool, "tick@2030-01-01T12:15:30Z")
	b.OK(err)
	parent, err := enginetest.Tasks.Get(t.Context(), b.Pool, "tick")
	b.OK(err)
	want := parent
	want.ID, want.ParentID, want.ScheduledAt = got.ID, &parent.ID, fire
	want.Cron, want.TimeZone, want.Overlap, want.CatchUp, want.CatchUpPaused, want.CatchUpLimit = nil, nil, nil, nil,
		nil, nil
	want.EndsAt, want.MaxOccurrences, want.OccurrenceCount, want.PlannedRevision, want.StartedAt = nil, nil, 0, nil, nil
	if got.Jitter == nil || *got.Jitter != 10*time.Minute || got.NextAttemptAt.Before(fire) ||
		got.NextAttemptAt.After(fire.Add(10*time.Minute)) {
		t.Errorf("jitter %v, due at %s", got.Jitter, got.NextAttemptAt)
	}
	want.Revision, want.AskedRevision, want.NextAttemptAt, want.CreatedAt, want.LastStatusUpdate = got.Revision,
		got.Revision, got.NextAttemptAt, got.CreatedAt, got.LastStatusUpdate
	got.ScheduledAt = got.ScheduledAt.UTC()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !parent.NextAttemptAt.Equal(fire.AddDate(0, 0, 1)) {
		t.Errorf("jitter moves the parent's fire to %s", parent.NextAttemptAt)
	}
}

// An hour without a leader, with a task of each minute: latest runs once, all 60 times or up to its limit, none not
// at all; what did not run says why.
func TestAnHourOfDowntime(t *testing.T) {
	b := newBench(t)
	for id, change := range map[string]func(*store.Recurrence){
		"latest": func(*store.Recurrence) {},
		"all":    func(r *store.Recurrence) { r.CatchUp = store.CatchUpAll },
		"bound":  func(r *store.Recurrence) { r.CatchUp, r.CatchUpLimit = store.CatchUpAll, 25 },
		"none":   func(r *store.Recurrence) { r.CatchUp = store.CatchUpNone },
	} {
		b.Recur(id, "* * * * *", noon, func(task *store.Task) { change(task.Recurrence) })
	}
	if n := b.Fires(noon.Add(59*time.Minute + 30*time.Second)); n != 4 {
		t.Errorf("looked at %d", n)
	}
	b.Recurs("an hour later", "latest", `
		QUEUED count=1 next=1h0m0s last=59m0s
		noon to 58m0s (59) SKIPPED missed, and catch_up runs only the latest
		59m0s QUEUED`)
	b.Recurs("an hour later", "all", `
		QUEUED count=60 next=1h0m0s last=59m0s
		noon to 59m0s (60) QUEUED`)
	b.Recurs("an hour later", "bound", `
		QUEUED count=25 next=1h0m0s last=59m0s
		noon to 34m0s (35) SKIPPED missed, and catch_up runs only the latest 25
		35m0s to 59m0s (25) QUEUED`)
	b.Recurs("an hour later", "none", `
		QUEUED count=0 next=1h0m0s last=59m0s
		noon to 59m0s (60) SKIPPED missed, and catch_up is none`)
	b.Expect("a skipped occurrence", "latest@2030-01-01T12:58:00Z", `
		SKIPPED rev=1 attempt=0 scheduled=58m0s finished=real message="missed, and catch_up runs only the latest"
		1 fork created by tester`)
	if n := len(b.Take(noon.Add(time.Hour))); n != 1+60+25 {
		t.Errorf("claimed %d occurrences", n)
	}
	b.Fires(noon.Add(time.Hour))
	if got := b.Family("none"); !strings.HasPrefix(got, "QUEUED count=1 next=1h1m0s last=1h0m0s") ||
		!strings.HasSuffix(got, "\n1h0m0s QUEUED") {
		t.Errorf("a minute later: %s", got)
	}
}

func TestForkEnds(t *testing.T) {
	b := newBench(t)
	b.Recur("twice", "@hourly", noon, func(task *store.Task) { task.Recurrence.MaxOccurrences = 2 })
	b.Recur("until one", "@hourly", noon, func(task *store.Task) {
		task.Recurrence.EndsAt = noon.Add(time.Hour)
	})
	b.Recur("never", "30 * * * *", noon, func(task *store.Task) {
		task.Recurrence.EndsAt = noon.Add(time.Minute)
	})
	b.Recurs(
		"it ends before it fires", "never", `COMPLETED count=0 finished=real message="ended at 2030-01-01T12:01:00Z"`,
	)
	b.Fires(noon)
	for _, h := range b.Take(noon) {
		b.End(noon, enginetest.Completed(h))
	}
	b.Recurs("not yet", "twice", `
		QUEUED count=1 next=1h0m0s last=noon
		noon COMPLETED`)
	b.Fires(noon.Add(time.Hour))
	b.Recurs("ended", "twice", `
		COMPLETED count=2 last=1h0m0s finished=real message="ended after 2 occurrences"
		noon COMPLETED
		1h0m0s QUEUED`)
	b.Recurs("ended", "until one", `
		COMPLETED count=2 last=1h0m0s finished=real message="ended at 2030-01-01T13:00:00Z"
		noon COMPLETED
		1h0m0s QUEUED`)
	if n := b.Fires(noon.Add(9 * time.Hour)); n != 0 {
		t.Errorf("looked at %d that have ended", n)
	}
	b.Expect("its end is nobody's edit", "twice", `
		COMPLETED rev=1 attempt=0 scheduled=noon started=1h0m0s finished=real message="ended after 2 occurrences"
		1 schedule created by test`)
	// Scheduled for another time it begins anew.
	b.Recur("twice", "@hourly", noon.Add(10*time.Hour), func(task *store.Task) {
		task.Recurrence.MaxOccurrences = 2
	})
	b.Recurs("rearmed", "twice", `
		QUEUED count=0 next=10h0m0s
		noon COMPLETED
		1h0m0s QUEUED`)
}

// outs makes the days of noon, and of so many days after it, the days of the calendar company.
func (b *bench) outs(days ...int) {
	b.T.Helper()
	calendar := store.Calendar{Name: "company"}
	for _, day := range days {
		date := recurrence.DateOf(noon.AddDate(0, 0, day))
		calendar.Days = append(calendar.Days, recurrence.Span{From: date, To: date, Note: "closed"})
	}
	b.Did(enginetest.Tasks.SetCalendar(b.T.Context(), b.Pool, calendar))
}

// nextAt is how many days after noon a task fires next.
func (b *bench) nextAt(id string, days int) {
	b.T.Helper()
	if n := b.Count(`SELECT count(*) FROM tasktable.recurring_tasks WHERE id = $1 AND next_fire = $2`, id,
		noon.AddDate(0, 0, days)); n != 1 {
		b.T.Errorf("%s does not fire next in %d days: %s", id, days, b.Family(id))
	}
}

// A fire that was due before the leader has seen a change of its calendar is decided by the new days.
func TestDueFiresAndAChangedCalendar(t *testing.T) {
	b := newBench(t)
	b.outs()
	for _, move := range []string{"skip", "next", "previous"} {
		b.Recur(move, "0 12 * * * out-of=company move="+move, noon.Add(-time.Hour), nil)
		b.nextAt(move, 0)
	}
	b.outs(0)
	for looked := 0; looked < 3; { // on a busy machine the time to plan is over after the first
		n := b.Fires(noon.Add(time.Minute))
		if looked += n; n == 0 {
			t.Fatalf("looked at %d", looked)
		}
	}
	for _, id := range []string{"skip", "next", "previous"} {
		b.nextAt(id, 1)
		line := enginetest.Ask[string](b.Bench, `SELECT concat_ws(' ', outcome, old, new)
			FROM tasktable.scheduled_task_changes WHERE task_id = $1 AND verb = 'calendar'`, id)
		if id == "skip" && !strings.Contains(line, "is out (company: closed)") || !strings.HasPrefix(line, "moved") {
			t.Errorf("the history of %s says %s", id, line)
		}
	}
	b.Counts("occurrences of a day that is out", 0,
		`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id IS NOT NULL`)
	// A day that is in again before its time comes.
	b.outs(1)
	b.Fires(noon.Add(2 * time.Minute))
	b.nextAt("skip", 2)
	b.outs()
	b.Fires(noon.Add(3 * time.Minute))
	b.nextAt("skip", 1)
}

// WriteFires writes no fires that were computed by days which somebody has changed since, or is changing.
func TestFiresOfACalendarThatChangesMeanwhile(t *testing.T) {
	b := newBench(t)
	b.outs()
	b.Recur("nightly", "0 12 * * * out-of=company", noon.Add(-time.Hour), nil)
	now := noon.Add(time.Minute)
	write := func(change func()) int {
		t.Helper()
		picked, err := b.PickFires(t.Context(), b.Pool, &now, []taskdb.Lane{enginetest.Forks}, 10)
		b.OK(err)
		due, err := b.DueFires(t.Context(), b.Pool, &now, picked, 10)
		b.OK(err)
		change()
		var done taskdb.ForkResult
		b.InTx(func(tx pgx.Tx) {
			if done, err = b.WriteFires(t.Context(), tx, &now, due); err != nil {
				t.Fatal(err)
			}
		})
		return done.Looked
	}
	if n := write(func() { b.outs(0) }); n != 0 {
		t.Error("a fire was written by the days before a change")
	}
	tx := b.Begin()
	if n := write(func() {
		b.Did(tx.Exec(t.Context(), `SELECT FROM tasktable.calendars FOR NO KEY UPDATE`))
	}); n != 0 {
		t.Error("a fire was written while somebody changes its calendar")
	}
	b.OK(tx.Rollback(t.Context()))
	if n := write(func() {}); n != 1 {
		t.Errorf("%d fires were written when nobody changes the calendar", n)
	}
	b.nextAt("nightly", 1)
}
