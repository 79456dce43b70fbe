package store_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// badRecurring are badTasks that recur. The test of package recurrence has more expressions and zones.
var badRecurring = []struct {
	name        string
	change      func(*store.Task)
	field, rule string
}{
	{"no expression", func(t *store.Task) { t.Recurrence.Cron = "" }, "cron", "5 fields"},
	{"30 February", func(t *store.Task) { t.Recurrence.Cron = "0 0 30 2 *" }, "cron", "must be able to fire"},
	{"a tab", func(t *store.Task) { t.Recurrence.Cron = "0\t9 * * *" }, "cron", "1 to 256 printable ASCII"},
	{
		"a newline at its end", func(t *store.Task) { t.Recurrence.Cron = "0 9 * * *\n" }, "cron",
		"1 to 256 printable ASCII",
	},
	{
		"a space of another kind", func(t *store.Task) { t.Recurrence.Cron = "0\u00a09 * * *" }, "cron",
		"1 to 256 printable ASCII",
	},
	{
		"257 characters", func(t *store.Task) { t.Recurrence.Cron = "0 9 * * *" + strings.Repeat(" ", 248) }, "cron",
		"1 to 256 printable ASCII",
	},

	{"no such zone", func(t *store.Task) { t.Recurrence.TimeZone = "Europe/Atlantis" }, "time_zone", "IANA zone"},

	{"overlap", func(t *store.Task) { t.Recurrence.Overlap = "queue" }, "overlap", "skip, allow or cancel_running"},
	{"catch up", func(t *store.Task) { t.Recurrence.CatchUp = "some" }, "catch_up", "latest, all or none"},
	{
		"catch up paused", func(t *store.Task) { t.Recurrence.CatchUpPaused = "LATEST" }, "catch_up_paused",
		"latest, all or none",
	},
	{"limit -1", func(t *store.Task) { t.Recurrence.CatchUpLimit = -1 }, "catch_up_limit", "between 1 and 10000"},
	{
		"limit 10001", func(t *store.Task) { t.Recurrence.CatchUpLimit = store.MaxCatchUpLimit + 1 }, "catch_up_limit",
		"between 1 and 10000",
	},
	{
		"occurrences -1", func(t *store.Task) { t.Recurrence.MaxOccurrences = -1 }, "max_occurrences",
		"between 1 and 1000000",
	},
	{
		"occurrences over a million", func(t *store.Task) { t.Recurrence.MaxOccurrences = 1000001 }, "max_occurrences",
		"between 1 and 1000000",
	},
	{
		"occurrences over 32 bits", func(t *store.Task) { t.Recurrence.MaxOccurrences = math.MaxInt },
		"max_occurrences", "between 1 and 1000000",
	},
	{
		"ends in the year 10000",
		func(t *store.Task) { t.Recurrence.EndsAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "ends_at",
		"years 1 to 9999",
	},
	{
		"ends before our era", func(t *store.Task) { t.Recurrence.EndsAt = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
		"ends_at", "years 1 to 9999",
	},

	{
		"ends before it begins", func(t *store.Task) { t.Recurrence.EndsAt = t.At.Add(-time.Microsecond) }, "ends_at",
		"not be before scheduled_at",
	},
	{"runs again", func(t *store.Task) { t.IfRunning = store.Again }, "if_running", "be empty for a recurring task"},
	{"id of 481 bytes", func(t *store.Task) { t.ID = strings.Repeat("x", 481) }, "id", "at most 480 bytes"},
	{
		"id of 161 characters of 3 bytes", func(t *store.Task) { t.ID = strings.Repeat("€", 161) }, "id",
		"at most 480 bytes",
	},
	{
		"key of 481 bytes", func(t *store.Task) { t.ID, t.Payload = "", counted{key: strings.Repeat("k", 471)} }, "id",
		"at most 480 bytes",
	},
	{"no id and no key", func(t *store.Task) { t.ID, t.Payload = "", plain{} }, "id", "be Keyed"},
	{"an empty key", func(t *store.Task) { t.ID, t.Payload = "", counted{} }, "id", "TaskKey that is not empty"},

	{"negative jitter", func(t *store.Task) { t.Jitter = -1 }, "jitter", "between 1µs and 24h"},
	{"jitter below a µs", func(t *store.Task) { t.Jitter = time.Microsecond - 1 }, "jitter", "between 1µs and 24h"},
	{"jitter over a day", func(t *store.Task) { t.Jitter = store.MaxJitter + 1 }, "jitter", "between 1µs and 24h"},
	{"negative retention", func(t *store.Task) { t.Retention = -time.Hour }, "retention", "between 1µs and 100 years"},
	{"retention below a µs", func(t *store.Task) { t.Retention = 1 }, "retention", "between 1µs and 100 years"},
	{
		"retention over 100 years", func(t *store.Task) { t.Retention = store.MaxRetention + 1 }, "retention",
		"between 1µs and 100 years",
	},
}

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
	if got := b.Schedule(task); got.Outcome != store.Rescheduled {
		t.Errorf("the least: %+v", got)
	}
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
