package migrations_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
)

// rights is a database with the five roles, each with a pool of its own.
type rights struct {
	roles    migrations.Roles
	database string
	admin    *pgxpool.Pool

	owner, engine, application, auditor, tenant *pgxpool.Pool
}

func newRights(ctx context.Context, t *testing.T, services ...string) *rights {
	t.Helper()
	r := &rights{roles: migrations.Roles{
		Owner: storetest.Role(t), Engine: storetest.Role(t), Application: storetest.Role(t), Auditor: storetest.Role(t),
		Tenant: storetest.Role(t), Services: services,
	}}
	r.database = storetest.URL(t) // after the roles: it goes before them
	r.admin = poolOn(ctx, t, r.database, 4)
	r.grant(ctx, t, r.roles)
	r.owner, r.engine = as(ctx, t, r.roles.Owner, r.database), as(ctx, t, r.roles.Engine, r.database)
	r.application, r.auditor = as(ctx, t, r.roles.Application, r.database), as(ctx, t, r.roles.Auditor, r.database)
	r.tenant = as(ctx, t, r.roles.Tenant, r.database)
	return r
}

// grant runs the script as a DBA does.
func (r *rights) grant(ctx context.Context, t *testing.T, roles migrations.Roles) {
	t.Helper()
	psql, _ := exec.LookPath("psql")
	byPsql(psql)(ctx, t, r.database, script(t, "", roles))
}

// script is the printed SQL.
func script(t *testing.T, schema string, roles migrations.Roles) string {
	t.Helper()
	var printed strings.Builder
	check(t, migrations.PrintRoles(&printed, schema, roles))
	return printed.String()
}

const denied = "42501" // insufficient_privilege

// refused demands that a role may not do something.
func refused(ctx context.Context, t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(ctx, sql, args...)
	if !isDenied(err) {
		t.Errorf("%s: got %v, want permission denied", sql, err)
	}
}

func isDenied(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.Code == denied
}

// held lists what a role may do in the schema, from the catalogs: what it can do without the owner, whoever granted it.
func held(ctx context.Context, t *testing.T, r *rights, role string) []string {
	t.Helper()
	return lines(ctx, t, r.admin, `
SELECT concat_ws(' ', o.name, o.privilege) FROM (
    SELECT c.relname::text AS name, p.privilege, c.relkind <> 'S'
        AND has_table_privilege($1::text, c.oid, p.privilege) AS has
    FROM pg_class AS c
        CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) AS p (privilege)
    WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind IN ('r', 'v')
    UNION ALL
    SELECT c.relname || '.' || a.attname, p.privilege, has_column_privilege($1::text, c.oid, a.attnum, p.privilege)
        AND NOT has_table_privilege($1::text, c.oid, p.privilege)
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    CROSS JOIN unnest('{SELECT,INSERT,UPDATE,REFERENCES}'::text[]) AS p (privilege)
    WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind IN ('r', 'v')
    UNION ALL
    SELECT c.relname, p.privilege, has_sequence_privilege($1::text, c.oid, p.privilege)
    FROM pg_class AS c
        CROSS JOIN unnest('{SELECT,UPDATE,USAGE}'::text[]) AS p (privilege)
    WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind = 'S'
    UNION ALL
    SELECT p.proname || '()', 'EXECUTE', has_function_privilege($1::text, p.oid, 'EXECUTE')
    FROM pg_proc AS p WHERE p.pronamespace = 'tasktable'::regnamespace
    UNION ALL
    SELECT 'schema', p.privilege, has_schema_privilege($1::text, 'tasktable', p.privilege)
    FROM unnest('{USAGE,CREATE}'::text[]) AS p (privilege)
) AS o WHERE o.has ORDER BY o.name COLLATE "C", o.privilege COLLATE "C"`, role)
}

// The lists are whole: whoever gives a role another right writes it here.
func TestRightsOfEachRole(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	// Of both the application and the tenant.
	both := []string{
		"add_days() EXECUTE", "archive() EXECUTE", "calendars SELECT", "calendars_of() EXECUTE", "cancel() EXECUTE",
		"day_in() EXECUTE", "days_of() EXECUTE", "defaults_of() EXECUTE", "delete() EXECUTE",
		"goose_db_version SELECT", "is_day() EXECUTE", "is_restricted() EXECUTE", "knows_time_zone() EXECUTE",
		"message_pattern() EXECUTE", "options_fault() EXECUTE", "pause() EXECUTE", "pauses SELECT",
		"reason_of() EXECUTE", "recurring_health() EXECUTE", "remove_calendar() EXECUTE", "remove_days() EXECUTE",
		"reschedule() EXECUTE", "resume() EXECUTE", "retry() EXECUTE", "river_migration SELECT", "run_now() EXECUTE",
		"same_time() EXECUTE", "schedule() EXECUTE", "schedule_many() EXECUTE", "schedule_outcome() EXECUTE",
		"schedule_recurring() EXECUTE", "scheduled_task_changes SELECT", "scheduled_task_executions SELECT",
		"scheduled_tasks SELECT", "scheduled_tasks.id UPDATE", "schema USAGE", "set_calendar() EXECUTE",
		"sync() EXECUTE", "task_defaults SELECT",
	}
	for role, own := range map[string]string{
		r.roles.Application: "fork_occurrence() EXECUTE", r.roles.Tenant: "services_of() EXECUTE",
	} {
		want := append(slices.Clone(both), own)
		slices.Sort(want)
		same(t, "the rights of "+role, strings.Join(held(ctx, t, r, role), "\n"), strings.Join(want, "\n"))
	}
	for _, right := range held(ctx, t, r, r.roles.Auditor) {
		switch right {
		case "due_of() EXECUTE", "lock_class() EXECUTE", "reason_text() EXECUTE", "reason_of() EXECUTE",
			"recurring_health() EXECUTE", "message_pattern() EXECUTE", "late_at() EXECUTE",
			"limit_states() EXECUTE", "reached_limits() EXECUTE", "limit_places() EXECUTE", "limit_waits() EXECUTE",
			"waits_for() EXECUTE":
			// For the views; they only read.
			continue
		}
		if !strings.HasSuffix(right, " SELECT") && right != "schema USAGE" {
			t.Errorf("the auditor has %s", right)
		}
	}
	for _, right := range held(ctx, t, r, r.roles.Engine) {
		switch name, privilege, _ := strings.Cut(right, " "); {
		case privilege == "TRUNCATE", privilege == "REFERENCES", privilege == "TRIGGER", privilege == "CREATE",
			strings.HasPrefix(name, "scheduled_task_") && privilege == "UPDATE", // history
			right == "api_keys DELETE", right == "api_answers UPDATE", right == "api_sessions UPDATE",
			right == "notice_causes UPDATE", right == "notice_episodes UPDATE",
			strings.HasSuffix(name, "_version") && privilege != "SELECT",
			name == "river_migration" && privilege != "SELECT", name == "applications" && privilege != "SELECT":
			t.Errorf("the engine has %s", right)
		}
	}
	if others := lines(ctx, t, r.admin, `SELECT relname::text FROM pg_class
		WHERE relnamespace = 'tasktable'::regnamespace
			AND relowner <> $1::text::regrole`, r.roles.Owner); len(others) != 0 {
		t.Errorf("not the owner's: %v", others)
	}
}

// What runs as the owner has a search_path of its own: else whoever calls it could put functions of his own in the way.
func TestWhatRunsAsTheOwnerHasItsOwnSearchPath(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	if definers := lines(ctx, t, r.admin, `SELECT p.proname::text FROM pg_proc AS p
		WHERE p.pronamespace = 'tasktable'::regnamespace AND p.prosecdef`); len(definers) != 21 {
		t.Errorf("%d functions run as the owner: %v", len(definers), definers)
	}
	for _, bare := range lines(ctx, t, r.admin, `SELECT p.oid::regprocedure::text FROM pg_proc AS p
		WHERE p.pronamespace = 'tasktable'::regnamespace AND p.prosecdef
			AND p.proconfig IS DISTINCT FROM '{"search_path=pg_catalog, pg_temp"}'`) {
		t.Errorf("%s has none", bare)
	}

	// A hostile one: what it finds first has the exact types, and tells who has called it.
	apply(ctx, t, r.admin, `CREATE SCHEMA hostile AUTHORIZATION `+r.roles.Application)
	conn, err := r.application.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	const trap = `$$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$`
	for _, signature := range []string{
		"clock_timestamp()", "now()", "set_config(text, text, boolean)", "current_setting(text)",
		"current_setting(text, boolean)", "concat(VARIADIC text[])", "jsonb_array_elements(jsonb)",
		"jsonb_typeof(jsonb)", "jsonb_array_length(jsonb)", "pg_notify(text, text)", "pg_notification_queue_usage()",
		"hashtextextended(text, bigint)", "gen_random_uuid()", "to_char(timestamptz, text)",
		"split_part(text, text, integer)", "nextval(regclass)", "jsonb_object_keys(jsonb)",
		"pg_has_role(name, oid, text)",
	} {
		succeeds(t)(conn.Exec(ctx, `CREATE FUNCTION hostile.`+signature+` RETURNS text LANGUAGE plpgsql AS `+trap))
	}
	_, err = conn.Exec(ctx, `CREATE FUNCTION hostile.equal(tasktable.task_id, text) RETURNS boolean
		LANGUAGE plpgsql AS `+trap+`;
		CREATE OPERATOR hostile.= (LEFTARG = tasktable.task_id, RIGHTARG = text, FUNCTION = hostile.equal);
		SET search_path = hostile, pg_catalog`)
	check(t, err)
	if _, err := conn.Exec(ctx, `SELECT now()`); err == nil ||
		!strings.Contains(err.Error(), "called as "+r.roles.Application) {
		t.Fatalf("the trap does not work: %v", err)
	}
	for _, call := range []string{
		`tasktable.schedule('{"type":"TEST"}', id => 'one')`,
		`tasktable.schedule('{"type":"TEST","n":2}', '2100-01-01Z', 'one')`, `tasktable.schedule('{"type":"TEST"}')`,
		`tasktable.schedule_many('[{"id":"two","payload":{"type":"TEST"}}]')`,
		`tasktable.schedule_recurring('{"type":"TEST"}', '@daily', 'daily')`, `tasktable.run_now('daily')`,
		`tasktable.fork_occurrence('daily', '2020-01-01Z')`,
		`tasktable.sync('event:1', '[{"id":"three","payload":{"type":"TEST"}}]')`,
		`tasktable.reschedule('one', '2100-01-02Z')`, `tasktable.pause('one')`, `tasktable.resume('one')`,
		`tasktable.cancel('one')`, `tasktable.retry('one')`, `tasktable.archive('one')`, `tasktable.delete('one')`,
		`tasktable.set_calendar('company', '["2027-12-24"]')`, `tasktable.add_days('company', '["2027-12-25"]')`,
		`tasktable.remove_days('company', '["2027-12-25"]')`, `tasktable.remove_calendar('company')`,
	} {
		if _, err := conn.Exec(ctx, "SELECT "+call); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}
