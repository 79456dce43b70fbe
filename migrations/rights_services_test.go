package migrations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// services are two applications that are bound to a service each, and one that is not, on one table.
type services struct {
	*rights
	mailerRole                   string
	mailer, everybody            *pgxpool.Pool
	eventTasks, mailTasks, tasks *store.Store
}

func newServices(ctx context.Context, t *testing.T) *services {
	t.Helper()
	s := &services{mailerRole: storetest.Role(t)}
	everybody := storetest.Role(t)
	s.rights = newRights(ctx, t, "events-api", "events's worker")
	s.grantOther(ctx, t, s.mailerRole, "mailer")
	s.grantOther(ctx, t, everybody)
	s.mailer, s.everybody = as(ctx, t, s.mailerRole, s.database), as(ctx, t, everybody, s.database)
	s.eventTasks, s.mailTasks = store.New(
		store.Config{Service: "events-api"},
	), store.New(store.Config{Service: "mailer"})
	s.tasks = store.New(store.Config{Service: "operator"})
	return s
}

// grantOther runs the script for another application.
func (s *services) grantOther(ctx context.Context, t *testing.T, role string, of ...string) {
	t.Helper()
	roles := s.roles
	roles.Application, roles.Services = role, of
	s.grant(ctx, t, roles)
}

func ids(ctx context.Context, t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return strings.Join(lines(ctx, t, pool, `SELECT id::text FROM tasktable.scheduled_tasks
		ORDER BY id::text COLLATE "C"`), " ")
}

func TestAnApplicationOfAServiceRunsEveryVerb(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newServices(ctx, t)
	dies(ctx, t, s.admin, "dead", "events-api")
	verbs{ctx, t, s.application, s.eventTasks}.run("dead")
	history, err := s.eventTasks.History(ctx, s.application, "many-01")
	if err != nil || len(history.Changes) != 2 {
		t.Errorf("history: %+v, %v", history, err)
	}
	// The other of its services, and a transaction as itself within another's session.
	succeeds(t)(store.New(store.Config{Service: "events's worker"}).Schedule(ctx, s.application, task("two", 1)))
	conn, err := s.admin.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	succeeds(t)(conn.Exec(ctx, `SET ROLE `+s.roles.Application))
	if _, err := s.eventTasks.Cancel(ctx, conn, "two"); err != nil {
		t.Errorf("as a role that was set: %v", err)
	}
	if _, err := s.mailTasks.Schedule(ctx, conn, task("three", 1)); !isDenied(err) {
		t.Errorf("as a role that was set, of another service: %v", err)
	}
	succeeds(t)(conn.Exec(ctx, `RESET ROLE`))
}

func TestAnApplicationReadsItsOwnTasksOnly(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newServices(ctx, t)
	succeeds(t)(s.eventTasks.Schedule(ctx, s.application, task("event", 1)))
	succeeds(t)(s.mailTasks.Schedule(ctx, s.mailer, task("mail", 1)))
	succeeds(t)(store.New(store.Config{}).Schedule(ctx, s.engine, task("nobody's", 1)))
	apply(ctx, t, s.engine, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
		scheduled_at,
		finished_at, outcome) SELECT nextval('tasktable.task_numbers'), id, type, revision, 1, now(), now(), 'RETRIED'
		FROM tasktable.scheduled_tasks`)
	const all = "event mail nobody's"
	for who, of := range map[*pgxpool.Pool]string{
		s.application: "event", s.mailer: "mail", s.everybody: all, s.engine: all, s.auditor: all, s.owner: all,
	} {
		same(t, "tasks", ids(ctx, t, who), of)
		for _, table := range []string{"scheduled_task_changes", "scheduled_task_executions"} {
			found := lines(ctx, t, who, `SELECT task_id FROM tasktable.`+table+` ORDER BY task_id COLLATE "C"`)
			same(t, table, strings.Join(found, " "), of)
		}
	}
	if _, err := s.mailTasks.Get(ctx, s.mailer, "event"); err == nil || !strings.Contains(err.Error(), "no such task") {
		t.Errorf("another's task: %v", err)
	}
	// What another service's task has left under an id does not come with the id.
	succeeds(t)(s.eventTasks.Delete(ctx, s.application, "event"))
	succeeds(t)(s.mailTasks.Schedule(ctx, s.mailer, task("event", 1)))
	history, err := s.mailTasks.History(ctx, s.mailer, "event")
	if err != nil || len(history.Changes) != 1 || len(history.Executions) != 0 {
		t.Errorf("history of an id that was another's: %+v, %v", history, err)
	}
	// Neither a setting nor a function of its own in the way opens more.
	conn, err := s.mailer.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	if _, err := conn.Exec(ctx, `SET row_security = off; SELECT FROM tasktable.scheduled_tasks`); !isDenied(err) {
		t.Errorf("without row security: %v", err)
	}
	refused(ctx, t, s.mailer, `SET ROLE `+s.roles.Application)
}

// Others' tasks are as good as locked, whichever way one goes about them; and nobody schedules in another's name.
func TestAnApplicationChangesItsOwnTasksOnly(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newServices(ctx, t)
	dies(ctx, t, s.admin, "dead", "mailer")
	daily := task("daily", 0)
	daily.Recurrence = &store.Recurrence{Cron: "@daily"}
	for _, one := range []store.Task{task("mail", 1), daily} {
		succeeds(t)(s.mailTasks.Schedule(ctx, s.mailer, one))
	}
	before := lines(ctx, t, s.admin, everythingSQL)
	var many []store.Task
	for i := range 25 {
		many = append(many, task("many-"+string(rune('a'+i)), i))
	}
	other := task("mail", 9)
	for name, call := range map[string]func() (any, error){
		"schedule": func() (any, error) { return s.eventTasks.Schedule(ctx, s.application, other) },
		"schedule many": func() (any, error) {
			return s.eventTasks.ScheduleMany(ctx, s.application, append(many, other))
		},
		"sync":               func() (any, error) { return s.eventTasks.Sync(ctx, s.application, "event:1") },
		"cancel":             func() (any, error) { return s.eventTasks.Cancel(ctx, s.application, "mail") },
		"pause":              func() (any, error) { return s.eventTasks.Pause(ctx, s.application, "mail") },
		"run now":            func() (any, error) { return s.eventTasks.RunNow(ctx, s.application, "mail") },
		"reschedule":         func() (any, error) { return s.eventTasks.Reschedule(ctx, s.application, "mail", far(9)) },
		"delete":             func() (any, error) { return s.eventTasks.Delete(ctx, s.application, "mail") },
		"retry":              func() (any, error) { return s.eventTasks.Retry(ctx, s.application, "dead") },
		"archive":            func() (any, error) { return s.eventTasks.Archive(ctx, s.application, "dead", "") },
		"run now, recurring": func() (any, error) { return s.eventTasks.RunNow(ctx, s.application, "daily") },
		"in another's name":  func() (any, error) { return s.mailTasks.Schedule(ctx, s.application, task("new", 1)) },
		"many in another's":  func() (any, error) { return s.mailTasks.ScheduleMany(ctx, s.application, many) },
		"in nobody's": func() (any, error) {
			return store.New(store.Config{}).Schedule(ctx, s.application, task("new", 1))
		},
		"an occurrence": func() (any, error) {
			return s.application.Exec(ctx, `SELECT tasktable.fork_occurrence('daily', now())`)
		},
		"by claiming to retain": func() (any, error) {
			return pretending(ctx, t, s.rights, "retention").Exec(ctx, `SELECT tasktable.delete('mail')`)
		},
	} {
		if _, err := call(); !isDenied(err) || !strings.Contains(err.Error(), s.roles.Application) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	apply(ctx, t, s.application, `UPDATE tasktable.scheduled_tasks SET id = id`) // of its own: none
	same(t, "everything", strings.Join(lines(ctx, t, s.admin, everythingSQL), "\n"), strings.Join(before, "\n"))

	// Those who have the tasks of all services go on with them, the engine also in what it forks and follows up.
	for _, who := range []*pgxpool.Pool{s.everybody, s.engine, s.owner} {
		succeeds(t)(s.tasks.Reschedule(ctx, who, "mail", far(len(many))))
		succeeds(t)(s.tasks.RunNow(ctx, who, "daily"))
		many = many[1:]
	}
}

// A role that was dropped stands in nobody's way, and binding can be undone.
func TestApplicationsComeAndGo(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := newServices(ctx, t)
	succeeds(t)(s.mailTasks.Schedule(ctx, s.mailer, task("mail", 1)))
	s.grantOther(ctx, t, s.mailerRole, "mailer", "mail-digest")
	same(t, "the mailer's tasks", ids(ctx, t, s.mailer), "mail")
	s.grantOther(ctx, t, s.mailerRole, "mail-digest")
	same(t, "another's now", ids(ctx, t, s.mailer), "")
	apply(ctx, t, s.owner, `INSERT INTO tasktable.applications VALUES ('gone_long_ago', 'mailer')`)
	same(t, "beside one that is gone", ids(ctx, t, s.application), "")

	apply(ctx, t, s.owner, `DELETE FROM tasktable.applications WHERE role = 'gone_long_ago'`)
	for _, role := range []string{s.mailerRole, s.roles.Application} {
		s.grantOther(ctx, t, role)
	}
	same(t, "all tasks", ids(ctx, t, s.mailer), "mail")
	if left := lines(ctx, t, s.admin, `SELECT polname::text FROM pg_policy
		WHERE polname = ANY ($1) AND pg_get_expr(polqual, polrelid) <> 'true'`,
		[]string{s.mailerRole, s.roles.Application}); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	succeeds(t)(s.eventTasks.Cancel(ctx, s.application, "mail"))

	// A migration down and up leaves no rights behind, but the roles.
	s.grantOther(ctx, t, s.mailerRole, "mailer")
	check(t, migrations.Down(ctx, s.owner, ""))
	check(t, migrations.Up(ctx, s.owner, ""))
	if _, err := s.mailTasks.Schedule(ctx, s.mailer, task("mail", 1)); !isDenied(err) {
		t.Errorf("without the script: %v", err)
	}
	s.grantOther(ctx, t, s.mailerRole, "mailer")
	succeeds(t)(s.mailTasks.Schedule(ctx, s.mailer, task("mail", 1)))
}
