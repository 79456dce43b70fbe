package store_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

func TestHistoryIsAppendOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "QUEUED")
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
		scheduled_at, finished_at, outcome)
		VALUES (1000, 'one', 'TEST', 1, 1, now(), now(), 'COMPLETED')`)
	before, err := b.Tasks.History(b.Ctx, b.Pool, "one")
	b.Check(err)
	for _, table := range []string{"scheduled_task_changes", "scheduled_task_executions"} {
		b.refused(`UPDATE tasktable.`+table+` SET outcome = 'FAILED'`, table+` is append-only: UPDATE is refused`)
		b.refused(`DELETE FROM tasktable.`+table, table+` is append-only: DELETE is refused`)
		b.refused(`TRUNCATE tasktable.`+table, table+` is append-only: TRUNCATE is refused`)
	}
	b.refused(`TRUNCATE tasktable.scheduled_tasks`, `TRUNCATE of scheduled_tasks is refused: DELETE records each task`)
	after, err := b.Tasks.History(b.Ctx, b.Pool, "one")
	b.Check(err)
	same(b, "history", after, before)

	b.InTx(func(tx pgx.Tx) { // retention alone may delete; it may not rewrite
		b.Exec(tx, `SELECT set_config('tasktable_change.context', 'retention', true)`)
		b.Exec(tx, `DELETE FROM tasktable.scheduled_task_changes`)
		b.Exec(tx, `DELETE FROM tasktable.scheduled_task_executions`)
	})
	after, err = b.Tasks.History(b.Ctx, b.Pool, "one")
	if err != nil || len(after.Changes)+len(after.Executions) != 0 {
		t.Errorf("after retention: %v, %s", err, pretty(after))
	}
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT set_config('tasktable_change.context', 'retention', true)`)
	if _, err := tx.Exec(b.Ctx, `TRUNCATE tasktable.scheduled_task_changes`); err == nil ||
		!strings.Contains(err.Error(), "append-only") {
		t.Errorf("TRUNCATE by retention: %v", err)
	}
}

func TestPlainSQLCannotBreakTheProtocol(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "QUEUED")
	b.Make("held", "EXECUTING")
	queued, held := b.state("one"), b.state("held")
	for sql, message := range map[string]string{
		`UPDATE tasktable.scheduled_tasks SET id = 'two' WHERE id = 'one'`:  `id of task "one" cannot be changed`,
		`UPDATE tasktable.scheduled_tasks SET id = 'two' WHERE id = 'held'`: `id of task "held" cannot be changed`,
		`UPDATE tasktable.scheduled_tasks SET status = 'DONE'
			WHERE id = 'one'`: "status must be one of the eight words",
		`UPDATE tasktable.scheduled_tasks SET status = NULL WHERE id = 'one'`:  `"status"`,
		`UPDATE tasktable.scheduled_tasks SET type = 'OTHER' WHERE id = 'one'`: `"type"`,
		`UPDATE tasktable.scheduled_tasks SET next_attempt_at = NULL
			WHERE id = 'one'`: "next_attempt_at is set exactly when QUEUED and not held",
		`UPDATE tasktable.scheduled_tasks SET next_attempt_at = now()
			WHERE id = 'held'`: "next_attempt_at is set exactly when QUEUED and not held",
		`UPDATE tasktable.scheduled_tasks SET fence = NULL WHERE id = 'held'`: "an EXECUTING task holds a fence",
		`UPDATE tasktable.scheduled_tasks SET lease_expires_at = NULL
			WHERE id = 'held'`: "fence and lease_expires_at are set together",
		`UPDATE tasktable.scheduled_tasks SET finished_at = now()
			WHERE id = 'one'`: "finished_at is set exactly when the status is final",
		`UPDATE tasktable.scheduled_tasks SET attempt = -1 WHERE id = 'one'`: "attempt must not be negative",
		`INSERT INTO tasktable.scheduled_tasks (id, payload, status)
			VALUES ('two', '{"type":"TEST"}', 'EXECUTING')`: "an EXECUTING task holds a fence",
		`INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('one', '{"type":"TEST"}')`: "duplicate key",
	} {
		b.refused(sql, message)
	}
	same(b, "the queued one", b.state("one"), queued)
	same(b, "the held one", b.state("held"), held)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET id = id, payload = payload, status = status`)
	queued.Version, held.Version = b.state("one").Version, b.state("held").Version
	same(b, "the queued one, set to itself", b.state("one"), queued)
	same(b, "the held one, set to itself", b.state("held"), held)
}

// Users write upserts of their own, too.
func TestUpsertByPlainSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const upsert = `INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		VALUES ('one', $1::text::jsonb, '2100-01-01Z')
		ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, scheduled_at = excluded.scheduled_at`
	first := `{"type": "TEST", "n": 1}`
	b.Exec(b.Pool, upsert, first)
	revision := b.Get("one").Revision
	b.Exec(b.Pool, upsert, first)
	if row := b.Get("one"); row.Revision != revision {
		t.Errorf("the same again: revision %d after %d", row.Revision, revision)
	}
	b.Exec(b.Pool, upsert, `{"type": "TEST", "n": 2}`)
	same(b, "lines", b.Lines("one"), []string{"sql created " + b.Role(), "sql rescheduled " + b.Role()})
}

func TestWhoChangedIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nobody := store.New(store.Config{})
	const edit = `UPDATE tasktable.scheduled_tasks SET priority = priority + 1 WHERE id = 'one'`
	role := b.Role()
	b.Exec(b.Pool, `SELECT tasktable.schedule('{"type":"TEST"}', '2100-01-01Z', 'one', scheduled_by => 'cron-host')`)
	b.Exec(b.Pool, edit)
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `SET LOCAL tasktable_change.by = 'ann'`)
		b.Exec(tx, edit)
		b.succeeds(nobody.Pause(b.Ctx, tx, "one"))
		b.succeeds(b.Tasks.Resume(b.Ctx, tx, "one")) // a service of its own goes before the setting
	})
	b.succeeds(nobody.Pause(b.Ctx, b.Pool, "one"))
	b.Exec(b.Pool, `SELECT tasktable.resume('one', 'bob')`)
	same(b, "lines", b.Lines("one"), []string{
		"schedule created cron-host", "sql rescheduled " + role, "sql rescheduled ann", "pause paused ann",
		"resume queued " + service, "pause paused " + role, "resume queued bob",
	})
	if by := b.Get("one").ScheduledBy; by == nil || *by != "cron-host" {
		t.Errorf("scheduled_by is %v", text(by))
	}
}

// A verb marks its own lines alone: what follows it in the transaction, or its failure, is recorded as what it is.
func TestVerbsAndPlainSQLInOneTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	role := b.Role()
	for _, id := range []string{"one", "two"} {
		b.Make(id, "QUEUED")
	}
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = 'one'`)
		b.succeeds(b.Tasks.Reschedule(b.Ctx, tx, "one", far(5)))
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET priority = 2 WHERE id = 'one'`)
		moved := base("one")
		moved.At = far(6)
		b.succeeds(b.Tasks.ScheduleMany(b.Ctx, tx, []store.Task{moved}))
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET priority = 3 WHERE id = 'one'`)

		b.succeeds(b.Tasks.Schedule(b.Ctx, tx, base("three")))
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET entity = NULL WHERE id = 'three'`)

		nested, err := tx.Begin(b.Ctx)
		b.Check(err)
		if _, err := nested.Exec(b.Ctx, `SELECT tasktable.schedule('[]', id => 'one')`); err == nil {
			b.Error("no error")
		}
		b.Check(nested.Rollback(b.Ctx))
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET priority = 4 WHERE id = 'one'`)
		b.succeeds(b.Tasks.Sync(b.Ctx, tx, "event:1", base("one")))
		b.Exec(tx, `DELETE FROM tasktable.scheduled_tasks WHERE id = 'one'`)
	})
	same(b, "lines of one", b.Lines("one"), []string{
		"schedule created " + service, "sql rescheduled " + role, "reschedule rescheduled " + service,
		"sql rescheduled " + role, "schedule rescheduled " + service, "sql rescheduled " + role,
		"sql rescheduled " + role, "sync rescheduled " + service, "sql deleted " + role,
	})
	same(b, "lines of three", b.Lines("three"), []string{"schedule created " + service, "sql rescheduled " + role})
	same(b, "lines of two", b.Lines("two"), []string{"schedule created " + service, "cancel cancelled " + service})
	if left := one[string](
		b, b.Pool, `SELECT coalesce(current_setting('tasktable_change.context', true), '')`,
	); left != "" {
		t.Errorf("the context is left: %q", left)
	}
}

func TestViewsForAudit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range []string{"QUEUED", "EXECUTING", "FAILED", "EXPIRED", "COMPLETED"} {
		b.Make(kind, kind)
	}
	late := base("late")
	late.At = b.Now().Add(-1e9)
	b.Schedule(late)
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
		scheduled_at, due_at, started_at,
		finished_at, outcome, node) SELECT 1000, id, type, revision, 1, scheduled_at, now(),
		now() + interval '1 second', now() + interval '3 seconds',
		'COMPLETED', 7 FROM tasktable.scheduled_tasks WHERE id = 'COMPLETED'`)
	for view, want := range map[string]string{
		`SELECT string_agg(id || ' ' || has_node, ',') FROM tasktable.late_tasks`: "late false",
		`SELECT string_agg(id || ' ' || stuck, ',') FROM tasktable.running_tasks`: "EXECUTING false",
		`SELECT string_agg(id || ' ' || status, ',' ORDER BY id)
			FROM tasktable.dead_letters`: "EXPIRED EXPIRED,FAILED FAILED",
		`SELECT string_agg(concat_ws(' ', kind, event, outcome, by, delay, took), ',' ORDER BY at)
			FROM tasktable.task_timeline WHERE task_id = 'COMPLETED'`: "change schedule created " +
			service + ",execution attempt COMPLETED node 7 00:00:01 00:00:02",
	} {
		if got := one[*string](b, b.Pool, view); got == nil || *got != want {
			t.Errorf("%s: %v instead of %s", view, text(got), want)
		}
	}
	// A node that works both its queue and its type.
	b.Exec(b.Pool, `INSERT INTO tasktable.nodes (service, version, host, queues, types)
		VALUES ('s', 'v', 'h', '{"default": 1}', '{TEST}')`)
	if !one[bool](b, b.Pool, `SELECT has_node FROM tasktable.late_tasks`) {
		t.Error("the node is not seen")
	}
}
