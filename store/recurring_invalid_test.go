package store_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// badRecurring break one rule each of what is new in a Task.
var badRecurring = []struct {
	name        string
	change      func(*store.Task)
	field, rule string
}{
	{"no expression", func(t *store.Task) { t.Recurrence.Cron = "" }, "cron", "5 fields"},
	{"spaces", func(t *store.Task) { t.Recurrence.Cron = "   " }, "cron", "5 fields"},
	{"4 fields", func(t *store.Task) { t.Recurrence.Cron = "* * * *" }, "cron", "5 fields"},
	{"7 fields", func(t *store.Task) { t.Recurrence.Cron = "0 0 9 * * * 2026" }, "cron", "6 with the seconds first"},
	{"minute 60", func(t *store.Task) { t.Recurrence.Cron = "60 * * * *" }, "cron", "minute 60 is not in 0-59"},
	{"day of week 8", func(t *store.Task) { t.Recurrence.Cron = "0 9 * * 8" }, "cron", "day of week 8 is not in 0-7"},
	{
		"a step beyond its field", func(t *store.Task) { t.Recurrence.Cron = "*/90 * * * *" }, "cron",
		"minute step 90 is not in 1-60",
	},
	{"a zone in it", func(t *store.Task) { t.Recurrence.Cron = "TZ=UTC 0 9 * * *" }, "cron", "must not name a zone"},
	{"what robfig panics on", func(t *store.Task) { t.Recurrence.Cron = "TZ=0" }, "cron", "must not name a zone"},
	{"30 February", func(t *store.Task) { t.Recurrence.Cron = "0 0 30 2 *" }, "cron", "must be able to fire"},
	{
		"31 in months of 30", func(t *store.Task) { t.Recurrence.Cron = "0 0 31 4,6,9,11 *" }, "cron",
		"must be able to fire",
	},
	{"no such descriptor", func(t *store.Task) { t.Recurrence.Cron = "@fortnightly" }, "cron", "@hourly, @daily"},
	{"@every nothing", func(t *store.Task) { t.Recurrence.Cron = "@every" }, "cron", "duration of whole seconds"},
	{"@every 0", func(t *store.Task) { t.Recurrence.Cron = "@every 0s" }, "cron", "at least 1s"},
	{"@every -1s", func(t *store.Task) { t.Recurrence.Cron = "@every -1s" }, "cron", "at least 1s"},
	{"@every half a second", func(t *store.Task) { t.Recurrence.Cron = "@every 1500ms" }, "cron", "whole seconds"},
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
	{
		"1025 characters", func(t *store.Task) { t.Recurrence.Cron = strings.Repeat(" ", 1016) + "0 9 * * *" }, "cron",
		"at most 1024 bytes",
	},
	{"NUL", func(t *store.Task) { t.Recurrence.Cron = "0 9 * * \x00" }, "cron", "day of week"},

	{"no such zone", func(t *store.Task) { t.Recurrence.TimeZone = "Europe/Atlantis" }, "time_zone", "IANA zone"},
	{"this machine's zone", func(t *store.Task) { t.Recurrence.TimeZone = "Local" }, "time_zone", "IANA zone"},
	{"an offset", func(t *store.Task) { t.Recurrence.TimeZone = "+02:00" }, "time_zone", "IANA zone"},
	{"a path", func(t *store.Task) { t.Recurrence.TimeZone = "../../etc/passwd" }, "time_zone", "IANA zone"},
	{"a zone with NUL", func(t *store.Task) { t.Recurrence.TimeZone = "UTC\x00" }, "time_zone", "IANA zone"},

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

func TestBadRecurringTasksAreRefusedBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	for _, bad := range badRecurring {
		t.Run(bad.name, func(t *testing.T) {
			t.Parallel()
			b := benchOn(t, nil)
			task := recurs("one")
			task.Entity = ""
			bad.change(&task)
			_, alone := b.tasks.Schedule(b.ctx, noDB(b), task)
			_, many := b.tasks.ScheduleMany(b.ctx, noDB(b), []store.Task{recurs("good"), task})
			_, synced := b.tasks.Sync(b.ctx, noDB(b), "event:1", task)
			_, fixed := task.Fixed()
			for call, err := range map[string]error{
				"Schedule": alone, "ScheduleMany": many, "Sync": synced, "Check": task.Check(), "Fixed": fixed,
			} {
				if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), bad.field) ||
					!strings.Contains(err.Error(), bad.rule) {
					t.Errorf("%s: %v; should name %q and %q", call, err, bad.field, bad.rule)
				}
				if err != nil && len(err.Error()) > 600 {
					t.Errorf("%s: an error of %d bytes", call, len(err.Error()))
				}
			}
		})
	}
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
	b.schedule(task)
	row := b.get("one")
	if *row.Jitter != task.Jitter || *row.Retention != task.Retention || *row.Cron != task.Recurrence.Cron ||
		!row.EndsAt.Equal(task.Recurrence.EndsAt) {
		t.Errorf("got %s", pretty(row))
	}
	task.Jitter, task.Retention, task.Recurrence.CatchUpLimit, task.Recurrence.MaxOccurrences = time.Microsecond,
		time.Microsecond, 1, 1
	task.At = time.Time{}                                      // kept, so that the end may be before it
	task.Recurrence.EndsAt = time.Time{}.Add(time.Microsecond) // as late as can be told from none
	if got := b.schedule(task); got.Outcome != store.Rescheduled {
		t.Errorf("the least: %+v", got)
	}
	if row := b.get("one"); *row.Jitter != time.Microsecond || !row.EndsAt.Equal(time.Time{}.Add(time.Microsecond)) {
		t.Errorf("the least: %s", pretty(row))
	}
}

// badRecurringColumns are values that the table refuses, by column, with what the message says.
var badRecurringColumns = []struct{ column, value, message string }{
	{"cron", `''`, "cron must be 1 to 256 printable ASCII characters"},
	{"cron", `E'0 9 * * *\n'`, "cron must be 1 to 256 printable ASCII characters"},
	{"cron", `'0 9 * * «'`, "cron must be 1 to 256 printable ASCII characters"},
	{"cron", `repeat('*', 257)`, "cron must be 1 to 256 printable ASCII characters"},
	{"time_zone", `''`, "time_zone must be an IANA name of 1 to 64 characters"},
	{"time_zone", `'Europe Berlin'`, "time_zone must be an IANA name of 1 to 64 characters"},
	{"time_zone", `repeat('z', 65)`, "time_zone must be an IANA name of 1 to 64 characters"},
	{"overlap", `'queue'`, "overlap must be skip, allow or cancel_running"},
	{"overlap", `''`, "overlap must be skip, allow or cancel_running"},
	{"catch_up", `'some'`, "catch_up must be latest, all or none"},
	{"catch_up_paused", `'NONE'`, "catch_up must be latest, all or none"},
	{"catch_up_limit", `0`, "catch_up_limit must be between 1 and 10000"},
	{"catch_up_limit", `10001`, "catch_up_limit must be between 1 and 10000"},
	{"jitter", `'0'`, "jitter must be over 0 and at most 24 hours, without months"},
	{"jitter", `'-1 second'`, "jitter must be over 0 and at most 24 hours, without months"},
	{"jitter", `'24:00:00.000001'`, "jitter must be over 0 and at most 24 hours, without months"},
	{"jitter", `'1 day 1 microsecond'`, "jitter must be over 0 and at most 24 hours, without months"},
	{"ends_at", `'infinity'`, "ends_at, paused_until must be finite, in the years 1 to 9999"},
	{"ends_at", `'10000-01-01Z'`, "ends_at, paused_until must be finite, in the years 1 to 9999"},
	{"max_occurrences", `0`, "max_occurrences must be between 1 and 1000000"},
	{"max_occurrences", `1000001`, "max_occurrences must be between 1 and 1000000"},
	{"retention", `'0'`, "retention must be over 0 and at most 100 years, in days or less"},
	{"retention", `'-1 hour'`, "retention must be over 0 and at most 100 years, in days or less"},
	{"retention", `'1 month'`, "retention must be over 0 and at most 100 years, in days or less"},
	{"retention", `'876600:00:00.000001'`, "retention must be over 0 and at most 100 years, in days or less"},
	{"id", `repeat('x', 481)`, "id of a recurring task must be at most 480 bytes"},
	{"id", `repeat('€', 161)`, "id of a recurring task must be at most 480 bytes"},
	{"id", `E'a\nb'`, "id must be 1 to 512 bytes without control characters"},
	{"payload", `'{}'`, "payload must have a field type that is a string"},
}

// However a bad value comes, the message names the field and the rule, and nothing is changed.
func TestBadRecurringValuesInSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeRecurring("one", "planned")
	before := b.state("one")
	t.Run("all", func(t *testing.T) {
		all := benchOn(t, b.pool)
		for i, bad := range badRecurringColumns {
			all.each(fmt.Sprintf("%d %s", i, bad.column), func(b *bench) {
				arguments := map[string]string{
					"payload": `'{"type": "TEST", "n": 1}'`, "id": `'new'`, "cron": `'@daily'`,
				}
				arguments[bad.column] = bad.value
				columns, values, named := "", "", ""
				for column, value := range arguments {
					columns, values, named = columns+", "+column, values+", "+value, named+", "+column+" => "+value
				}
				b.refused(
					`INSERT INTO tasktable.scheduled_tasks (`+columns[2:]+`) VALUES (`+values[2:]+`)`, bad.message,
				)
				b.refused(`SELECT tasktable.schedule_recurring(`+named[2:]+`)`, bad.message)
				b.refused(`SELECT tasktable.schedule(`+named[2:]+`)`, bad.message)
				if bad.column == "id" {
					return
				}
				b.refused(
					`UPDATE tasktable.scheduled_tasks SET `+bad.column+` = `+bad.value+` WHERE id = 'one'`, bad.message,
				)
				b.refused(
					strings.Replace(`SELECT tasktable.schedule_recurring(`+named[2:]+`)`, `'new'`, `'one'`, 1),
					bad.message,
				)
			})
		}
	})
	b = benchOn(t, b.pool) // its time begins anew: the subtests had theirs
	same(b, "task", b.state("one"), before)
	if left := one[int](b, b.pool, `SELECT count(*) FROM tasktable.scheduled_tasks`); left != 1 {
		t.Errorf("%d tasks instead of one", left)
	}
}

func TestBadRecurringCallsInSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeRecurring("one", "planned")
	b.schedule(base("plain"))
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
		`SELECT tasktable.pause('plain', until => 'infinity')`: "ends_at, paused_until must be finite",
		`SELECT tasktable.fork_occurrence('one', NULL)`:        `null value in column "id"`,
		`SELECT tasktable.fork_occurrence('one', 'infinity')`:  "scheduled_at, run_now_at must be finite",
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
	if b.get("new") != nil {
		t.Error("a task was made")
	}
	tx := b.begin(pgx.TxOptions{})
	for _, bad := range badRecurring { // refused before the database, so the transaction goes on
		task := recurs("one")
		bad.change(&task)
		if _, err := b.tasks.Schedule(b.ctx, tx, task); err == nil {
			t.Errorf("%s: accepted", bad.name)
		}
	}
	_, err := b.tasks.Cancel(b.ctx, tx, "one")
	b.check(err)
	b.check(tx.Commit(b.ctx))
}
