package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// badColumn are values that the table refuses, with what the message says.
type badColumn struct {
	column, message string
	values          []string
}

// badColumns are of each task. badRecurringColumns are of recurring tasks.
var badColumns = []badColumn{
	{"id", "id must be 1 to 512 bytes without control characters", []string{
		`''`, `repeat('x', 513)`, `repeat('€', 171)`, `E'a\nb'`, `E'a\x7f'`, `E'a\u0085'`,
	}},
	{"id", "invalid byte sequence", []string{`E'a\xff'`}},
	{"payload", `null value in column "payload"`, []string{`null`}},
	{"payload", "payload must be a JSON object", []string{`'null'`, `'[]'`, `'"x"'`}},
	{"payload", "invalid input syntax for type json", []string{`'{'`}},
	{"payload", "payload must have a field type that is a string", []string{
		`'{}'`, `'{"type": 1}'`, `'{"type": null}'`,
	}},
	{"payload", "unsupported Unicode escape sequence", []string{`'{"type": "TEST", "s": "\u0000"}'`}},
	{"payload", "payload must be at most 256 KiB of JSON text", []string{
		`jsonb_build_object('type', 'TEST', 's', repeat('x', 262144 - 24))`,
	}},
	{"payload", "type must be 2 to 127 letters, digits or _-[]<>/.·:+", []string{
		`'{"type": ""}'`, `'{"type": "A"}'`, `'{"type": "A B"}'`, `'{"type": "AB\n"}'`,
		`jsonb_build_object('type', repeat('A', 128))`,
	}},
	{"scheduled_at", "scheduled_at, run_now_at must be finite, in the years 1 to 9999", []string{
		`'infinity'`, `'-infinity'`, `'10000-01-01Z'`, `'0001-12-31 23:59:59Z BC'`,
	}},
	{"scheduled_at", `invalid input syntax for type timestamp with time zone: "soon"`, []string{`'soon'`}},
	{"expiration", "expiration must be over 0 and at most 10 years", []string{
		`'0'`, `'-1 hour'`, `'87660:00:00.000001'`, `'3653 days'`,
	}},
	{"expiration", "expiration must be in days or less", []string{`'1 month'`, `'1 month -29 days'`}},
	{"expiration", `interval field value out of range`, []string{`'99999999999999999999 hours'`}},
	{"expected_execution_time", `null value in column "expected_execution_time"`, []string{`null`}},
	{"expected_execution_time", "expected_execution_time must be over 0 and at most 168 hours", []string{
		`'0'`, `'-1 second'`, `'168:00:00.000001'`, `'8 days'`,
	}},
	{"backoff", "backoff must be a wait such as 1m, or 10s x3 max 1h jitter 25%", []string{
		`''`, `'0m'`, `'1 minute'`, `'1m x0.5'`, `'1m jitter 101%'`, `E'1m\n'`,
	}},
	{"timeout", "timeout must be over 0 and at most 168 hours, without months", []string{
		`'0'`, `'8 days'`, `'1 month'`,
	}},
	{"deadline", "deadline must be finite, in the years 1 to 9999", []string{`'infinity'`, `'10000-01-01Z'`}},
	{"expected_execution_time", "expected_execution_time must be in days or less, not months", []string{`'1 month'`}},
	{"priority", `null value in column "priority"`, []string{`null`}},
	{"priority", "priority must be between -100 and 100", []string{`101`, `-101`}},
	{"max_attempts", `null value in column "max_attempts"`, []string{`null`}},
	{"max_attempts", "max_attempts must be between 1 and 1000", []string{`0`, `1001`}},
	{"queue", `null value in column "queue"`, []string{`null`}},
	{"queue", "queue must be 1 to 64 of a-z, 0-9, inner - or _", []string{
		`''`, `'Mail'`, `'mail-'`, `E'mail\n'`, `repeat('q', 65)`,
	}},
	{"entity", "entity must be 1 to 512 bytes without control characters", []string{`''`, `repeat('e', 513)`}},
	{"tenant_id", "tenant_id must be 1 to 512 bytes without control characters", []string{`E'a\tb'`}},
	{"scheduled_by", "scheduled_by must be 1 to 512 bytes without control characters", []string{`''`}},
}

var badRecurringColumns = []badColumn{
	{"cron", "cron must be 1 to 256 printable ASCII characters", []string{
		`''`, `E'0 9 * * *\n'`, `'0 9 * * «'`, `repeat('*', 257)`,
	}},
	{"time_zone", "time_zone must be an IANA name of 1 to 64 characters", []string{
		`''`, `'Europe Berlin'`, `repeat('z', 65)`,
	}},
	{"overlap", "overlap must be skip, allow or cancel_running", []string{`'queue'`, `''`}},
	{"catch_up", "catch_up must be latest, all or none", []string{`'some'`}},
	{"catch_up_paused", "catch_up must be latest, all or none", []string{`'NONE'`}},
	{"catch_up_limit", "catch_up_limit must be between 1 and 10000", []string{`0`, `10001`}},
	{"jitter", "jitter must be over 0 and at most 24 hours, without months", []string{
		`'0'`, `'-1 second'`, `'24:00:00.000001'`, `'1 day 1 microsecond'`,
	}},
	{"ends_at", "ends_at, paused_until must be finite, in the years 1 to 9999", []string{
		`'infinity'`, `'10000-01-01Z'`,
	}},
	{"max_occurrences", "max_occurrences must be between 1 and 1000000", []string{`0`, `1000001`}},
	{"retention", "retention must be over 0 and at most 100 years, in days or less", []string{
		`'0'`, `'-1 hour'`, `'1 month'`, `'876600:00:00.000001'`,
	}},
	{"id", "id of a recurring task must be at most 480 bytes", []string{`repeat('x', 481)`, `repeat('€', 161)`}},
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
		for _, bad := range badColumns {
			for _, value := range bad.values {
				all.each(bad.column+" "+value, func(b *bench) { b.refusesColumn(bad, value, "plain", "schedule") })
			}
		}
		for _, bad := range badRecurringColumns {
			for _, value := range bad.values {
				all.each("recurring "+bad.column+" "+value, func(b *bench) {
					b.refusesColumn(bad, value, "recurring", "schedule", "schedule_recurring")
				})
			}
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
func (b *bench) refusesColumn(bad badColumn, value, id string, functions ...string) {
	b.Helper()
	arguments := map[string]string{"payload": `'{"type": "TEST", "n": 1}'`, "id": `'new'`}
	if id == "recurring" {
		arguments["cron"] = `'@daily'`
	}
	arguments[bad.column] = value
	columns, values, named := "", "", ""
	for column, value := range arguments {
		columns, values, named = columns+", "+column, values+", "+value, named+", "+column+" => "+value
	}
	b.refused(`INSERT INTO tasktable.scheduled_tasks (`+columns[2:]+`) VALUES (`+values[2:]+`)`, bad.message)
	if bad.column != "id" && bad.column != "scheduled_by" {
		b.refused(`UPDATE tasktable.scheduled_tasks SET `+bad.column+` = `+value+` WHERE id = $1`, bad.message, id)
	}
	if value == "null" && bad.column != "payload" {
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
