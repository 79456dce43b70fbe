package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

// execution writes a line of the history of a task, as a settled claim leaves it, and returns its fence.
func (b *bench) execution(id string) int64 {
	b.Helper()
	return one[int64](b, b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision,
		attempt, scheduled_at, finished_at, outcome, error)
		VALUES (nextval('tasktable.task_numbers'), $1, 'TEST', 1, 1, now(), now(), 'RETRIED',
			'no such user: ann@example.org') RETURNING fence`, id)
}

// history counts the lines of a task.
func (b *bench) history(id string) (changes, executions int) {
	b.Helper()
	history, err := b.Tasks.History(b.Ctx, b.Pool, id)
	b.Check(err)
	return len(history.Changes), len(history.Executions)
}

// erasers are the two ways to say whose tasks are to go: the person "ann", or everybody of the tenant "ann".
var erasers = map[string]struct {
	of    func(store.Task, string) store.Task
	erase func(*bench, string) (store.Erasure, error)
}{
	"entity": {func(t store.Task, who string) store.Task { t.Entity = who; return t },
		func(b *bench, who string) (store.Erasure, error) { return b.Tasks.EraseEntity(b.Ctx, b.Pool, who) }},
	"tenant": {func(t store.Task, who string) store.Task { t.TenantID = who; return t },
		func(b *bench, who string) (store.Erasure, error) { return b.Tasks.EraseTenant(b.Ctx, b.Pool, who) }},
}

// eachEraser runs a test for both, on a database of its own.
func eachEraser(
	t *testing.T, test func(b *bench, of func(id, who string) store.Task, erase func(who string) store.Erasure),
) {
	t.Helper()
	for name, way := range erasers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			test(b, func(id, who string) store.Task { return way.of(base(id), who) }, func(who string) store.Erasure {
				b.Helper()
				gone, err := way.erase(b, who)
				b.Check(err)
				return gone
			})
		})
	}
}

// All of somebody's tasks go, in whatever status, with all that is written of them; what others have stays as it is.
func TestEraseOfEachRow(t *testing.T) {
	t.Parallel()
	eachEraser(t, func(b *bench, of func(id, who string) store.Task, erase func(who string) store.Erasure) {
		untouched := map[string]state{}
		var changes int64
		for _, kind := range rowKinds[1:] {
			for _, who := range []string{"ann", "bob"} {
				id := who + " " + kind
				b.Make(id, kind)
				task := of(id, who)
				b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET entity = $2, tenant_id = $3
					WHERE id = $1`, id, task.Entity, task.TenantID)
				b.execution(id)
				if who == "bob" {
					untouched[id] = b.state(id)
				}
			}
		}
		for _, kind := range recurringKinds[1:] {
			b.MakeRecurring("ann recurring "+kind, kind)
			task := of("", "ann")
			b.Exec(
				b.Pool, `UPDATE tasktable.scheduled_tasks SET entity = $2, tenant_id = $3 WHERE id = $1`,
				"ann recurring "+kind, task.Entity, task.TenantID,
			)
			b.fork("ann recurring "+kind, "2100-01-01 08:00Z")
			b.fork("ann recurring "+kind, "2100-01-02 08:00Z", "skipped")
		}
		// An edit has made the executing one wait for its end, held.
		held := []string{"ann EXECUTING", "ann held QUEUED", "ann held PAUSED", "ann held CANCELLED"}
		before := map[string]state{}
		for _, id := range held {
			before[id] = b.state(id)
		}
		changes = one[int64](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_task_changes
			WHERE task_id LIKE 'ann%' AND task_id <> ALL ($1)`, held)

		tasks := int64(len(rowKinds) - 1 - len(held) + 3*(len(recurringKinds)-1))
		same(b, "first", erase("ann"), store.Erasure{
			Tasks: tasks, Executions: int64(len(rowKinds) - 1 - len(held)), Changes: changes, Running: int64(len(held)),
		})
		for id, state := range untouched {
			same(b, "another's: "+id, b.state(id), state)
			if _, executions := b.history(id); executions != 1 {
				b.Errorf("%s has %d executions", id, executions)
			}
		}
		for _, id := range held {
			row, was := b.Get(id), before[id].Row
			changes, executions := b.history(id)
			cancelled := 1
			if was.Status == "CANCELLED" {
				cancelled = 0
			}
			if row.Status != "CANCELLED" || *row.Fence != *was.Fence || executions != 1 ||
				changes != len(before[id].Changes)+cancelled {
				b.Errorf("%s: %d lines, %d executions: %s", id, changes, executions, pretty(row))
			}
		}
		same(b, "while they run", erase("ann"), store.Erasure{Running: int64(len(held))})
		changes = one[int64](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_task_changes
			WHERE task_id LIKE 'ann%'`)
		b.AsEngine(func(tx pgx.Tx) {
			b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET fence = NULL, lease_expires_at = NULL
				WHERE id LIKE 'ann%'`)
		})
		same(b, "when they have ended", erase("ann"), store.Erasure{
			Tasks: int64(len(held)), Executions: int64(len(held)), Changes: changes,
		})
		same(b, "once more", erase("ann"), store.Erasure{})
		for _, table := range []string{
			"scheduled_tasks WHERE id", "scheduled_task_changes WHERE task_id",
			"scheduled_task_executions WHERE task_id",
		} {
			if left := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.`+table+` LIKE 'ann%'`); left != 0 {
				b.Errorf("%d left in %s", left, table)
			}
		}
	})
}

// What is written of a task that is somebody's no more goes up to where it became another's, or nobody's.
func TestEraseOfWhatWasSomebodys(t *testing.T) {
	t.Parallel()
	eachEraser(t, func(b *bench, of func(id, who string) store.Task, erase func(who string) store.Erasure) {
		edit := func(id string) {
			b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET payload = payload || '{"name": "Ann"}'
				WHERE id = $1`, id)
			b.execution(id)
		}
		remove := func(id string) {
			b.succeeds(b.Tasks.Delete(b.Ctx, b.Pool, id))
		}
		b.Schedule(of("deleted", "ann"))
		edit("deleted")
		remove("deleted")

		b.Schedule(of("passed on", "ann"))
		edit("passed on")
		b.Schedule(of("passed on", "bob"))
		edit("passed on")

		b.Schedule(of("passed on and deleted", "ann"))
		b.Schedule(of("passed on and deleted", "bob"))
		edit("passed on and deleted")
		remove("passed on and deleted")

		b.Schedule(of("anew", "ann"))
		edit("anew")
		remove("anew")
		b.Schedule(of("anew", "bob"))
		edit("anew")

		b.Schedule(of("came to ann", "bob"))
		edit("came to ann")
		b.Schedule(of("came to ann", "ann"))

		b.Schedule(of("bob's", "bob"))
		edit("bob's")
		remove("bob's")

		rows := []state{b.state("passed on"), b.state("anew")}
		// Of deleted 3 changes and 1 execution, of passed on 3 and 1, of passed on and deleted 2, of anew 3 and 1, of
		// came to ann 3 and 1.
		same(b, "erased", erase("ann"), store.Erasure{Tasks: 1, Executions: 4, Changes: 14})
		for id, want := range map[string][2]int{
			"deleted": {0, 0}, "passed on": {1, 1}, "passed on and deleted": {2, 1}, "anew": {2, 1},
			"came to ann": {0, 0}, "bob's": {3, 1},
		} {
			changes, executions := b.history(id)
			same(b, id, [2]int{changes, executions}, want)
		}
		for i, id := range []string{"passed on", "anew"} {
			after := b.state(id)
			after.Changes, rows[i].Changes = nil, nil
			same(b, id, after, rows[i])
		}
		left := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_task_changes AS c
			WHERE c::text LIKE '%ann%' AND task_id <> 'came to ann'`)
		if left != 0 {
			b.Errorf("ann is in %d lines", left)
		}
		same(b, "once more", erase("ann"), store.Erasure{})
		same(b, "bob too", erase("bob"), store.Erasure{Tasks: 2, Executions: 4, Changes: 8})
		if left := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_task_changes`); left != 0 {
			b.Errorf("%d lines are left", left)
		}
	})
}

// One that is claimed while the erasure waits for it is cancelled as a running one, and goes when it has ended.
func TestEraseOfATaskThatIsBeingClaimed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("one"))
	b.Schedule(base("two"))
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT set_config('tasktable_change.context', 'engine', true)`)
	b.Exec(tx, `UPDATE tasktable.scheduled_tasks
		SET status = 'EXECUTING', fence = nextval('tasktable.task_numbers'),
		lease_expires_at = clock_timestamp() + interval '1 hour',
		next_attempt_at = NULL, attempt = attempt + 1 WHERE id = 'one'`)
	call := start(b, func(conn *pgxpool.Conn) (store.Erasure, error) {
		return b.Tasks.EraseEntity(b.Ctx, conn, "event:1")
	}).blocked()
	b.Check(tx.Commit(b.Ctx))
	gone, err := call.result()
	if err != nil || gone != (store.Erasure{Tasks: 1, Changes: 1, Running: 1}) {
		t.Errorf("%+v, %v", gone, err)
	}
	if row := b.Get("one"); row == nil || row.Fence == nil || row.Status != store.StatusCancelled {
		t.Errorf("got %s", pretty(row))
	}
	again, err := b.Tasks.EraseEntity(b.Ctx, b.Pool, "event:1")
	if err != nil || again != (store.Erasure{Running: 1}) {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// A recurring task may make an occurrence while the erasure waits for its row. The erasure removes the occurrence, too.
func TestEraseOfATaskThatMakesAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.MakeRecurring("nightly", "QUEUED")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET entity = 'event:1'`)
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT FROM tasktable.scheduled_tasks FOR NO KEY UPDATE`) // as the leader does
	b.Exec(tx, `SELECT tasktable.fork_occurrence('nightly', '2100-01-01 08:00Z')`)
	call := start(b, func(conn *pgxpool.Conn) (store.Erasure, error) {
		return b.Tasks.EraseEntity(b.Ctx, conn, "event:1")
	}).blocked()
	b.Check(tx.Commit(b.Ctx))
	if gone, err := call.result(); err != nil || gone.Tasks != 2 {
		t.Errorf("%+v, %v", gone, err)
	}
	for _, table := range []string{"scheduled_tasks", "scheduled_task_changes"} {
		same(b, table, one[int](b, b.Pool, `SELECT count(*) FROM tasktable.`+table), 0)
	}
}

// Answers of the HTTP API may have payloads of the tenant in them.
func TestEraseOfATenantsAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, tenant := range []string{"ann", "bob"} {
		one[string](b, b.Pool, `WITH key AS (
				INSERT INTO tasktable.api_keys (name, prefix, secret_hash, scopes, service, tenant_id)
				VALUES ($1::text, 'tt_', sha256(convert_to($1::text, 'UTF8')), '{read}', 'api', $1::text)
				RETURNING name
			)
			INSERT INTO tasktable.api_answers (caller, idempotency_key, request_hash, answer)
			SELECT name, 'x', '', '{}' FROM key RETURNING caller`, tenant)
	}
	b.succeeds(b.Tasks.EraseTenant(b.Ctx, b.Pool, "ann"))
	same(b, "whose answers are left", one[string](b, b.Pool, `SELECT string_agg(caller, ' ') FROM tasktable.api_answers`), "bob")
}

// Erasing is the caller's transaction, and what follows in it is recorded as ever.
func TestEraseIsPartOfItsTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("one"))
	b.Schedule(base("two"))
	before := b.state("one")
	tx := b.Begin(pgx.TxOptions{})
	gone, err := b.Tasks.EraseEntity(b.Ctx, tx, "event:1")
	if err != nil || gone != (store.Erasure{Tasks: 2, Changes: 2}) {
		t.Errorf("%+v, %v", gone, err)
	}
	b.Check(tx.Rollback(b.Ctx))
	same(b, "after a rollback", b.state("one"), before)
	b.InTx(func(tx pgx.Tx) {
		b.succeeds(b.Tasks.EraseEntity(b.Ctx, tx, "event:1"))
		b.Exec(tx, `INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ('three', '{"type": "TEST"}')`)
		b.Exec(tx, `DELETE FROM tasktable.scheduled_tasks WHERE id = 'three'`)
		b.succeeds(tx.Exec(b.Ctx, `SAVEPOINT s`))
		if _, err := tx.Exec(b.Ctx, `DELETE FROM tasktable.scheduled_task_changes`); err == nil ||
			!strings.Contains(err.Error(), "append-only") {
			t.Errorf("history after an erasure: %v", err)
		}
		b.Exec(tx, `ROLLBACK TO s`)
	})
	same(b, "lines", b.Lines("three"), []string{"sql created " + b.Role(), "sql deleted " + b.Role()})
}

func TestEraseRefuses(t *testing.T) {
	t.Parallel()
	b := benchOn(t, nil)
	for _, who := range []string{"", "a\x00", "a\nb", "\xff", strings.Repeat("x", 513)} {
		_, entity := b.Tasks.EraseEntity(b.Ctx, noDB(b), who)
		_, tenant := b.Tasks.EraseTenant(b.Ctx, noDB(b), who)
		if !errors.Is(entity, store.ErrInvalid) || !strings.Contains(entity.Error(), "entity must be") {
			t.Errorf("entity %.10q: %v", who, entity)
		}
		if !errors.Is(tenant, store.ErrInvalid) || !strings.Contains(tenant.Error(), "tenant_id must be") {
			t.Errorf("tenant %.10q: %v", who, tenant)
		}
	}
	b = newBench(t)
	nobody := base("nobody's")
	nobody.Entity, nobody.TenantID = "", ""
	b.Schedule(nobody)
	for _, sql := range []string{
		`SELECT tasktable.erase()`, `SELECT tasktable.erase(NULL, NULL)`, `SELECT tasktable.erase('event:1', 'acme')`,
	} {
		b.refused(sql, "erase needs one of entity and tenant_id")
	}
	same(b, "of nobody", one[string](b, b.Pool, `SELECT tasktable.erase(tenant_id => 'nobody')::text`), "(0,0,0,0)")
	if b.Get("nobody's") == nil {
		t.Error("what is nobody's was erased")
	}
}
