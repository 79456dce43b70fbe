package migrations_test

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestTheAuditorReadsEverythingAndWritesNothing(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t, "events-api")
	succeeds(t)(store.New(store.Config{Service: "events-api"}).Schedule(ctx, r.application, task("one", 1)))
	relations := lines(ctx, t, r.admin, `SELECT format('tasktable.%I', c.relname) FROM pg_class AS c
		WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind IN ('r', 'v') ORDER BY c.relname`)
	if joined := strings.Join(relations, " "); !strings.Contains(joined, "task_timeline") ||
		!strings.Contains(joined, "river_job") {
		t.Fatalf("the tables are %s", joined)
	}
	for _, relation := range relations {
		if _, err := r.auditor.Exec(ctx, `SELECT * FROM `+relation); err != nil {
			t.Errorf("%s: %v", relation, err)
		}
		if _, err := r.auditor.Exec(ctx, `DELETE FROM `+relation); err == nil {
			t.Errorf("%s: it may delete", relation)
		}
	}
	for _, statement := range []string{
		`UPDATE tasktable.scheduled_tasks SET id = id`, `DELETE FROM tasktable.scheduled_task_changes`,
		`DELETE FROM tasktable.river_job`,
		`INSERT INTO tasktable.scheduled_tasks (id, payload)
			VALUES ('two', '{"type":"TEST"}')`, `DELETE FROM tasktable.dead_letters`,
		`TRUNCATE tasktable.scheduled_tasks`, `SELECT FROM tasktable.scheduled_tasks FOR UPDATE`,
		`SELECT FROM tasktable.scheduled_tasks FOR SHARE`,
		`SELECT nextval('tasktable.task_numbers')`, `SELECT tasktable.cancel('one')`,
		`SELECT tasktable.schedule('{"type":"TEST"}')`, `SELECT tasktable.erase('event:1')`,
		`CREATE TABLE tasktable.mine ()`,
	} {
		refused(ctx, t, r.auditor, statement)
	}
	if got := ids(ctx, t, r.auditor); got != "one" {
		t.Errorf("the tasks are %q", got)
	}
	// Also where the claim of a running one is, and ids like one that is not there.
	apply(ctx, t, r.admin, `UPDATE tasktable.scheduled_tasks
		SET status = 'EXECUTING', next_attempt_at = NULL, fence = 1, lease_expires_at = now() + interval '1 hour'`)
	for id, want := range map[string]string{"one": "running", "on": "never_scheduled"} {
		if e, err := inspect.New(store.Config{}).Why(ctx, r.auditor, id); err != nil || e.Reason.Code != want {
			t.Errorf("why %s: %+v, %v", id, e.Reason, err)
		}
	}
	if n := len(lines(ctx, t, r.auditor, `SELECT event FROM tasktable.task_timeline WHERE task_id = 'one'`)); n != 1 {
		t.Errorf("the timeline has %d lines", n)
	}
}

// What people and dashboards ask of the store takes no right but to read.
func TestTheAuditorReadsTheStore(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t, "events-api")
	inspector := inspect.New(store.Config{})
	recurring := task("nightly", 1)
	recurring.Recurrence = &store.Recurrence{Cron: "@daily"}
	succeeds(t)(store.New(store.Config{}).Schedule(ctx, r.admin, recurring))
	for what, read := range map[string]func() (any, error){
		"nodes":        func() (any, error) { return inspector.Nodes(ctx, r.auditor, inspect.NodeFilter{Ended: true}) },
		"queues":       func() (any, error) { return inspector.QueueStates(ctx, r.auditor, inspect.QueueFilter{}) },
		"counts":       func() (any, error) { return inspector.TaskCounts(ctx, r.auditor, "", false) },
		"throughput":   func() (any, error) { return inspector.Throughput(ctx, r.auditor, inspect.StatsFilter{}) },
		"attention":    func() (any, error) { return inspector.Attention(ctx, r.auditor) },
		"coming fires": func() (any, error) { return inspector.ComingFires(ctx, r.auditor, "", 5) },
		"recurring":    func() (any, error) { return inspector.ListRecurring(ctx, r.auditor, inspect.RecurringFilter{}) },
		"next fires":   func() (any, error) { return inspector.NextFires(ctx, r.auditor, "nightly", 3) },
		"dead letters": func() (any, error) { return inspector.List(ctx, r.auditor, inspect.DeadLetters()) },
		"count":        func() (any, error) { return inspector.Count(ctx, r.auditor, inspect.DeadLetters()) },
		"groups":       func() (any, error) { return inspector.Groups(ctx, r.auditor, inspect.DeadLetters(), "") },
	} {
		if _, err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
