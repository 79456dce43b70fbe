package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// badColumn is a value that the table refuses, with what the message says.
type badColumn struct{ column, value, message string }

// badColumns are of each task. badRecurringColumns are of recurring tasks.
var badColumns = []badColumn{
	{"id", `''`, "id must be 1 to 512 bytes without control characters"},
	{"id", `repeat('x', 513)`, "id must be 1 to 512 bytes without control characters"},
	{"id", `repeat('€', 171)`, "id must be 1 to 512 bytes without control characters"},
	{"id", `E'a\nb'`, "id must be 1 to 512 bytes without control characters"},
	{"id", `E'a\x7f'`, "id must be 1 to 512 bytes without control characters"},
	{"id", `E'a\u0085'`, "id must be 1 to 512 bytes without control characters"},
	{"id", `E'a\xff'`, "invalid byte sequence"},
	{"payload", `null`, `null value in column "payload"`},
	{"payload", `'null'`, "payload must be a JSON object"},
	{"payload", `'[]'`, "payload must be a JSON object"},
	{"payload", `'"x"'`, "payload must be a JSON object"},
	{"payload", `'{'`, "invalid input syntax for type json"},
	{"payload", `'{}'`, "payload must have a field type that is a string"},
	{"payload", `'{"type": 1}'`, "payload must have a field type that is a string"},
	{"payload", `'{"type": null}'`, "payload must have a field type that is a string"},
	{"payload", `'{"type": "TEST", "s": "\u0000"}'`, "unsupported Unicode escape sequence"},
	{
		"payload", `jsonb_build_object('type', 'TEST', 's', repeat('x', 262144 - 24))`,
		"payload must be at most 256 KiB of JSON text",
	},
	{"payload", `'{"type": ""}'`, "type must be 2 to 127 letters, digits or _-[]<>/.·:+"},
	{"payload", `'{"type": "A"}'`, "type must be 2 to 127 letters"},
	{"payload", `'{"type": "A B"}'`, "type must be 2 to 127 letters"},
	{"payload", `'{"type": "AB\n"}'`, "type must be 2 to 127 letters"},
	{"payload", `jsonb_build_object('type', repeat('A', 128))`, "type must be 2 to 127 letters"},
	{"scheduled_at", `'infinity'`, "scheduled_at, run_now_at must be finite, in the years 1 to 9999"},
	{"scheduled_at", `'-infinity'`, "scheduled_at, run_now_at must be finite"},
	{"scheduled_at", `'10000-01-01Z'`, "scheduled_at, run_now_at must be finite"},
	{"scheduled_at", `'0001-12-31 23:59:59Z BC'`, "scheduled_at, run_now_at must be finite"},
	{"scheduled_at", `'soon'`, `invalid input syntax for type timestamp with time zone: "soon"`},
	{"expiration", `'0'`, "expiration must be over 0 and at most 10 years"},
	{"expiration", `'-1 hour'`, "expiration must be over 0 and at most 10 years"},
	{"expiration", `'87660:00:00.000001'`, "expiration must be over 0 and at most 10 years"},
	{"expiration", `'1 month'`, "expiration must be in days or less"},
	{"expiration", `'1 month -29 days'`, "expiration must be in days or less"},
	{"expiration", `'99999999999999999999 hours'`, `interval field value out of range`},
	{"expected_execution_time", `null`, `null value in column "expected_execution_time"`},
	{"expected_execution_time", `'0'`, "expected_execution_time must be over 0 and at most 168 hours"},
	{"expected_execution_time", `'-1 second'`, "expected_execution_time must be over 0 and at most 168 hours"},
	{"expected_execution_time", `'168:00:00.000001'`, "expected_execution_time must be over 0 and at most 168 hours"},
	{"backoff", `''`, "backoff must be a wait such as 1m, or 10s x3 max 1h jitter 25%"},
	{"backoff", `'0m'`, "backoff must be a wait such as 1m"},
	{"backoff", `'1 minute'`, "backoff must be a wait such as 1m"},
	{"backoff", `'1m x0.5'`, "backoff must be a wait such as 1m"},
	{"backoff", `'1m jitter 101%'`, "backoff must be a wait such as 1m"},
	{"backoff", `E'1m\n'`, "backoff must be a wait such as 1m"},
	{"timeout", `'0'`, "timeout must be over 0 and at most 168 hours"},
	{"timeout", `'8 days'`, "timeout must be over 0 and at most 168 hours"},
	{"timeout", `'1 month'`, "timeout must be over 0 and at most 168 hours, without months"},
	{"deadline", `'infinity'`, "deadline must be finite, in the years 1 to 9999"},
	{"deadline", `'10000-01-01Z'`, "deadline must be finite, in the years 1 to 9999"},
	{"expiration", `'3653 days'`, "expiration must be over 0 and at most 10 years"},
	{"expected_execution_time", `'8 days'`, "expected_execution_time must be over 0 and at most 168 hours"},
	{"expected_execution_time", `'1 month'`, "expected_execution_time must be"},
	{"priority", `null`, `null value in column "priority"`},
	{"priority", `101`, "priority must be between -100 and 100"},
	{"priority", `-101`, "priority must be between -100 and 100"},
	{"max_attempts", `null`, `null value in column "max_attempts"`},
	{"max_attempts", `0`, "max_attempts must be between 1 and 1000"},
	{"max_attempts", `1001`, "max_attempts must be between 1 and 1000"},
	{"queue", `null`, `null value in column "queue"`},
	{"queue", `''`, "queue must be 1 to 64 of a-z, 0-9, inner - or _"},
	{"queue", `'Mail'`, "queue must be 1 to 64 of a-z"},
	{"queue", `'mail-'`, "queue must be 1 to 64 of a-z"},
	{"queue", `E'mail\n'`, "queue must be 1 to 64 of a-z"},
	{"queue", `repeat('q', 65)`, "queue must be 1 to 64 of a-z"},
	{"entity", `''`, "entity must be 1 to 512 bytes without control characters"},
	{"entity", `repeat('e', 513)`, "entity must be 1 to 512 bytes without control characters"},
	{"tenant_id", `E'a\tb'`, "tenant_id must be 1 to 512 bytes without control characters"},
	{"scheduled_by", `''`, "scheduled_by must be 1 to 512 bytes without control characters"},
}

var badRecurringColumns = []badColumn{
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
}

// However a bad value comes, the message names the field and the rule, and nothing is changed.
func TestBadValuesInSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("plain", "QUEUED")
	b.MakeRecurring("recurring", "planned")
	plain, recurring := b.state("plain"), b.state("recurring")
	t.Run("all", func(t *testing.T) {
		all := benchOn(t, b.Pool)
		for i, bad := range badColumns {
			all.each(fmt.Sprintf("%d %s", i, bad.column), func(b *bench) { b.refusesColumn(bad, "plain", "schedule") })
		}
		for i, bad := range badRecurringColumns {
			all.each(fmt.Sprintf("recurring %d %s", i, bad.column), func(b *bench) {
				b.refusesColumn(bad, "recurring", "schedule", "schedule_recurring")
			})
		}
	})
	b = benchOn(t, b.Pool) // its time begins anew: the subtests had theirs
	same(b, "plain", b.state("plain"), plain)
	same(b, "recurring", b.state("recurring"), recurring)
	if left := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks`); left != 2 {
		t.Errorf("%d tasks instead of two", left)
	}
}

// refusesColumn demands that an INSERT, an UPDATE of a task and the functions refuse a value.
func (b *bench) refusesColumn(bad badColumn, id string, functions ...string) {
	b.Helper()
	arguments := map[string]string{"payload": `'{"type": "TEST", "n": 1}'`, "id": `'new'`}
	if id == "recurring" {
		arguments["cron"] = `'@daily'`
	}
	arguments[bad.column] = bad.value
	columns, values, named := "", "", ""
	for column, value := range arguments {
		columns, values, named = columns+", "+column, values+", "+value, named+", "+column+" => "+value
	}
	b.refused(`INSERT INTO tasktable.scheduled_tasks (`+columns[2:]+`) VALUES (`+values[2:]+`)`, bad.message)
	if bad.column != "id" && bad.column != "scheduled_by" {
		b.refused(`UPDATE tasktable.scheduled_tasks SET `+bad.column+` = `+bad.value+` WHERE id = $1`, bad.message, id)
	}
	if bad.value == "null" && bad.column != "payload" {
		return // null is the default of schedule's optional arguments
	}
	for _, function := range functions {
		call := `SELECT tasktable.` + function + `(` + named[2:] + `)`
		b.refused(call, bad.message)
		if bad.column != "id" && bad.column != "scheduled_by" {
			b.refused(strings.Replace(call, `'new'`, `'`+id+`'`, 1), bad.message)
		}
	}
}

func TestBadArgumentsOfTheSQLFunctions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "QUEUED")
	before := b.state("one")
	for sql, message := range map[string]string{
		`SELECT tasktable.reschedule('one', NULL)`:       "at must be a time, not null",
		`SELECT tasktable.reschedule('one', 'infinity')`: "scheduled_at, run_now_at must be finite",
		`SELECT tasktable.schedule('{"type":"TEST"}', id => 'one',
			if_finished => 'x')`: "if_finished must be 'rearm', 'keep' or null, not 'x'",
		`SELECT tasktable.schedule('{"type":"TEST"}', id => 'one', cron => '@daily',
			if_running => 'again')`: "if_running must be null for a recurring task",
		`SELECT tasktable.schedule('{"type":"TEST"}', id => 'one', cron => '@daily', scheduled_at => '2030-01-02Z',
			ends_at => '2030-01-01Z')`: "ends_at must not be before scheduled_at",
		`SELECT tasktable.schedule_many('{}')`:              "cannot extract elements from an object",
		`SELECT tasktable.schedule_many('[{"id": "one"}]')`: `"payload"`,
		`SELECT tasktable.schedule_many('[{"id": "one", "payload": {"type": "TEST"}, ` +
			`"expiration": "1 month"}]')`: "expiration must be in days or less",
	} {
		b.refused(sql, message)
	}
	same(b, "task", b.state("one"), before)
	if got := b.ask(`SELECT * FROM tasktable.cancel('')`); got.Outcome != "absent" {
		t.Errorf("cancel of an empty id: %s", pretty(got))
	}
}

// The database may know better, being newer.
func TestWhatOnlyTheDatabaseRefusesIsInvalidToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Exec(
		b.Pool, `ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT "priority must not be 13" CHECK (priority <> 13)`,
	)
	unlucky := base("one")
	unlucky.Priority = 13
	for name, db := range map[string]store.DB{
		"pgx": b.Pool, "database/sql": store.SQL(b.OpenSQL("pgx")), "lib/pq": store.SQL(b.OpenSQL("postgres")),
	} {
		_, err := b.Tasks.Schedule(b.Ctx, db, unlucky)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "priority must not be 13") ||
			!strings.Contains(err.Error(), "schedule task one") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var refused *pgconn.PgError
	_, err := b.Tasks.ScheduleMany(b.Ctx, b.Begin(pgx.TxOptions{}), []store.Task{base("good"), unlucky})
	if !errors.As(err, &refused) || refused.Code != "23514" {
		t.Errorf("the cause is lost: %v", err)
	}
}
