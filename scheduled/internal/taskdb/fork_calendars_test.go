package taskdb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

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
	if n := b.Fires(noon.Add(time.Minute)); n != 3 {
		t.Errorf("looked at %d", n)
	}
	for _, id := range []string{"skip", "next", "previous"} {
		b.nextAt(id, 1)
		var line string
		b.OK(b.Pool.QueryRow(t.Context(), `SELECT concat_ws(' ', outcome, old, new)
			FROM tasktable.scheduled_task_changes WHERE task_id = $1 AND verb = 'calendar'`, id).Scan(&line))
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
