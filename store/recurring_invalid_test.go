package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

func TestBadCronTasks(t *testing.T) {
	t.Parallel()
	for _, bad := range []store.Task{
		store.Cron("X", "@daily"), store.Cron("A B", "@daily"), store.Cron("", "@daily"),
		store.Cron("A\x00B", "@daily"), store.Cron("GOOD", "never"),
	} {
		if err := bad.Check(); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Cron %q: %v", bad.ID, err)
		}
	}
}

// The limits themselves are good, and good for the database.
func TestRecurringTasksAtTheirLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := recurs("one")
	task.Jitter, task.Retention = store.MaxJitter, store.MaxRetention
	*task.Recurrence = store.Recurrence{Cron: "0 9 * * *" + strings.Repeat(" ", 247),
		TimeZone: "America/Argentina/ComodRivadavia", Overlap: "allow", CatchUp: "all", CatchUpPaused: "all",
		CatchUpLimit: 10000, EndsAt: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), MaxOccurrences: 1000000}
	b.Schedule(task)
	row := b.Get("one")
	if *row.Jitter != task.Jitter || *row.Retention != task.Retention || *row.Cron != task.Recurrence.Cron ||
		!row.EndsAt.Equal(task.Recurrence.EndsAt) {
		t.Errorf("got %s", pretty(row))
	}
	task.Jitter, task.Retention, task.Recurrence.CatchUpLimit, task.Recurrence.MaxOccurrences = time.Microsecond,
		time.Microsecond, 1, 1
	task.At = time.Time{}                                      // kept, so that the end may be before it
	task.Recurrence.EndsAt = time.Time{}.Add(time.Microsecond) // as late as can be told from none
	b.wantOutcome("the least", store.Rescheduled, b.Schedule(task))
	if row := b.Get("one"); *row.Jitter != time.Microsecond || !row.EndsAt.Equal(time.Time{}.Add(time.Microsecond)) {
		t.Errorf("the least: %s", pretty(row))
	}
}

func TestBadRecurringCallsInSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.MakeRecurring("one", "planned")
	b.Schedule(base("plain"))
	recurring, plain := b.state("one"), b.state("plain")
	for sql, message := range map[string]string{
		`SELECT tasktable.schedule_recurring('{"type":"TEST"}', NULL,
			'one')`: "cron must be given for a recurring task",
		`SELECT tasktable.schedule_recurring('{"type":"TEST"}', '@daily',
			NULL)`: "id must be given for a recurring task",
		`SELECT tasktable.schedule_recurring('{"type":"TEST"}', '@daily', 'one',
			if_finished => 'never')`: "if_finished must be 'rearm', 'keep' or null, not 'never'",
		`SELECT tasktable.schedule('{"type":"TEST"}', id => 'new',
			time_zone => 'UTC')`: "settings of recurrence need cron",
		`SELECT ` +
			`tasktable.schedule_many('[{"id":"new","payload":{"type":"TEST"},"overlap":"skip"}]')`: "settings of " +
			"recurrence need cron",
		`UPDATE tasktable.scheduled_tasks SET cron = NULL WHERE id = 'one'`: "settings of recurrence need cron",
		`UPDATE tasktable.scheduled_tasks SET parent_id = 'other'
			WHERE id = 'one'`: "an occurrence does not recur itself",
		`INSERT INTO tasktable.scheduled_tasks (id, payload, cron, parent_id)
			VALUES ('new', '{"type":"TEST"}', '@daily', 'one')`: "an occurrence does not recur itself",
		`UPDATE tasktable.scheduled_tasks SET deadline = now() WHERE id = 'one'`: "a recurring task has expiration, not deadline",
		`SELECT tasktable.pause('plain', until => 'infinity')`:                   "ends_at, paused_until must be finite",
		`SELECT tasktable.fork_occurrence('one', NULL)`:                          `null value in column "id"`,
		`SELECT tasktable.fork_occurrence('one', 'infinity')`:                    "scheduled_at, run_now_at must be finite",
	} {
		b.refused(sql, message)
	}
	for column, value := range map[string]string{
		"time_zone": `'UTC'`, "overlap": `'skip'`, "catch_up": `'latest'`, "catch_up_paused": `'none'`,
		"catch_up_limit": `100`, "ends_at": `'2100-01-01Z'`, "max_occurrences": `3`,
	} {
		const rule = "settings of recurrence need cron"
		b.refused(
			`INSERT INTO tasktable.scheduled_tasks (id, payload, `+column+`) VALUES ('new', '{"type":"TEST"}', `+value+
				`)`,
			rule,
		)
		b.refused(`UPDATE tasktable.scheduled_tasks SET `+column+` = `+value+` WHERE id = 'plain'`, rule)
	}
	same(b, "the recurring one", b.state("one"), recurring)
	same(b, "the plain one", b.state("plain"), plain)
	if b.Get("new") != nil {
		t.Error("a task was made")
	}
}
