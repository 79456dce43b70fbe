package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestRolesAreNamedAsAsked(t *testing.T) {
	t.Parallel()
	printed := script(t, "jobs", migrations.Roles{
		Engine: "node@project.iam", Application: "Events-API", Services: []string{`it's "quoted", \and`, "b"},
	})
	for _, want := range []string{
		`TO "node@project.iam"`, `'node@project.iam'`, `"Events-API"`, `'Events-API'`, `"jobs_owner"`, `'jobs_auditor'`,
		`"jobs_tenant"`, `'jobs_tenant'`, `jobs.tenant`,
		`ON jobs.scheduled_tasks`, `ARRAY['it''s "quoted", \and', 'b']`,
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("lacks %s", want)
		}
	}
	for _, left := range []string{"tasktable", "ARRAY['']"} {
		if strings.Contains(printed, left) {
			t.Errorf("%s is left", left)
		}
	}
	plain := script(t, "", migrations.Roles{})
	if !strings.Contains(plain, `"tasktable_application"`) || !strings.Contains(plain, `ARRAY['']`) {
		t.Error("the defaults are others")
	}
}

func TestRolesThatAreRefused(t *testing.T) {
	t.Parallel()
	for want, roles := range map[string]migrations.Roles{
		"role of the owner must be 1 to 63":                {Owner: `a"b`},
		"role of the engine must be 1 to 63":               {Engine: strings.Repeat("x", 64)},
		"role of the auditor must be 1 to 63":              {Auditor: "-x"},
		"role of the application must not be public":       {Application: "public"},
		"role of the engine must not be public, none or":   {Engine: "pg_monitor"},
		"role of the owner must not be public, none":       {Owner: "none"},
		"role of the engine must be another":               {Owner: "same", Engine: "same"},
		"role of the auditor must be another":              {Application: "tasktable_auditor"},
		"service must be 1 to 512 bytes without control":   {Services: []string{"a\nb"}},
		"service must be 1 to 512 bytes without":           {Services: []string{""}},
		"service must be 1 to 512 bytes":                   {Services: []string{strings.Repeat("x", 513)}},
		"role of the application must be 1 to 63 of lette": {Application: "a b"},
		"role of the tenant must be 1 to 63 of letters":    {Tenant: "a b"},
		"role of the tenant must be another than":          {Engine: "same", Tenant: "same"},
	} {
		err := migrations.PrintRoles(io.Discard, "", roles)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for schema, want := range map[string]string{
		"public": "schema must be Tasktable's alone", "Jobs": "must be 1 to 46",
	} {
		err := migrations.PrintRoles(io.Discard, schema, migrations.Roles{})
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", schema, err)
		}
	}
	if err := migrations.PrintRoles(fullDisk{}, "", migrations.Roles{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

// fails demands that the script, run at once, stops with a message, and changes nothing.
func fails(ctx context.Context, t *testing.T, pool *pgxpool.Pool, roles migrations.Roles, want string) {
	t.Helper()
	_, err := pool.Exec(ctx, script(t, "", roles), pgx.QueryExecModeSimpleProtocol)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if made := lines(ctx, t, pool, `SELECT rolname::text FROM pg_roles WHERE rolname IN ($1, $2, $3, $4, $5)
		AND rolname <> current_user
		AND NOT rolcanlogin`, roles.Owner, roles.Engine, roles.Application, roles.Auditor,
		roles.Tenant); len(made) != 0 {
		t.Errorf("%s: made %v", want, made)
	}
}

// newNames are names of roles that are not there yet, and go when the test ends. They are to be had
// before the database is.
func newNames(ctx context.Context, t *testing.T) migrations.Roles {
	t.Helper()
	storetest.Role(t) // or the test is skipped
	admin, err := pgx.Connect(ctx, storetest.EmptyURL(t))
	check(t, err)
	name := fmt.Sprintf("tasktable_test-%016x@", rand.Uint64())
	roles := migrations.Roles{
		Owner: name + "own", Engine: name + "engine", Application: name + "app", Auditor: name + "audit",
		Tenant: name + "tenant",
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		for _, role := range []string{roles.Owner, roles.Engine, roles.Application, roles.Auditor, roles.Tenant} {
			if _, err := admin.Exec(ctx, `DROP ROLE IF EXISTS `+pgx.Identifier{role}.Sanitize()); err != nil {
				t.Errorf("drop the role: %v", err)
			}
		}
		_ = admin.Close(ctx)
	})
	return roles
}

func TestTheScriptRefusesWhatWouldMeanNothing(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	roles, member := newNames(ctx, t), storetest.Role(t)
	admin := poolOn(ctx, t, storetest.EmptyURL(t), 1)
	fails(ctx, t, admin, roles, "schema tasktable is not migrated, or older than this script: migrate it first")
	check(t, migrations.Up(ctx, admin, ""))
	super := roles
	super.Owner = lines(ctx, t, admin, `SELECT rolname::text FROM pg_roles WHERE rolsuper LIMIT 1`)[0]
	fails(ctx, t, admin, super, `role "`+super.Owner+`" is a superuser`)
	inherits := roles
	inherits.Engine, inherits.Application = storetest.Role(t), member
	apply(ctx, t, admin, `GRANT `+inherits.Engine+` TO `+member)
	fails(ctx, t, admin, inherits, `role "`+member+`" is a member of a role that may do more`)
	tenant := storetest.Role(t)
	inherits = roles
	inherits.Application, inherits.Tenant = storetest.Role(t), tenant
	apply(ctx, t, admin, `GRANT `+inherits.Application+` TO `+tenant)
	fails(ctx, t, admin, inherits, `role "`+tenant+`" is a member of a role that may do more`)
	apply(ctx, t, admin, `REVOKE `+inherits.Application+` FROM `+tenant+`;
		GRANT `+tenant+` TO `+inherits.Application)
	fails(ctx, t, admin, inherits, `would have the tasks of every tenant`)
}

// state is what the script says: rights, policies, triggers and settings of functions.
func state(ctx context.Context, t *testing.T, pool *pgxpool.Pool, roles migrations.Roles) string {
	t.Helper()
	return strings.Join(lines(ctx, t, pool, `
SELECT concat_ws(' ', relname, relowner::regrole, relacl::text, relrowsecurity)
FROM pg_class WHERE relnamespace = 'tasktable'::regnamespace
UNION ALL SELECT concat_ws(' ', attrelid::regclass, attname, attacl::text)
    FROM pg_attribute WHERE attacl IS NOT NULL AND attnum > 0
UNION ALL SELECT concat_ws(' ', proname, proowner::regrole, proacl::text, prosecdef, proconfig::text)
    FROM pg_proc WHERE pronamespace = 'tasktable'::regnamespace
UNION ALL SELECT concat_ws(' ', polname, polrelid::regclass, polcmd, pg_get_expr(polqual, polrelid)) FROM pg_policy
UNION ALL SELECT concat_ws(' ', tgname, pg_get_triggerdef(oid)) FROM pg_trigger WHERE tgname LIKE 'task_9%'
UNION ALL SELECT concat_ws(' ', typname, typowner::regrole) FROM pg_type WHERE typnamespace = 'tasktable'::regnamespace
UNION ALL SELECT concat_ws(' ', defaclrole::regrole, defaclacl::text) FROM pg_default_acl
UNION ALL SELECT concat_ws(' ', nspname, nspowner::regrole, nspacl::text) FROM pg_namespace WHERE nspname = 'tasktable'
UNION ALL SELECT concat_ws(' ', role, service) FROM tasktable.applications
UNION ALL SELECT concat_ws(' ', rolname, rolcanlogin) FROM pg_roles
    WHERE starts_with(rolname, '`+strings.TrimSuffix(roles.Owner, "own")+`') ORDER BY 1`),
		"\n") // other tests make roles meanwhile
}

// A role that may create roles makes them all; the owner does it again after a migration, and the second
// time changes nothing.
func TestTheScriptRunsAgain(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	deploy := storetest.Role(t) // before the roles, because it has granted the memberships among them
	roles := newNames(ctx, t)
	roles.Services = []string{"events-api"}
	database := storetest.EmptyURL(t)
	admin := poolOn(ctx, t, database, 1)
	apply(ctx, t, admin, `ALTER ROLE `+deploy+` CREATEROLE;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO `+deploy+`', current_database()); END $$`)
	pool := as(ctx, t, deploy, database)
	check(t, migrations.Up(ctx, pool, ""))
	r := &rights{roles: roles, database: pool.Config().ConnString()}
	r.grant(ctx, t, roles)
	first := state(ctx, t, admin, roles)
	if !strings.Contains(first, roles.Owner) ||
		strings.Contains(strings.ReplaceAll(first, roles.Owner, ""), " "+deploy+" ") {
		t.Errorf("not all is the owner's:\n%s", first)
	}

	owner := pgx.Identifier{roles.Owner}.Sanitize()
	apply(ctx, t, admin, `ALTER ROLE `+owner+` LOGIN PASSWORD '`+storetest.RolePassword+`'`)
	r.database = as(ctx, t, roles.Owner, database).Config().ConnString()
	// As a migration does that makes functions anew, and tables.
	apply(ctx, t, admin, `SET ROLE `+owner+`; ALTER FUNCTION tasktable.cancel SECURITY INVOKER RESET ALL;
		CREATE FUNCTION tasktable.cancel(id text) RETURNS int LANGUAGE sql AS 'SELECT 1';
		DROP FUNCTION tasktable.cancel(text);
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tasktable TO PUBLIC; RESET ROLE`)
	r.grant(ctx, t, roles)
	// It may log in by now.
	second := strings.ReplaceAll(state(ctx, t, admin, roles), roles.Owner+" t\n", roles.Owner+" f\n")
	same(t, "the state after the second time", second, first)

	// What the schema is for others stays: it is the same as without roles, but for how the verbs run.
	dumped := dump(ctx, t, admin, "tasktable", true)
	for _, added := range []string{" SECURITY DEFINER", " SET search_path TO 'pg_catalog', 'pg_temp'"} {
		if !strings.Contains(dumped, added) {
			t.Errorf("no function has %s", added)
		}
	}
}

// The owner of a database is often neither a superuser nor allowed to create roles. A superuser runs the script for it,
// and then its migrations go on.
func TestTheFormerOwnerGoesOnMigrating(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	former := storetest.Role(t)
	roles := newNames(ctx, t)
	database := storetest.EmptyURL(t)
	admin := poolOn(ctx, t, database, 1)
	apply(ctx, t, admin, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO `+former+`', current_database()); END $$`)
	pool := as(ctx, t, former, database)
	check(t, migrations.Up(ctx, pool, ""))
	fails(ctx, t, pool, roles, `role "`+roles.Owner+`" does not exist, and "`+former+`" may not create roles: run this `+
		`script for the first time as a superuser or as a role with CREATEROLE`)
	(&rights{roles: roles, database: database}).grant(ctx, t, roles)
	check(t, migrations.Up(ctx, pool, ""))
	check(t, migrations.Down(ctx, pool, ""))
	check(t, migrations.Up(ctx, pool, ""))
	apply(ctx, t, admin, `REVOKE `+pgx.Identifier{roles.Owner}.Sanitize()+` FROM `+former) // a superuser granted it
}

// Two schemas on one server have roles of their own.
func TestRolesOfAnotherSchema(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	roles := newNames(ctx, t)
	database := storetest.EmptyURL(t)
	admin := poolOn(ctx, t, database, 1)
	check(t, migrations.Up(ctx, admin, "jobs"))
	byStatements(ctx, t, database, script(t, "jobs", roles))
	migrated(ctx, t, admin, "jobs")
	conn, err := admin.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	succeeds(t)(conn.Exec(ctx, `SET ROLE `+pgx.Identifier{roles.Application}.Sanitize()))
	receipt, err := store.New(store.Config{Schema: "jobs"}).Schedule(ctx, conn, task("one", 1))
	if err != nil || receipt.Outcome != store.Created {
		t.Errorf("got %+v, %v", receipt, err)
	}
	succeeds(t)(conn.Exec(ctx, `RESET ROLE`))
}

// The second time it waits for no transaction that has the tables in use, however long it goes on.
func TestTheScriptRunsBesideOpenTransactions(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t, "events-api")
	tasks := store.New(store.Config{Service: "events-api"})
	succeeds(t)(tasks.Schedule(ctx, r.application, task("one", 1)))
	tx, err := r.engine.Begin(ctx)
	check(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	for _, table := range []string{
		"scheduled_tasks", "scheduled_task_changes", "scheduled_task_executions", "river_job", "nodes", "pauses",
	} {
		succeeds(t)(tx.Exec(ctx, `DELETE FROM tasktable.`+table+` WHERE false`))
	}
	succeeds(t)(tasks.Cancel(ctx, tx, "one"))
	impatient := strings.ReplaceAll(script(t, "", r.roles), "lock_timeout = '10s'", "lock_timeout = '1ms'")
	succeeds(t)(r.owner.Exec(ctx, impatient, pgx.QueryExecModeSimpleProtocol))
	check(t, tx.Commit(ctx))
}
