package store_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// These are what the documentation promises to other languages: the names, their order and their defaults.
func TestSignaturesOfTheSQLFunctions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, arguments := range map[string]string{
		"schedule": "payload jsonb, scheduled_at timestamp with time zone DEFAULT NULL::timestamp with time zone, " +
			"id text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, " +
			"queue text DEFAULT NULL::text, expiration interval DEFAULT NULL::interval, " +
			"expected_execution_time interval DEFAULT NULL::interval, " +
			"max_attempts integer DEFAULT NULL::integer, tenant_id text DEFAULT NULL::text, entity text DEFAULT NULL::text, ",
		"cancel": "id text, ",
		"pause": "id text, by text DEFAULT NULL::text, until timestamp with time zone DEFAULT " +
			"NULL::timestamp with time zone",
		"resume":     "id text, ",
		"run_now":    "id text, ",
		"retry":      "id text, ",
		"delete":     "id text, ",
		"reschedule": "id text, at timestamp with time zone, ",
		"schedule_recurring": "payload jsonb, cron text, id text, time_zone text DEFAULT 'UTC'::text, " +
			"starts_at timestamp with time zone DEFAULT NULL::timestamp with time zone, " +
			"ends_at timestamp with time zone DEFAULT NULL::timestamp with time zone, " +
			"max_occurrences integer DEFAULT NULL::integer, overlap text DEFAULT 'skip'::text, " +
			"catch_up text DEFAULT 'latest'::text, catch_up_limit integer DEFAULT 100, " +
			"catch_up_paused text DEFAULT 'none'::text, ",
		"pause_scope": "scope text, name text DEFAULT ''::text, until timestamp with time zone DEFAULT " +
			"NULL::timestamp with time zone, reason text DEFAULT NULL::text, ",
		"resume_scope":    "scope text, name text DEFAULT ''::text, ",
		"archive":         "id text, note text DEFAULT NULL::text, ",
		"erase":           "entity text DEFAULT NULL::text, tenant_id text DEFAULT NULL::text",
		"fork_occurrence": "parent text, fire timestamp with time zone, skip_reason text DEFAULT NULL::text, ",
	} {
		got := one[string](b, b.Pool, `SELECT pg_get_function_arguments(p.oid) FROM pg_proc AS p
			WHERE p.proname = $1 AND p.pronamespace = 'tasktable'::regnamespace`, name)
		optional, found := strings.CutPrefix(got, arguments)
		if !found || optional != "" && strings.Count(optional, "DEFAULT") != 1+strings.Count(optional, ", ") {
			t.Errorf("%s(%s)", name, got)
		}
	}
}

// answer is what select * from a function gives.
type answer struct {
	ID       string
	Revision *int64
	Outcome  string
}

// ask calls a function as psql does, with the simple protocol.
func (b *bench) ask(sql string) answer {
	b.Helper()
	rows, err := b.Pool.Query(b.Ctx, sql, pgx.QueryExecModeSimpleProtocol)
	b.Check(err)
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[answer])
	if err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
	return got
}

// A null argument means the default, as if the argument were left out.
func TestANullArgumentOfScheduleIsItsDefault(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const payload = `'{"type": "TEST"}'`
	for _, argument := range []string{
		"queue", "priority", "expected_execution_time", "max_attempts", "expiration", "tenant_id", "entity",
		"if_finished", "scheduled_by", "scheduled_at", "wake", "verb", "jitter", "retention", "cron", "time_zone",
		"trace",
	} {
		sql := `SELECT * FROM tasktable.schedule(` + payload + `, id => '` + argument + `', ` + argument + ` => NULL)`
		for _, want := range []string{"created", "unchanged"} {
			if got := b.ask(sql); got.Outcome != want {
				t.Errorf("%s: %s, want %s", sql, got.Outcome, want)
			}
		}
		same(b, argument, one[string](b, b.Pool, `SELECT concat_ws(' ', queue, priority, expected_execution_time,
			max_attempts)
			FROM tasktable.scheduled_tasks WHERE id = $1`, argument), "default 0 00:05:00 10")
		same(b, argument+"'s change", b.Changes(argument)[0].Verb, "schedule")
	}
	for _, argument := range []string{
		"queue", "priority", "expected_execution_time", "max_attempts", "time_zone", "overlap", "catch_up",
		"catch_up_limit", "catch_up_paused",
	} {
		id := "recurring " + argument
		sql := `SELECT * FROM tasktable.schedule_recurring(` + payload + `, '@daily', '` + id + `', ` + argument +
			` => NULL)`
		for _, want := range []string{"created", "unchanged"} {
			if got := b.ask(sql); got.Outcome != want {
				t.Errorf("%s: %s, want %s", sql, got.Outcome, want)
			}
		}
	}
	for _, call := range []string{
		`SELECT * FROM tasktable.schedule_many($1, wake => NULL, verb => NULL)`,
		`SELECT * FROM tasktable.sync('event:1', $1, wake => NULL)`,
	} {
		b.Exec(
			b.Pool, call,
			`[{"id": "of many", "payload": {"type": "TEST"}, "queue": null, "priority": null, "max_attempts": null,
			"expected_execution_time": null, "overlap": null}]`,
		)
	}
	if got := b.Changes("of many")[0].Verb; got != "schedule" {
		t.Errorf("the verb of schedule_many is %q", got)
	}
}

func TestTheSQLFunctionsAsPsqlCallsThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, call := range []struct{ sql, outcome string }{
		{`select * from tasktable.schedule('{"type":"LOG","message":"hi"}', '2100-01-01 00:00Z', 'hello')`, "created"},
		{`select * from tasktable.schedule('{"type":"LOG","message":"hi"}',
			'2100-01-01 00:00Z', 'hello')`, "unchanged"},
		{`select * from tasktable.schedule('{"type":"LOG","message":"hi"}', null, 'hello')`, "unchanged"},
		{`select * from tasktable.schedule(id => 'hello', payload => '{"type":"LOG","message":"ho"}',
			scheduled_at => '2100-01-01 00:00Z')`, "rescheduled"},
		{`select * from tasktable.reschedule('hello', '2100-01-02Z')`, "rescheduled"},
		{`select * from tasktable.reschedule(at => '2100-01-02Z', id => 'hello')`, "unchanged"},
		{`select * from tasktable.pause('hello')`, "paused"},
		{`select * from tasktable.pause(id => 'hello')`, "unchanged"},
		{`select * from tasktable.resume('hello')`, "queued"},
		{`select * from tasktable.run_now('hello')`, "queued"},
		{`select * from tasktable.retry('hello')`, "unchanged"},
		{`select * from tasktable.cancel('hello')`, "cancelled"},
		{`select * from tasktable.cancel('hello')`, "unchanged"},
		{`select * from tasktable.delete('hello')`, "deleted"},
		{`select * from tasktable.cancel('hello')`, "absent"},
		{`select * from tasktable.schedule_recurring('{"type":"LOG"}', '*/5 * * * *', 'hello')`, "created"},
		{`select * from tasktable.schedule_recurring('{"type":"LOG"}', '*/5 * * * *', 'hello', null)`, "unchanged"},
		{`select * from tasktable.schedule_recurring('{"type":"LOG"}', '*/5 * * * *', 'hello',
			'Europe/Berlin')`, "rescheduled"},
		{`select * from tasktable.schedule_recurring(cron => '*/5 * * * *', id => 'hello', payload => '{"type":"LOG"}',
			time_zone => 'Europe/Berlin', overlap => null, catch_up => null)`, "unchanged"},
		{`select * from tasktable.pause('hello', 'ann', '2100-01-01Z')`, "paused"},
		{`select * from tasktable.resume('hello')`, "queued"},
		{`select * from tasktable.run_now('hello')`, "queued"},
		{`select * from tasktable.archive('hello')`, "unchanged"},
		{`select * from tasktable.cancel('hello')`, "cancelled"},
		{`select * from tasktable.schedule_recurring('{"type":"LOG"}', '*/5 * * * *', 'hello',
			'Europe/Berlin')`, "rearmed"},
		{`select * from tasktable.schedule('{"type":"LOG"}', null, 'hello', replace => true)`, "rescheduled"},
	} {
		got := b.ask(call.sql)
		row := b.Get("hello")
		if got.ID != "hello" || got.Outcome != call.outcome || (got.Revision == nil) != (row == nil) ||
			row != nil && *got.Revision != row.Revision {
			t.Errorf("%s: %s", call.sql, pretty(got))
		}
	}
	for _, verb := range []string{"cancel", "archive"} {
		same(b, "as a composite", one[string](b, b.Pool, `select tasktable.`+verb+`('nobody')::text`), "(nobody,,absent)")
	}
}

func TestScheduleInSQLStoresEachArgument(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	entity, tenant, hours := "event:42", "acme", 2*time.Hour
	for id, sql := range map[string]string{
		"by place": `select * from tasktable.schedule('{"type":"LOG"}', '2100-01-01Z', 'by place', 7, 'mail', '2 hours',
			'30 seconds', 9, 'acme', 'event:42')`,
		"by name": `select * from tasktable.schedule(entity => 'event:42', tenant_id => 'acme', max_attempts => 9,
			expected_execution_time => '30 seconds',
			expiration => '2 hours', queue => 'mail', priority => 7, id => 'by name', scheduled_at => '2100-01-01Z',
			payload => '{"type":"LOG"}')`,
	} {
		receipt := b.ask(sql)
		got := b.Get(id)
		at := far(0)
		same(b, id, got, &store.Row{
			ID: id, Payload: []byte(`{"type": "LOG"}`), Type: "LOG", Entity: &entity, TenantID: &tenant, Queue: "mail",
			Status: "QUEUED", Priority: 7, ScheduledAt: at, Expiration: &hours, ExpectedExecutionTime: 30 * time.Second,
			MaxAttempts: 9, Revision: *receipt.Revision, AskedRevision: *receipt.Revision, NextAttemptAt: &at,
			CreatedAt: got.CreatedAt, LastStatusUpdate: got.LastStatusUpdate,
		})
		same(b, "lines", b.Lines(id), []string{"schedule created " + b.Role()})
	}

	from := b.Now()
	receipt := b.ask(`select * from tasktable.schedule('{"type":"LOG"}')`)
	got := b.Get(receipt.ID)
	if got.ScheduledAt.Before(from) || got.ScheduledAt.After(b.Now()) {
		t.Errorf("scheduled without a time, at %v, for %v", from, got.ScheduledAt)
	}
	at := got.ScheduledAt
	same(b, "defaults", got, &store.Row{
		ID: receipt.ID, Payload: []byte(`{"type": "LOG"}`), Type: "LOG", Queue: "default", Status: "QUEUED",
		ScheduledAt: at, ExpectedExecutionTime: 5 * time.Minute, MaxAttempts: 10, Revision: *receipt.Revision,
		AskedRevision: *receipt.Revision, NextAttemptAt: &at, CreatedAt: got.CreatedAt,
		LastStatusUpdate: got.LastStatusUpdate,
	})
}

func TestIDsMadeInSQLAreUUIDsOfVersion7(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	syntax := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	ids := one[[]string](b, b.Pool, `SELECT array_agg(tasktable.new_task_id()) FROM generate_series(1, 100)`)
	for _, id := range ids {
		if !syntax.MatchString(id) {
			t.Errorf("got %s", id)
		}
	}
	seconds := one[float64](b, b.Pool, `SELECT abs(extract(epoch
		FROM clock_timestamp()) - ('x0000' || left(replace($1, '-', ''),
		12))::bit(64)::bigint / 1000.0)::float8`, ids[0])
	if seconds > 60 {
		t.Errorf("%s is %v seconds from now", ids[0], seconds)
	}
}

// ScheduleMany and Sync are there for SQL too, with the defaults of schedule for what an object leaves out.
func TestBulkInSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	type line struct {
		Position *int64
		answer
	}
	ask := func(sql string) []string {
		rows, err := b.Pool.Query(b.Ctx, sql, pgx.QueryExecModeSimpleProtocol)
		b.Check(err)
		lines, err := pgx.CollectRows(rows, pgx.RowToStructByName[line])
		b.Check(err)
		var found []string
		for _, line := range lines {
			found = append(found, pretty(line.Position)+" "+line.ID+" "+line.Outcome)
		}
		return found
	}
	same(b, "schedule_many", ask(`select * from tasktable.schedule_many('[
		{"id": "b", "payload": {"type": "LOG"}, "scheduled_at": "2100-01-01Z", "entity": "event:1",
			"expiration": "2 hours"},
		{"id": "a", "payload": {"type": "LOG"}, "entity": "event:1"}]') order by position`), []string{
		"1 b created", "2 a created",
	})
	if row := b.Get("a"); row.ScheduledAt.After(b.Now()) || row.MaxAttempts != 10 ||
		row.ExpectedExecutionTime != 5*time.Minute {
		t.Errorf("got %s", pretty(row))
	}
	same(b, "sync", ask(`select * from tasktable.sync('event:1',
		'[{"id": "b", "payload": {"type": "LOG"}, "scheduled_at": null, "expiration": "2 hours"},
		{"id": "c", "payload": {"type": "LOG"}}]') order by position nulls last`), []string{
		"1 b unchanged", "2 c created", "null a cancelled",
	})
	if rows := ask(`select * from tasktable.schedule_many('[]')`); len(rows) != 0 {
		t.Errorf("of none: %v", rows)
	}
}
