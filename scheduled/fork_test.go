package scheduled

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// recur schedules a recurring JOB task that begins at a time of the bench, and has its first fire planned.
func (b *bench) recur(id, cron string, begins time.Time, change func(*store.Task)) {
	b.t.Helper()
	task := store.Task{ID: id, Payload: job{id}, At: begins, Recurrence: &store.Recurrence{Cron: cron}}
	if change != nil {
		change(&task)
	}
	schedule(b.t, b.pool, task)
	b.fires(begins.Add(-time.Second))
}

// forks is the lane that recur schedules into.
var forks = taskdb.Lane{Queue: "default", Type: "JOB", Recurring: true}

// fires has the recurring tasks fire as a pass does, and returns how many it looked at.
func (b *bench) fires(now time.Time, aside ...string) (looked int) {
	b.t.Helper()
	b.inTx(func(tx pgx.Tx) {
		if _, err := tx.Exec(b.t.Context(), "SET LOCAL lock_timeout = '5s'; "+taskdb.EnterSQL); err != nil {
			b.t.Fatal(err)
		}
		var err error
		if looked, err = b.Fork(b.t.Context(), tx, &now, []taskdb.Lane{forks}, taskdb.MaxForks, aside...); err != nil {
			b.t.Fatal(err)
		}
	})
	return looked
}

// recurs compares a recurring task and its occurrences, in order of their times, with a text: first the task, then a
// line for each occurrence, or for several in a row that differ in their times only.
func (b *bench) recurs(what, id, want string) {
	b.t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if got := b.family(id); got != strings.Join(lines, "\n") {
		b.t.Errorf("%s: task %s is\n%s\nwant\n%s", what, id, got, strings.Join(lines, "\n"))
	}
}

func (b *bench) family(id string) string {
	b.t.Helper()
	row, err := tasks.Get(b.t.Context(), b.pool, id)
	if err != nil {
		b.t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s count=%d", row.Status, row.OccurrenceCount)
	write(&text, "next", row.NextAttemptAt)
	write(&text, "last", row.StartedAt)
	write(&text, "finished", row.FinishedAt)
	writeText(&text, "message", row.Message)
	if row.PlannedRevision == nil || *row.PlannedRevision != row.Revision {
		text.WriteString(" unplanned")
	}
	rows, err := b.pool.Query(b.t.Context(), `SELECT scheduled_at::timestamptz,
		concat_ws(' ', status, CASE WHEN fence IS NOT NULL THEN 'held' END, message)
		FROM tasktable.scheduled_tasks WHERE parent_id = $1 ORDER BY scheduled_at, id`, id)
	if err != nil {
		b.t.Fatal(err)
	}
	type line struct {
		At   time.Time
		Text string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	if err != nil {
		b.t.Fatal(err)
	}
	for from := 0; from < len(found); {
		to := from + 1
		for to < len(found) && found[to].Text == found[from].Text {
			to++
		}
		text.WriteString("\n" + offset(found[from].At))
		if to-from > 1 {
			fmt.Fprintf(&text, " to %s (%d)", offset(found[to-1].At), to-from)
		}
		text.WriteString(" " + found[from].Text)
		from = to
	}
	return text.String()
}

func TestForkPlansAndFires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	schedule(t, b.pool, store.Task{
		Payload: job{"tick"}, ID: "tick", At: noon, Recurrence: &store.Recurrence{Cron: "@hourly"},
	})
	b.recurs("new", "tick", `QUEUED count=0 next=real unplanned`)
	if n := b.fires(noon.Add(-time.Hour)); n != 1 {
		t.Errorf("looked at %d", n)
	}
	b.recurs("planned", "tick", `QUEUED count=0 next=noon`)
	if n := b.fires(noon.Add(-time.Microsecond)); n != 0 {
		t.Errorf("looked at %d before its time", n)
	}
	if n := b.fires(noon.Add(time.Millisecond)); n != 1 {
		t.Errorf("looked at %d", n)
	}
	b.recurs("fired", "tick", `
		QUEUED count=1 next=1h0m0s last=noon
		noon QUEUED`)
	b.expect("the parent has no history but its own", "tick", `
		QUEUED rev=1 attempt=0 scheduled=noon next=1h0m0s started=noon
		1 schedule created by test`)
	b.expect("the occurrence", "tick@2030-01-01T12:00:00Z", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 fork created by tester`)
	if n := b.fires(noon.Add(2 * time.Millisecond)); n != 0 {
		t.Errorf("looked at %d again", n)
	}
	// The occurrence runs like any task.
	h := b.take(noon.Add(time.Second))["tick@2030-01-01T12:00:00Z"]
	b.end(noon.Add(2*time.Second), completed(h))
	b.fires(noon.Add(time.Hour))
	b.recurs("fired again", "tick", `
		QUEUED count=2 next=2h0m0s last=1h0m0s
		noon COMPLETED
		1h0m0s QUEUED`)
}

// An occurrence has all that its parent has, but for what makes it recur.
func TestOccurrencesTakeAfterTheirParent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("tick", "30 15 12 * * *", noon, func(task *store.Task) {
		task.Queue, task.Priority, task.Entity, task.TenantID, task.MaxAttempts = "default", 7, "event:1", "acme", 3
		task.Expiration, task.ExpectedExecutionTime, task.Jitter, task.Retention = time.Hour, time.Minute,
			10*time.Minute, 48*time.Hour
		task.Recurrence.TimeZone, task.Recurrence.MaxOccurrences, task.Recurrence.EndsAt = "UTC", 9,
			noon.AddDate(1, 0, 0)
	})
	fire := noon.Add(15*time.Minute + 30*time.Second)
	b.fires(fire)
	got, err := tasks.Get(t.Context(), b.pool, "tick@2030-01-01T12:15:30Z")
	if err != nil {
		t.Fatal(err)
	}
	parent, err := tasks.Get(t.Context(), b.pool, "tick")
	if err != nil {
		t.Fatal(err)
	}
	want := parent
	want.ID, want.ParentID, want.ScheduledAt = got.ID, &parent.ID, fire
	want.Cron, want.TimeZone, want.Overlap, want.CatchUp, want.CatchUpPaused, want.CatchUpLimit = nil, nil, nil, nil,
		nil, nil
	want.EndsAt, want.MaxOccurrences, want.OccurrenceCount, want.PlannedRevision, want.StartedAt = nil, nil, 0, nil, nil
	if got.Jitter == nil || *got.Jitter != 10*time.Minute || got.NextAttemptAt.Before(fire) ||
		got.NextAttemptAt.After(fire.Add(10*time.Minute)) {
		t.Errorf("jitter %v, due at %s", got.Jitter, got.NextAttemptAt)
	}
	want.Revision, want.NextAttemptAt, want.CreatedAt, want.LastStatusUpdate = got.Revision, got.NextAttemptAt,
		got.CreatedAt, got.LastStatusUpdate
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
	t.Parallel()
	b := newBench(t)
	for id, change := range map[string]func(*store.Recurrence){
		"latest": func(*store.Recurrence) {},
		"all":    func(r *store.Recurrence) { r.CatchUp = store.CatchUpAll },
		"bound":  func(r *store.Recurrence) { r.CatchUp, r.CatchUpLimit = store.CatchUpAll, 25 },
		"none":   func(r *store.Recurrence) { r.CatchUp = store.CatchUpNone },
	} {
		b.recur(id, "* * * * *", noon, func(task *store.Task) { change(task.Recurrence) })
	}
	if n := b.fires(noon.Add(59*time.Minute + 30*time.Second)); n != 4 {
		t.Errorf("looked at %d", n)
	}
	b.recurs("an hour later", "latest", `
		QUEUED count=1 next=1h0m0s last=59m0s
		noon to 58m0s (59) SKIPPED missed, and catch_up runs only the latest
		59m0s QUEUED`)
	b.recurs("an hour later", "all", `
		QUEUED count=60 next=1h0m0s last=59m0s
		noon to 59m0s (60) QUEUED`)
	b.recurs("an hour later", "bound", `
		QUEUED count=25 next=1h0m0s last=59m0s
		noon to 34m0s (35) SKIPPED missed, and catch_up runs only the latest 25
		35m0s to 59m0s (25) QUEUED`)
	b.recurs("an hour later", "none", `
		QUEUED count=0 next=1h0m0s last=59m0s
		noon to 59m0s (60) SKIPPED missed, and catch_up is none`)
	b.expect("a skipped occurrence", "latest@2030-01-01T12:58:00Z", `
		SKIPPED rev=1 attempt=0 scheduled=58m0s finished=real message="missed, and catch_up runs only the latest"
		1 fork created by tester`)
	if n := len(b.take(noon.Add(time.Hour))); n != 1+60+25 {
		t.Errorf("claimed %d occurrences", n)
	}
	b.fires(noon.Add(time.Hour))
	if got := b.family("none"); !strings.HasPrefix(got, "QUEUED count=1 next=1h1m0s last=1h0m0s") ||
		!strings.HasSuffix(got, "\n1h0m0s QUEUED") {
		t.Errorf("a minute later: %s", got)
	}
}

func TestForkEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("twice", "@hourly", noon, func(task *store.Task) { task.Recurrence.MaxOccurrences = 2 })
	b.recur("until one", "@hourly", noon, func(task *store.Task) { task.Recurrence.EndsAt = noon.Add(time.Hour) })
	b.recur("never", "@hourly", noon, func(task *store.Task) { task.Recurrence.EndsAt = noon.Add(-time.Minute) })
	b.recurs(
		"it ends before it begins", "never", `COMPLETED count=0 finished=real message="ended at 2030-01-01T11:59:00Z"`,
	)
	b.fires(noon)
	for _, h := range b.take(noon) {
		b.end(noon, completed(h))
	}
	b.recurs("not yet", "twice", `
		QUEUED count=1 next=1h0m0s last=noon
		noon COMPLETED`)
	b.fires(noon.Add(time.Hour))
	b.recurs("ended", "twice", `
		COMPLETED count=2 last=1h0m0s finished=real message="ended after 2 occurrences"
		noon COMPLETED
		1h0m0s QUEUED`)
	b.recurs("ended", "until one", `
		COMPLETED count=2 last=1h0m0s finished=real message="ended at 2030-01-01T13:00:00Z"
		noon COMPLETED
		1h0m0s QUEUED`)
	if n := b.fires(noon.Add(9 * time.Hour)); n != 0 {
		t.Errorf("looked at %d that have ended", n)
	}
	b.expect("its end is nobody's edit", "twice", `
		COMPLETED rev=1 attempt=0 scheduled=noon started=1h0m0s finished=real message="ended after 2 occurrences"
		1 schedule created by test`)
	// Scheduled for another time it begins anew.
	b.recur("twice", "@hourly", noon.Add(10*time.Hour), func(task *store.Task) { task.Recurrence.MaxOccurrences = 2 })
	b.recurs("rearmed", "twice", `
		QUEUED count=0 next=10h0m0s
		noon COMPLETED
		1h0m0s QUEUED`)
}
