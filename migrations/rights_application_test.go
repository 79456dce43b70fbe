package migrations_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// far is a time that no test lives to see; minutes count from it.
func far(minutes int) time.Time { return time.Date(2100, 1, 1, 0, minutes, 0, 0, time.UTC) }

func task(id string, minutes int) store.Task {
	return store.Task{ID: id, Payload: store.JSON(`{"type":"TEST"}`), At: far(minutes), Entity: "event:1"}
}

// verbs goes on as long as each verb does what it is to do.
type verbs struct {
	ctx   context.Context
	t     *testing.T
	pool  *pgxpool.Pool
	tasks *store.Store
}

func (v verbs) does(want store.Outcome, receipt store.Receipt, err error) {
	v.t.Helper()
	if err != nil || receipt.Outcome != want {
		v.t.Errorf("got %q, %v, want %s", receipt.Outcome, err, want)
	}
}

func (v verbs) all(count int, want store.Outcome, receipts []store.Receipt, err error) {
	v.t.Helper()
	if err != nil || len(receipts) != count {
		v.t.Errorf("got %d receipts, %v, want %d", len(receipts), err, count)
	}
	for _, receipt := range receipts {
		if receipt.Outcome != want {
			v.t.Errorf("got %+v, want %s", receipt, want)
		}
	}
}

// run calls every verb of a store.
func (v verbs) run(dead string) {
	v.t.Helper()
	one := func(want store.Outcome) func(store.Receipt, error) {
		return func(receipt store.Receipt, err error) { v.t.Helper(); v.does(want, receipt, err) }
	}
	ctx, db, tasks := v.ctx, v.pool, v.tasks
	one(store.Created)(tasks.Schedule(ctx, db, task("one", 1)))
	one(store.Unchanged)(tasks.Schedule(ctx, db, task("one", 1)))
	one(store.Rescheduled)(tasks.Schedule(ctx, db, task("one", 2)))
	one(store.Rescheduled)(tasks.Reschedule(ctx, db, "one", far(3)))
	one(store.Paused)(tasks.Pause(ctx, db, "one"))
	one(store.Paused)(tasks.PauseUntil(ctx, db, "one", far(4)))
	one(store.Queued)(tasks.Resume(ctx, db, "one"))
	one(store.Queued)(tasks.RunNow(ctx, db, "one"))
	one(store.Cancelled)(tasks.Cancel(ctx, db, "one"))
	one(store.Rearmed)(tasks.Schedule(ctx, db, task("one", 5)))
	one(store.Deleted)(tasks.Delete(ctx, db, "one"))
	one(store.Absent)(tasks.Cancel(ctx, db, "one"))
	one(store.Queued)(tasks.Retry(ctx, db, dead))

	var many []store.Task
	for i := range 30 { // enough for the way of many
		many = append(many, task(fmt.Sprintf("many-%02d", i), i))
	}
	receipts, err := tasks.ScheduleMany(ctx, db, many)
	v.all(30, store.Created, receipts, err)
	receipts, err = tasks.ScheduleMany(ctx, db, many)
	v.all(30, store.Unchanged, receipts, err)
	receipts, err = tasks.Sync(ctx, db, "event:1")
	v.all(30, store.Cancelled, receipts, err)

	daily := task("daily", 0)
	daily.At, daily.Recurrence = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), &store.Recurrence{Cron: "@daily"}
	one(store.Created)(tasks.Schedule(ctx, db, daily))
	one(store.Queued)(tasks.RunNow(ctx, db, "daily"))
	if made, err := tasks.Backfill(ctx, db, "daily", daily.At, daily.At.AddDate(0, 0, 9), 3); made != 3 || err != nil {
		v.t.Errorf("backfill: %d, %v", made, err)
	}
}

// dies makes a dead letter, as somebody who may write.
func dies(ctx context.Context, t *testing.T, pool *pgxpool.Pool, id, service string) {
	t.Helper()
	_, err := pool.Exec(ctx, `INSERT INTO tasktable.scheduled_tasks (id, payload, status, message, scheduled_by)
		VALUES ($1, '{"type":"TEST"}', 'FAILED', 'oops', nullif($2, ''))`, id, service)
	check(t, err)
}

func TestTheApplicationSchedulesAndReads(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	v := verbs{ctx, t, r.application, store.New(store.Config{Service: "events-api"})}
	for _, id := range []string{"dead", "dead too", "dead three"} {
		dies(ctx, t, r.admin, id, "")
	}
	v.run("dead")
	receipt, err := v.tasks.Archive(ctx, r.application, "dead too", "dealt with")
	v.does(store.Archived, receipt, err)
	inspector := inspect.New(store.Config{Service: "events-api"})
	letters, err := inspector.List(ctx, r.application, inspect.DeadLetters())
	if err != nil || len(letters) != 1 {
		t.Errorf("dead letters: %d, %v", len(letters), err)
	}
	groups, err := inspector.Groups(ctx, r.application, inspect.DeadLetters(), "")
	if err != nil || len(groups) != 1 {
		t.Errorf("groups: %v, %v", groups, err)
	}
	done, err := inspector.Do(ctx, r.application, inspect.Action{Verb: inspect.Retry},
		inspect.Targets{Filter: new(inspect.DeadLetters())})
	v.all(1, store.Queued, done.Receipts, err)

	history, err := v.tasks.History(ctx, r.application, "many-01")
	if err != nil || len(history.Changes) != 2 || history.Changes[0].ChangedBy != "events-api" {
		t.Errorf("history: %+v, %v", history, err)
	}
	if rows, err := inspector.List(ctx, r.application, inspect.Filter{}); err != nil || len(rows) < 35 {
		t.Errorf("list: %d, %v", len(rows), err)
	}
	if _, err := v.tasks.Pauses(ctx, r.application); err != nil {
		t.Errorf("pauses: %v", err)
	}
	// Erasure removes history, and a pause of all stops other services: that is for the engine's role.
	if _, err := v.tasks.EraseEntity(ctx, r.application, "event:1"); !isDenied(err) {
		t.Errorf("erase: %v", err)
	}
	if _, err := v.tasks.PauseScope(ctx, r.application, store.Everything(), time.Time{}, ""); !isDenied(err) {
		t.Errorf("pause: %v", err)
	}
	if _, err := v.tasks.ResumeScope(ctx, r.application, store.Everything()); !isDenied(err) {
		t.Errorf("resume: %v", err)
	}
}

func TestTheApplicationReconciles(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	tasks := store.New(store.Config{Service: "events-api"})
	for _, one := range []store.Task{task("task-TEST-1", 1), task("task-TEST-2", 1), task("task-TEST-3", 1)} {
		succeeds(t)(tasks.Schedule(ctx, r.application, one))
	}
	for _, pool := range []*pgxpool.Pool{r.application, r.engine, r.auditor} {
		check(t, migrations.Check(ctx, pool, "")) // as the command does
	}
	config := store.ReconcileConfig{Type: "TEST", Apply: true,
		Query: `SELECT n::text AS key, 'event:1' AS entity,
			timestamptz '2100-01-01 00:01Z' + n % 2 * interval '1 hour' AS scheduled_at
			FROM generate_series(2, 4) AS n`}
	var report store.ReconcileReport
	check(t, pgx.BeginFunc(ctx, r.application, func(tx pgx.Tx) (err error) {
		report, err = tasks.Reconcile(ctx, tx, config)
		return err
	}))
	if report.Missing.Count != 1 || report.Orphaned.Count != 1 || report.WrongTime.Count != 1 || report.Agree != 1 {
		t.Errorf("got %+v", report)
	}
}

// By SQL it is as by the store; what has no author is the role's, though the verb runs as the owner.
func TestTheApplicationCallsFunctions(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	for _, call := range []struct{ sql, want string }{
		{`schedule('{"type":"TEST"}', '2100-01-01Z', 'one')`, "created"},
		{`schedule('{"type":"TEST","n":1}', '2100-01-01Z', 'one', entity => 'event:1')`, "rescheduled"},
		{`schedule_recurring('{"type":"TEST"}', '@daily', 'daily')`, "created"},
		{`pause('one', until => '2099-01-01Z')`, "paused"},
		{`resume('one')`, "queued"},
		{`reschedule('one', '2100-01-02Z')`, "rescheduled"},
		{`run_now('daily')`, "queued"},
		{`cancel('one')`, "cancelled"},
		{`retry('one')`, "unchanged"},
		{`archive('one')`, "unchanged"},
		{`delete('one')`, "deleted"},
		{`schedule_many('[{"id":"two","payload":{"type":"TEST"},"entity":"event:1"}]')`, "created"},
		{`sync('event:1', '[]')`, "cancelled"},
	} {
		same(
			t, call.sql, strings.Join(lines(ctx, t, r.application, `SELECT outcome FROM tasktable.`+call.sql), " "),
			call.want,
		)
	}
	authors := lines(ctx, t, r.application, `SELECT DISTINCT changed_by FROM tasktable.scheduled_task_changes`)
	same(t, "authors", strings.Join(authors, " "), r.roles.Application)
	apply(ctx, t, r.application, `SELECT set_config('tasktable_change.by', 'ann', false), tasktable.run_now('two')`)
}

// forbidden is what the application could forge a completion, rewrite history or stop others with.
var forbidden = []string{
	`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', finished_at = now(), next_attempt_at = NULL`,
	`UPDATE tasktable.scheduled_tasks SET status = 'CANCELLED'`,
	`UPDATE tasktable.scheduled_tasks SET fence = 1, lease_expires_at = now()`,
	`UPDATE tasktable.scheduled_tasks SET fence = NULL`,
	`UPDATE tasktable.scheduled_tasks SET lease_expires_at = NULL`,
	`UPDATE tasktable.scheduled_tasks SET payload = payload`,
	`UPDATE tasktable.scheduled_tasks SET revision = 1`,
	`UPDATE tasktable.scheduled_tasks SET attempt = 0`,
	`UPDATE tasktable.scheduled_tasks SET scheduled_by = 'another'`,
	`INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('two', '{"type":"TEST"}')`,
	`INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('one', '{}') ON CONFLICT (id) DO UPDATE
		SET status = 'COMPLETED'`,
	`COPY tasktable.scheduled_tasks (id, payload) FROM STDIN`,
	`DELETE FROM tasktable.scheduled_tasks`,
	`TRUNCATE tasktable.scheduled_tasks`,
	`DO $$ BEGIN LOCK TABLE tasktable.scheduled_tasks IN ROW EXCLUSIVE MODE; END $$`,

	`INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by)
		VALUES (5, 'one', 'a', 'b', 'me')`,
	`UPDATE tasktable.scheduled_task_changes SET changed_by = 'me'`,
	`DELETE FROM tasktable.scheduled_task_changes`,
	`TRUNCATE tasktable.scheduled_task_changes`,
	`INSERT INTO tasktable.scheduled_task_executions SELECT * FROM tasktable.scheduled_task_executions`,
	`UPDATE tasktable.scheduled_task_executions SET outcome = 'COMPLETED'`,
	`DELETE FROM tasktable.scheduled_task_executions`,
	`TRUNCATE tasktable.scheduled_task_executions`,
	`SELECT FROM tasktable.task_timeline`,
	`SELECT FROM tasktable.dead_letters`,

	`SELECT FROM tasktable.nodes`,
	`INSERT INTO tasktable.nodes (service) VALUES ('x')`,
	`UPDATE tasktable.nodes SET dead_at = now()`,
	`DELETE FROM tasktable.nodes`,
	`SELECT FROM tasktable.river_job`,
	`INSERT INTO tasktable.river_job (kind) VALUES ('x')`,
	`UPDATE tasktable.river_job SET state = 'completed'`,
	`DELETE FROM tasktable.river_job`,
	`DELETE FROM tasktable.river_leader`,
	`INSERT INTO tasktable.pauses (scope) VALUES ('all')`,
	`UPDATE tasktable.pauses SET ends_at = now()`,
	`SELECT FROM tasktable.applications`,
	`INSERT INTO tasktable.applications VALUES ('me', '')`,
	`DELETE FROM tasktable.goose_db_version`,
	`SELECT nextval('tasktable.task_numbers')`,
	`SELECT setval('tasktable.task_numbers', 1)`,

	`SELECT tasktable.erase('event:1')`,
	`SELECT tasktable.pause_scope('all')`,
	`SELECT tasktable.resume_scope('all')`,
	`SELECT tasktable.insert_tasks('[]', 'me', true, 'schedule')`,
	`SELECT tasktable.make_due('one', now())`,
	`SELECT tasktable.enter_verb('delete', 'one', 'me', true)`,
	`SELECT tasktable.run_again('one', 'me', true)`,
	`SELECT tasktable.enter_change('engine', NULL, true)`,
	`SELECT tasktable.leave_change('retention')`,

	`CREATE TABLE tasktable.mine ()`,
	`CREATE FUNCTION tasktable.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
	`CREATE TRIGGER mine BEFORE INSERT ON tasktable.scheduled_tasks EXECUTE FUNCTION tasktable.before_task_change()`,
	`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER ALL`,
	`ALTER FUNCTION tasktable.schedule SECURITY INVOKER`,
	`DROP TABLE tasktable.scheduled_tasks`,
	`DROP SCHEMA tasktable CASCADE`,
	`SET session_replication_role = replica`,
}

const everythingSQL = `
SELECT t::text FROM tasktable.scheduled_tasks AS t
UNION ALL SELECT c::text FROM tasktable.scheduled_task_changes AS c
UNION ALL SELECT e::text FROM tasktable.scheduled_task_executions AS e`

// No statement of its own writes: it can neither end a task by hand nor rewrite what has happened, whatever
// it says that it is.
func TestTheApplicationWritesToNoTable(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	succeeds(t)(store.New(store.Config{}).Schedule(ctx, r.application, task("one", 1)))
	apply(ctx, t, r.admin, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
		scheduled_at,
		finished_at, outcome) VALUES (1000000, 'one', 'TEST', 1, 1, now(), now(), 'FAILED')`)
	before := lines(ctx, t, r.admin, everythingSQL)
	for _, context := range []string{"", "engine", "retention", "schedule"} {
		conn := pretending(ctx, t, r, context)
		for _, statement := range forbidden {
			if _, err := conn.Exec(ctx, statement); !isDenied(err) {
				t.Errorf("in context %q: %s: got %v, want permission denied", context, statement, err)
			}
		}
		// The one right on a column is to lock rows by.
		_, err := conn.Exec(ctx, `UPDATE tasktable.scheduled_tasks SET id = 'two'`)
		if err == nil || !strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("in context %q, another id: %v", context, err)
		}
		succeeds(t)(conn.Exec(ctx, `UPDATE tasktable.scheduled_tasks SET id = id`))
	}
	same(t, "everything", strings.Join(lines(ctx, t, r.admin, everythingSQL), "\n"), strings.Join(before, "\n"))
}

// pretending is a session of the application that says it is something else.
func pretending(ctx context.Context, t *testing.T, r *rights, what string) *pgxpool.Conn {
	t.Helper()
	conn, err := as(ctx, t, r.roles.Application, r.database).Acquire(ctx)
	check(t, err)
	t.Cleanup(conn.Release)
	succeeds(t)(conn.Exec(ctx, `SELECT set_config('tasktable_change.context', $1, false)`, what))
	return conn
}

// A verb says itself what it is: each of its edits is recorded, and draws its revision.
func TestVerbsMindNoContextOfTheCaller(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	tasks := store.New(store.Config{Service: "events-api"})
	for _, what := range []string{"engine", "retention"} {
		conn := pretending(ctx, t, r, what)
		id := "of " + what
		for _, call := range []func() (store.Receipt, error){
			func() (store.Receipt, error) { return tasks.Schedule(ctx, conn, task(id, 1)) },
			func() (store.Receipt, error) { return tasks.Reschedule(ctx, conn, id, far(2)) },
			func() (store.Receipt, error) { return tasks.Cancel(ctx, conn, id) },
			func() (store.Receipt, error) { return tasks.Delete(ctx, conn, id) },
		} {
			succeeds(t)(call())
		}
		outcomes := lines(ctx, t, r.admin, `SELECT outcome FROM tasktable.scheduled_task_changes
			WHERE task_id = $1 ORDER BY revision`, id)
		same(t, "lines", strings.Join(outcomes, " "), "created rescheduled cancelled deleted")
	}
}
