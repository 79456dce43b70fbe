package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// An application asks why about the tasks that it may read, and is told the same reason as the engine. It learns
// nothing of others.
func TestAnApplicationAsksWhyOfItsOwnTasks(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	stranger := storetest.Role(t) // before the database, in which it has rights
	s := newServices(ctx, t)
	for _, id := range []string{"event", "event paused", "event cancelled", "event running", "event completed"} {
		succeeds(t)(s.eventTasks.Schedule(ctx, s.application, task(id, 1)))
	}
	succeeds(t)(s.eventTasks.Pause(ctx, s.application, "event paused"))
	succeeds(t)(s.eventTasks.Cancel(ctx, s.application, "event cancelled"))
	succeeds(t)(s.mailTasks.Schedule(ctx, s.mailer, task("event of the mailer", 1)))
	dies(ctx, t, s.admin, "event dead", "events-api")
	apply(ctx, t, s.admin, `
		BEGIN;
		SELECT set_config('tasktable_change.by', 'engine', true);
		ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
		UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = 1000,
			lease_expires_at = clock_timestamp() + interval '1 hour', next_attempt_at = NULL, attempt = 1
		WHERE id = 'event running';
		UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', finished_at = clock_timestamp(),
			next_attempt_at = NULL, attempt = 1
		WHERE id = 'event completed';
		ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
		INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at,
			due_at, started_at, finished_at, outcome, node)
		SELECT 999, id, type, revision, 1, scheduled_at, clock_timestamp(), clock_timestamp() + interval '1 hour',
			clock_timestamp() + interval '1 hour', 'COMPLETED', 7
		FROM tasktable.scheduled_tasks WHERE id = 'event completed';
		COMMIT`)
	why := func(who *pgxpool.Pool, id string) (e inspect.Explanation) {
		t.Helper()
		// In a transaction, which a refused query would end.
		check(t, pgx.BeginFunc(ctx, who, func(tx pgx.Tx) (err error) {
			e, err = inspect.New(store.Config{}).Why(ctx, tx, id)
			return err
		}))
		return e
	}
	for id, code := range map[string]string{
		"event": "not_due", "event paused": "paused", "event cancelled": "cancelled", "event running": "running",
		"event dead": "failed", "event completed": "completed",
	} {
		asked, full := why(s.application, id), why(s.engine, id)
		if asked.Reason.Code != code || full.Reason.Code != code ||
			asked.Reason.Text != full.Reason.Text && id != "event completed" {
			t.Errorf(
				"task %s: the application is told %q, the engine %q, want %s", id, asked.Sentence, full.Sentence, code,
			)
		}
		if len(asked.Story) != len(full.Story) {
			t.Errorf("task %s: the application is told %+v, the engine %+v", id, asked.Story, full.Story)
		}
		if e := why(s.mailer, id); e.Known() || e.Reason.Code != "never_scheduled" {
			t.Errorf("task %s: another service's application is told %+v", id, e)
		}
		same(t, "what an application of all services is told", why(s.everybody, id).Reason.Code, code)
	}
	if late := why(s.application, "event completed").Reason.Late; late == nil ||
		late.Text != "no node had a free slot for it, or no node was running" {
		t.Errorf("it was late because of %+v", late)
	}

	unknown := why(s.application, "event dea")
	if got := strings.Join(unknown.Nearest, ", "); got != "event dead" {
		t.Errorf("the nearest are %s", got)
	}
	if e := why(s.application, "event of the mailer"); e.Known() ||
		strings.Contains(strings.Join(e.Nearest, ","), "mailer") {
		t.Errorf("another's task: %+v", e)
	}
	of, err := inspect.New(store.Config{}).WhyEntity(ctx, s.mailer, "event:1", 10)
	if err != nil || len(of) != 1 || of[0].ID != "event of the mailer" {
		t.Errorf("of the entity: %+v, %v", of, err)
	}

	const reasonOf = `SELECT code FROM tasktable.reason_of('event')`
	for _, test := range []struct {
		who  *pgxpool.Pool
		want string
	}{{s.application, "not_due"}, {s.engine, "not_due"}, {s.auditor, "not_due"}, {s.owner, "not_due"}, {s.mailer, ""}} {
		same(t, "by SQL", strings.Join(lines(ctx, t, test.who, reasonOf), " "), test.want)
	}
	// Somebody who has no tasks has no answer either, even with the right to call the function.
	apply(
		ctx, t, s.owner,
		`GRANT USAGE ON SCHEMA tasktable TO `+stranger+`; GRANT EXECUTE ON FUNCTION tasktable.reason_of TO `+stranger,
	)
	refused(ctx, t, as(ctx, t, stranger, s.database), reasonOf)
}
