package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// tenants is a database with tasks of two tenants and of none.
type tenants struct {
	*rights
	tasks *store.Store
}

// of is a task of a tenant.
func of(tenant, id string, minutes int) store.Task {
	one := task(id, minutes)
	one.TenantID = tenant
	return one
}

func newTenants(ctx context.Context, t *testing.T, services ...string) *tenants {
	t.Helper()
	s := &tenants{rights: newRights(ctx, t, services...), tasks: store.New(store.Config{Service: "api"})}
	for _, tenant := range []string{"acme", "globex", ""} {
		for _, id := range []string{"one", "cancelled", "dead", "done"} {
			succeeds(t)(s.tasks.Schedule(ctx, s.engine, of(tenant, tenant+" "+id, 1)))
		}
		daily := of(tenant, tenant+" daily", 1)
		daily.Recurrence = &store.Recurrence{Cron: "@daily"}
		succeeds(t)(s.tasks.Schedule(ctx, s.engine, daily))
		succeeds(t)(s.tasks.Cancel(ctx, s.engine, tenant+" cancelled"))
	}
	apply(ctx, t, s.engine, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED' WHERE id LIKE '% dead';
		UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id LIKE '% done';
		INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at,
			finished_at, outcome)
		SELECT nextval('tasktable.task_numbers'), id, type, revision, 1, scheduled_at, clock_timestamp(), 'RETRIED'
		FROM tasktable.scheduled_tasks`)
	return s
}

// enter makes a transaction of the engine's session the tenant's, as the API does.
func (s *tenants) enter(ctx context.Context, tx pgx.Tx, tenant string) error {
	_, err := tx.Exec(ctx, `SELECT set_config('tasktable.tenant', $1, true), set_config('role', $2, true)`,
		tenant, s.roles.Tenant)
	return err
}

// within runs something in a tenant's transaction, and takes it back.
func (s *tenants) within(ctx context.Context, t *testing.T, tenant string, do func(pgx.Tx)) {
	t.Helper()
	tx, err := s.engine.Begin(ctx)
	check(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	check(t, s.enter(ctx, tx, tenant))
	do(tx)
}

// tenantVerbs are all verbs, on a task.
var tenantVerbs = []struct{ name, id, sql, own string }{
	{"schedule", "one",
		`schedule('{"type":"TEST","n":2}', '2100-01-01 00:09Z', ID, tenant_id => TENANT)`, "rescheduled"},
	{"schedule, unchanged", "one",
		`schedule('{"type":"TEST"}', '2100-01-01 00:01Z', ID, tenant_id => TENANT, entity => 'event:1')`, "unchanged"},
	{"schedule, finished", "done", `schedule('{"type":"TEST"}', NULL, ID, tenant_id => TENANT)`, "finished"},
	{"schedule_many", "one", `schedule_many(jsonb_build_array(jsonb_build_object('id', ID, 'tenant_id', TENANT,
		'payload', '{"type":"TEST","n":2}'::jsonb)))`, "rescheduled"},
	{"schedule_recurring", "daily",
		`schedule_recurring('{"type":"TEST"}', '@hourly', ID, tenant_id => TENANT)`, "rescheduled"},
	{"sync", "one", `sync('event:1', jsonb_build_array(jsonb_build_object('id', ID, 'tenant_id', TENANT,
		'payload', '{"type":"TEST","n":2}'::jsonb)))`, "rescheduled"},
	{"reschedule", "one", `reschedule(ID, '2100-01-02Z')`, "rescheduled"},
	{"reschedule, finished", "done", `reschedule(ID, '2100-01-01 00:01Z')`, "finished"},
	{"cancel", "one", `cancel(ID)`, "cancelled"},
	{"cancel, unchanged", "cancelled", `cancel(ID)`, "unchanged"},
	{"cancel, finished", "done", `cancel(ID)`, "finished"},
	{"pause", "one", `pause(ID)`, "paused"},
	{"resume", "one", `resume(ID)`, "unchanged"},
	{"run_now", "one", `run_now(ID)`, "queued"},
	{"run_now, recurring", "daily", `run_now(ID)`, "queued"},
	{"retry", "dead", `retry(ID)`, "queued"},
	{"archive", "dead", `archive(ID)`, "archived"},
	{"delete", "one", `delete(ID)`, "deleted"},
}

// Each verb, on a task of the tenant, of another and of none; and for the verbs that name the tenant, to give the task
// to another or to none.
func TestATenantChangesItsOwnTasksOnly(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newTenants(ctx, t)
	before := lines(ctx, t, s.admin, everythingSQL)
	// call returns the outcome of a verb for the task, or what is wrong.
	call := func(tenant, sql, id, to string) (outcome string) {
		t.Helper()
		s.within(ctx, t, tenant, func(tx pgx.Tx) {
			sql := strings.NewReplacer("ID", `'`+id+`'::text`, "TENANT", `nullif('`+to+`', '')`).Replace(sql)
			err := tx.QueryRow(ctx, `SELECT outcome FROM tasktable.`+sql+` WHERE id = $1`, id).Scan(&outcome)
			var refused *pgconn.PgError
			switch {
			case errors.As(err, &refused) && refused.Code == denied:
				outcome = "denied: " + refused.ColumnName
			case err != nil:
				t.Errorf("%s: %v", sql, err)
			}
		})
		return outcome
	}
	for _, verb := range tenantVerbs {
		same(t, verb.name+" its own", call("acme", verb.sql, "acme "+verb.id, "acme"), verb.own)
		names := strings.Contains(verb.sql, "TENANT")
		for _, other := range []string{"globex", ""} {
			want := "absent"
			if names {
				want = "denied: id"
			}
			for _, to := range []string{"acme", other} {
				same(t, verb.name+" of "+other, call("acme", verb.sql, other+" "+verb.id, to), want)
			}
			if names && verb.own != "finished" {
				// Another tenant differs, so it is never unchanged.
				same(t, verb.name+" to "+other, call("acme", verb.sql, "acme "+verb.id, other), "denied: tenant_id")
				same(t, verb.name+" new of "+other, call("acme", verb.sql, "new", other), "denied: tenant_id")
			}
		}
		// Without a tenant it may do nothing, and finds out nothing that way either: it is a mistake of the API.
		if got := call("", verb.sql, "acme "+verb.id, "acme"); got != "denied: tenant_id" && got != verb.own ||
			got == verb.own && got != "unchanged" && got != "finished" {
			t.Errorf("%s without a tenant: %s", verb.name, got)
		}
	}
	same(t, "everything", strings.Join(lines(ctx, t, s.admin, everythingSQL), "\n"), strings.Join(before, "\n"))
}

// A tenant acts with the nodes' rights only by the types that its key names.
func TestATenantHasTheTypesOfItsKey(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newTenants(ctx, t)
	for _, c := range []struct{ types, queues, kind, queue, want string }{
		{"", "", "HTTP_REQUEST", "mail", ""},
		{"", "", "EXECUTE", "mail", ""},
		{"", "", "EXEC", "mail", "type"},
		{"", "", "EXEC:backup", "mail", "type"},
		{"", "", "RUN_SQL", "mail", "type"},
		{"", "", "SEND_EMAIL", "mail", "type"},
		{"LOG,EXEC", "", "EXEC:backup", "mail", ""},
		{"LOG,EXEC", "", "EXECUTE", "mail", "type"},
		{"EXEC:backup", "", "EXEC", "mail", "type"},
		{"", "mail,slow", "LOG", "mail", ""},
		{"", "mail,slow", "LOG", "default", "queue"},
		{"", "mail", "EXEC", "mail", "type"},
	} {
		s.within(ctx, t, "acme", func(tx pgx.Tx) {
			_, err := tx.Exec(ctx, `SELECT set_config('tasktable.types', $1, true),
				set_config('tasktable.queues', $2, true)`, c.types, c.queues)
			check(t, err)
			_, err = tx.Exec(ctx, `SELECT tasktable.schedule(jsonb_build_object('type', $1::text), queue => $2,
				tenant_id => 'acme')`, c.kind, c.queue)
			var refused *pgconn.PgError
			if errors.As(err, &refused) && refused.Code == denied {
				same(t, fmt.Sprint(c), refused.ColumnName, c.want)
				return
			}
			check(t, err)
			same(t, fmt.Sprint(c), "", c.want)
		})
	}
}

// By the library, and with what is created, it is as with the verbs by SQL.
func TestATenantRunsTheLibrary(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newTenants(ctx, t)
	inspector := inspect.New(store.Config{})
	s.within(ctx, t, "acme", func(tx pgx.Tx) {
		var many []store.Task
		for i := range 30 {
			many = append(many, of("acme", "many-"+string(rune('A'+i)), i))
		}
		v := verbs{ctx, t, nil, s.tasks}
		receipts, err := s.tasks.ScheduleMany(ctx, tx, many)
		v.all(30, store.Created, receipts, err)
		receipts, err = s.tasks.ScheduleMany(ctx, tx, many)
		v.all(30, store.Unchanged, receipts, err)
		// The other tenants have tasks of this entity, too.
		receipts, err = s.tasks.Sync(ctx, tx, "event:1")
		v.all(32, store.Cancelled, receipts, err) // with "acme one" and "acme daily"

		list, err := inspector.List(ctx, tx, inspect.Filter{})
		if err != nil || len(list) != 35 {
			t.Errorf("list: %d, %v", len(list), err)
		}
		letters, err := inspector.List(ctx, tx, inspect.DeadLetters())
		if err != nil || len(letters) != 1 || letters[0].ID != "acme dead" {
			t.Errorf("dead letters: %+v, %v", letters, err)
		}
		done, err := inspector.Do(ctx, tx, inspect.Action{Verb: inspect.Retry},
			inspect.Targets{Filter: new(inspect.DeadLetters())})
		v.all(1, store.Queued, done.Receipts, err)
		succeeds(t)(s.tasks.RunNow(ctx, tx, "acme daily"))
		occurrences, err := inspector.List(ctx, tx, inspect.Filter{ParentID: "acme daily"})
		if err != nil || len(occurrences) != 1 {
			t.Fatalf("occurrences: %+v, %v", occurrences, err)
		}
		receipt, err := s.tasks.Cancel(ctx, tx, occurrences[0].ID)
		v.does(store.Cancelled, receipt, err)
		if _, err := s.tasks.Pauses(ctx, tx); err != nil {
			t.Errorf("pauses: %v", err)
		}
	})
	others := lines(ctx, t, s.admin, `SELECT id || ' ' || status FROM tasktable.scheduled_tasks
		WHERE tenant_id IS DISTINCT FROM 'acme' AND id LIKE '% one' ORDER BY id COLLATE "C"`)
	same(t, "others' tasks", strings.Join(others, ", "), " one QUEUED, globex one QUEUED")
}

func TestATenantReadsItsOwnTasksOnly(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newTenants(ctx, t)
	// An id that was another tenant's, with its history.
	succeeds(t)(s.tasks.Delete(ctx, s.engine, "globex cancelled"))
	succeeds(t)(s.tasks.Schedule(ctx, s.engine, of("acme", "globex cancelled", 1)))
	inspector := inspect.New(store.Config{})
	for tenant, want := range map[string]string{
		"acme":   "acme cancelled, acme daily, acme dead, acme done, acme one, globex cancelled",
		"globex": "globex daily, globex dead, globex done, globex one",
		"":       "", "nobody": "",
	} {
		s.within(ctx, t, tenant, func(tx pgx.Tx) {
			read := func(sql string, args ...any) string {
				t.Helper()
				rows, err := tx.Query(ctx, sql, args...)
				check(t, err)
				found, err := pgx.CollectRows(rows, pgx.RowTo[string])
				check(t, err)
				return strings.Join(found, ", ")
			}
			same(t, "tasks of "+tenant, read(`SELECT id::text FROM tasktable.scheduled_tasks
				ORDER BY id::text COLLATE "C"`), want)
			same(t, "changes of "+tenant, read(`SELECT task_id FROM tasktable.scheduled_task_changes
				GROUP BY task_id ORDER BY task_id COLLATE "C"`), want)
			executed := strings.TrimSuffix(want, ", globex cancelled")
			same(t, "executions of "+tenant, read(`SELECT task_id FROM tasktable.scheduled_task_executions
				GROUP BY task_id ORDER BY task_id COLLATE "C"`), executed)
			same(t, "history of a new id", read(`SELECT outcome FROM tasktable.scheduled_task_changes
				WHERE task_id = 'globex cancelled'`), map[bool]string{true: "created"}[tenant == "acme"])
			for _, id := range []string{"acme one", "globex one", " one"} {
				code := map[bool]string{true: "not_due"}[strings.HasPrefix(id, tenant+" ") && tenant != ""]
				same(t, "why "+id, read(`SELECT code FROM tasktable.reason_of($1)`, id), code)
				e, err := inspector.Why(ctx, tx, id)
				if err != nil || e.Known() != (code != "") || code == "" && len(e.Story) > 0 {
					t.Errorf("why %s, to %s: %+v, %v", id, tenant, e, err)
				}
				if _, err := s.tasks.Get(ctx, tx, id); (err == nil) != (code != "") {
					t.Errorf("get %s, by %s: %v", id, tenant, err)
				}
			}
		})
	}
}

// What an application may not do, a tenant may not do either; and it has no way to the engine's tables.
func TestATenantMayDoNothingElse(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newTenants(ctx, t)
	before := lines(ctx, t, s.admin, everythingSQL)
	for _, statement := range append([]string{
		`SELECT tasktable.fork_occurrence('acme daily', now())`,
		`SELECT tasktable.tenant_of('x')`, `SELECT FROM tasktable.api_keys`, `SELECT FROM tasktable.api_answers`,
		`SELECT FROM tasktable.api_sessions`, `DELETE FROM tasktable.api_sessions`,
		`DELETE FROM tasktable.api_answers`, `UPDATE tasktable.api_keys SET tenant_id = NULL`,
		`UPDATE tasktable.scheduled_tasks SET tenant_id = 'globex'`,
		`SET row_security = off; TABLE tasktable.scheduled_tasks`,
	}, forbidden...) {
		if strings.HasPrefix(statement, "SET session_replication_role") {
			continue // asks the right of the session
		}
		s.within(ctx, t, "acme", func(tx pgx.Tx) {
			if _, err := tx.Exec(ctx, statement); !isDenied(err) {
				t.Errorf("%s: got %v, want permission denied", statement, err)
			}
		})
	}
	same(t, "everything", strings.Join(lines(ctx, t, s.admin, everythingSQL), "\n"), strings.Join(before, "\n"))
}

// The role holds its tenant also where it has logged in itself, where a role only inherits its rights, and beside
// applications that are bound to services.
func TestTheRoleOfTenantsHowever(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newTenants(ctx, t, "events-api")
	conn, err := s.tenant.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	if _, err := s.tasks.Schedule(ctx, conn, of("acme", "new", 1)); !isDenied(err) {
		t.Errorf("without a tenant: %v", err)
	}
	same(t, "tasks without a tenant", ids(ctx, t, s.tenant), "")
	succeeds(t)(conn.Exec(ctx, `SET tasktable.tenant = 'acme'`))
	succeeds(t)(s.tasks.Schedule(ctx, conn, of("acme", "new", 1)))
	if _, err := s.tasks.Schedule(ctx, conn, of("globex", "newer", 1)); !isDenied(err) {
		t.Errorf("for another tenant: %v", err)
	}
	if _, err := s.tasks.Schedule(ctx, conn, of("acme", "globex one", 1)); !isDenied(err) ||
		!strings.Contains(err.Error(), "is the id of another tenant's task") {
		t.Errorf("another's id: %v", err)
	}
	// Neither does the setting open anything to the application, nor the tenant's tasks to a bound one.
	for _, what := range []string{"acme", ""} {
		succeeds(t)(s.application.Exec(ctx, `SELECT set_config('tasktable.tenant', $1, false)`, what))
		same(t, "the application's tasks", ids(ctx, t, s.application), "")
	}
	succeeds(t)(store.New(store.Config{Service: "events-api"}).Schedule(ctx, s.application, task("event", 1)))
}

// Owner and engine may take the role, and no other role may. From Postgres 16 on they inherit nothing of it.
func TestWhoMayTakeTheRoleOfTenants(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	for role, may := range map[string]bool{
		r.roles.Owner: true, r.roles.Engine: true, r.roles.Application: false, r.roles.Auditor: false,
	} {
		conn, err := as(ctx, t, role, r.database).Acquire(ctx)
		check(t, err)
		_, err = conn.Exec(ctx, `SET ROLE `+r.roles.Tenant)
		conn.Release()
		if may != (err == nil) || !may && !isDenied(err) {
			t.Errorf("role %s: %v", role, err)
		}
		inherits := lines(ctx, t, r.admin, `SELECT concat_ws(' ', pg_has_role($1::text, $2::text, 'USAGE'),
			current_setting('server_version_num')::int < 160000)`, role, r.roles.Tenant)[0]
		if may && inherits != "t t" && inherits != "f f" {
			t.Errorf("role %s: it inherits, and this is before Postgres 16: %s", role, inherits)
		}
	}
}
