package scheduled

import (
	"context"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// missed schedules recurring tasks, as if no node had run since a time.
func (s *bench) missed(tasks int, cron, since string) {
	s.T.Helper()
	s.Exec(`SELECT tasktable.schedule_recurring('{"type":"JOB","name":"tick"}', $1, 'tick ' || i, 'Europe/Berlin')
		FROM generate_series(1, $2::int) AS i`, cron, tasks)
	s.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	s.Exec(`UPDATE tasktable.scheduled_tasks SET planned_revision = revision, scheduled_at = due.at, started_at = due.at,
		next_attempt_at = due.at FROM (SELECT date_trunc('minute', now()) - $1::interval AS at) AS due
		WHERE cron IS NOT NULL`, since)
	s.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
}

// However many fires were missed, passes stay short, keep their session, and claim other tasks meanwhile.
func TestPassesAfterALongOutage(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	const tasks = 12
	s.missed(tasks, "* * * * *", "365 days")
	s.Add("plain", nil)
	tr := s.leads(handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	claimed, forked := 0, 0
	for pass := 1; forked < tasks; pass++ {
		found, err := tr.leader.Pass(t.Context())
		claimed, forked = claimed+found.Claimed, forked+found.Forked
		if err != nil || found.Forked == 0 || found.Stuck {
			t.Fatalf("pass %d: %+v, %v", pass, found, err)
		}
		if made := s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id <> ''`); made > 500*pass {
			t.Fatalf("%d occurrences after %d passes", made, pass)
		}
		if claimed == 0 {
			t.Errorf("pass %d claims nothing", pass)
		}
	}
	tr.run()
	enginetest.Await(t, s.Pool, "plain", patience, store.StatusCompleted)
	// The first fires run, and the latest unless the first still run then.
	enginetest.Eventually(t, patience, "all that was missed has run or is skipped", func() bool {
		return s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id <> ''
			AND status = 'COMPLETED'`) >= tasks &&
			s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status NOT IN ('COMPLETED', 'SKIPPED')
				AND (cron IS NULL OR next_attempt_at <= now())`) == 0
	})
}

// Recurring tasks that somebody has locked, as an import does, do not keep another one from firing.
func TestPassGoesRoundLockedRecurringTasks(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.missed(301, "0 * * * *", "2 hours")
	s.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = next_attempt_at - interval '1 hour'
		WHERE id <> 'tick 301'`)
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The others stay locked until the node has ended, so that they do not fire while it stops.
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(
		t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id <> 'tick 301' FOR UPDATE`,
	); err != nil {
		t.Fatal(err)
	}
	tr := s.leads(handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	if found, err := tr.leader.Pass(t.Context()); err != nil || found.Forked != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if n := s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id = 'tick 301'`); n == 0 {
		t.Error("it did not fire")
	}
	tr.run()
	enginetest.Eventually(t, patience, "its occurrence has run", func() bool {
		return s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id = 'tick 301'
			AND status = 'COMPLETED'`) == 1
	})
}
