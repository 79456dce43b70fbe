package scheduled

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// patient is a transaction in which claimFree waits for locks for as long as it takes.
type patient struct{ pgx.Tx }

func (p patient) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, query := range batch.QueuedQueries {
		if query.SQL == briefLockSQL {
			query.SQL = `SELECT set_config('lock_timeout', '0', true)`
		}
	}
	return p.Tx.SendBatch(ctx, batch)
}

// free claims the JOB tasks that are due at noon with claimFree, in an own transaction, and commits it.
func (b *bench) free(wrap func(pgx.Tx) batcher, aside ...string) (ids []string, err error) {
	err = pgx.BeginFunc(b.t.Context(), b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(b.t.Context(), strings.ReplaceAll(planSettingsSQL, "SET ", "SET LOCAL ")+"; "+enterSQL); err != nil {
			return err
		}
		taken, err := b.claimFree(b.t.Context(), wrap(tx), &noon, 0, time.Minute, []laneBudget{jobs(0, 0, 1000)}, 1000, aside...)
		for _, c := range taken {
			ids = append(ids, c.ID)
		}
		return err
	})
	return ids, err
}

func plainTx(tx pgx.Tx) batcher { return tx }

// waiting is how many sessions wait for somebody's row.
const waitingForRowsSQL = `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')
	AND (database IS NULL OR database = (SELECT oid FROM pg_database WHERE datname = current_database()))
	AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`

// What is done to a task between its being picked and its being written, the claim sees: the task is left, and the others are taken.
func TestClaimFreeLeavesWhatIsEditedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]struct{ sql, want string }{
		"moved": {`SELECT tasktable.reschedule('a', '2030-01-01 13:00Z')`, `
			QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s
			1 schedule created by test
			2 reschedule rescheduled by tester`},
		"of another payload": {`UPDATE tasktable.scheduled_tasks SET payload = payload || '{"name":"b"}' WHERE id = 'a'`, `
			QUEUED rev=2 attempt=0 scheduled=noon next=noon
			1 schedule created by test
			2 sql rescheduled by tester`},
		"of another lane": {`UPDATE tasktable.scheduled_tasks SET priority = 5 WHERE id = 'a'`, `
			QUEUED rev=2 attempt=0 scheduled=noon next=noon
			1 schedule created by test
			2 sql rescheduled by tester`},
		"cancelled": {`SELECT tasktable.cancel('a')`, `
			CANCELLED rev=2 attempt=0 scheduled=noon finished=real
			1 schedule created by test
			2 cancel cancelled by tester`},
		"paused": {`SELECT tasktable.pause('a')`, `
			PAUSED rev=2 attempt=0 scheduled=noon
			1 schedule created by test
			2 pause paused by tester`},
		"deleted": {`SELECT tasktable.delete('a')`, `
			absent
			1 schedule created by test
			2 delete deleted by tester`},
		"deleted and made again": {`DO $$ BEGIN
			PERFORM tasktable.delete('a');
			PERFORM tasktable.schedule('{"type":"JOB","name":"a"}', '2030-01-01 12:00Z', 'a');
		END $$`, `
			QUEUED rev=3 attempt=0 scheduled=noon next=noon
			1 schedule created by test
			2 delete deleted by tester
			3 schedule created by tester`},
		"made recurring": {`UPDATE tasktable.scheduled_tasks SET cron = '0 0 1 1 *' WHERE id = 'a'`, `
			QUEUED rev=2 attempt=0 scheduled=noon next=real
			1 schedule created by test
			2 sql rescheduled by tester`},
		"claimed by another leader": {`DO $$ BEGIN
			PERFORM set_config('tasktable_change.context', 'engine', true);
			UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = attempt + 1, fence = nextval('tasktable.task_numbers'),
				lease_expires_at = '2030-01-01 12:30Z', next_attempt_at = NULL WHERE id = 'a';
		END $$`, `
			EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=30m0s
			1 schedule created by test`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.schedule(store.Task{Payload: job{"a"}, At: noon}, store.Task{Payload: job{"b"}, At: noon})
			tx, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := tx.Exec(t.Context(), edit.sql); err != nil {
				t.Fatal(err)
			}
			claimed := make(chan error, 1)
			var ids []string
			go func() {
				var err error
				ids, err = b.free(func(tx pgx.Tx) batcher { return patient{tx} })
				claimed <- err
			}()
			eventually(t, 10*time.Second, "the claim waits for the edit", func() bool {
				var n int
				if err := b.pool.QueryRow(t.Context(), waitingForRowsSQL).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n == 1
			})
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := receive(t, claimed, 10*time.Second, "the claim ends"); err != nil || fmt.Sprint(ids) != "[b]" {
				t.Errorf("claimed %v, %v; want b alone", ids, err)
			}
			b.expect("after the claim", "a", edit.want)
		})
	}
}

// A locked row ends the claim soon and as a whole; without the lock all is claimed.
func TestClaimFreeGivesUpOnALockedRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon}, store.Task{Payload: job{"b"}, At: noon}, store.Task{Payload: job{"c"}, At: noon})
	unlock := lock(t, b.pool, "b")
	began := time.Now()
	if ids, err := b.free(plainTx); !isLocked(err) || len(ids) != 0 {
		t.Errorf("claimed %v, %v; want the refusal of a lock", ids, err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %s", took)
	}
	for _, id := range []string{"a", "b", "c"} {
		b.expect("after the failure", id, `
			QUEUED rev=1 attempt=0 scheduled=noon next=noon
			1 schedule created by test`)
	}
	unlock()
	if ids, err := b.free(plainTx); err != nil || fmt.Sprint(ids) != "[a b c]" {
		t.Errorf("claimed %v, %v", ids, err)
	}
}

// A lock that lets others reference the row is none in the way.
func TestClaimFreeBesideAForeignKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon})
	b.exec(`CREATE TABLE refers (task_id text REFERENCES tasktable.scheduled_tasks (id))`)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `INSERT INTO refers VALUES ('a')`); err != nil {
		t.Fatal(err)
	}
	if ids, err := b.free(plainTx); err != nil || fmt.Sprint(ids) != "[a]" {
		t.Errorf("claimed %v, %v", ids, err)
	}
}

// The rest of the pass waits for locks as the session does otherwise: River's insert is not to fail for 20 ms.
func TestClaimFreePutsTheLockTimeoutBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon})
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), sessionSettingsSQL); err != nil {
		t.Fatal(err)
	}
	timeout := func(q querier) (found string) {
		rows, err := q.Query(t.Context(), `SHOW lock_timeout`)
		if err != nil {
			t.Fatal(err)
		}
		if found, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := timeout(conn)
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := b.claimFree(t.Context(), tx, &noon, 0, time.Minute, []laneBudget{jobs(0, 0, 10)}, 10); err != nil {
			return err
		}
		if after := timeout(tx); after != before {
			t.Errorf("lock_timeout is %s after the claim, %s before", after, before)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := timeout(conn); after != before {
		t.Errorf("lock_timeout is %s after the transaction, %s before", after, before)
	}
}

func TestClaimFreeLeavesWhatIsSetAside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon}, store.Task{Payload: job{"b"}, At: noon}, store.Task{Payload: job{"c"}, At: noon})
	if ids, err := b.free(plainTx, "a", "c", "none"); err != nil || fmt.Sprint(ids) != "[b]" {
		t.Errorf("claimed %v, %v; want b", ids, err)
	}
}

// An application that has locked some tasks and then wants others, which the claim has written, waits a moment at most, and is never
// the one that a deadlock ends.
func TestClaimFreeDoesNoHarmToApplications(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 20 {
		b.schedule(store.Task{Payload: job{fmt.Sprintf("%02d", i)}, At: noon.Add(time.Duration(i-20) * time.Second)})
	}
	for range 5 {
		tx, err := b.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id = '19' FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		claimed := make(chan error, 1)
		go func() {
			_, err := b.free(plainTx)
			claimed <- err
		}()
		began := time.Now()
		_, err = tx.Exec(t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id < '19' ORDER BY id DESC FOR UPDATE`)
		if took := time.Since(began); err != nil || took > 900*time.Millisecond {
			t.Errorf("the application waited %s: %v", took, err)
		}
		if err := receive(t, claimed, 10*time.Second, "the claim ends"); !isLocked(err) {
			t.Errorf("the claim: %v", err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := b.free(plainTx); err != nil || len(ids) != 20 || !slices.IsSorted(ids) {
		t.Errorf("claimed %v, %v", ids, err)
	}
}

// Two leaders at once, as there may be for a moment after one was cut off, never claim the same task.
func TestClaimFreeTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const most = 300
	for i := range most {
		b.schedule(store.Task{Payload: job{fmt.Sprint(i)}, At: noon})
	}
	type answer struct {
		ids []string
		err error
	}
	answers := make(chan answer, 4)
	for range cap(answers) {
		go func() {
			var all answer
			for {
				ids, err := b.free(plainTx)
				all.ids = append(all.ids, ids...)
				if all.err = err; isLocked(err) {
					continue // the other has them
				}
				answers <- all
				return
			}
		}()
	}
	var all []string
	for range cap(answers) {
		one := receive(t, answers, 30*time.Second, "the claims end")
		if one.err != nil {
			t.Error(one.err)
		}
		all = append(all, one.ids...)
	}
	slices.Sort(all)
	if len(all) != most || len(slices.Compact(all)) != most {
		t.Errorf("%d claims of %d tasks", len(all), most)
	}
}

// leads makes a node that leads and knows its nodes, for passes by hand; its work begins with run.
func (s *stage) leads(parts ...handlers.Part) *troupe {
	s.t.Helper()
	tr := s.prepare(nil, parts...)
	if err := tr.session.follow(s.t.Context()); err != nil || !tr.session.leads {
		s.t.Fatalf("leads: %t, %v", tr.session.leads, err)
	}
	tr.looks()
	return tr
}

// A pass that meets a task which an application has locked goes round it at once, and takes no less at a time for it.
func TestPassGoesRoundLockedTasks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for i := range 5 {
		s.schedule(fmt.Sprint(i), nil)
	}
	unlock := lock(t, s.pool, "2")
	tr := s.leads(handlers.Handle(s.handle))
	pass := func(what string, claimed, most int) {
		t.Helper()
		tr.leader.most = 64
		began := time.Now()
		found, err := tr.leader.pass(t.Context())
		if err != nil || found.Claimed != claimed || found.Stuck || tr.leader.most != most {
			t.Errorf("%s: %+v, %v, then %d at a time; want %d claimed, and %d at a time", what, found, err, tr.leader.most, claimed, most)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: it took %s", what, took)
		}
	}
	pass("all but one", 4, 128)
	if time.Since(tr.leader.lockedAt) > lockedFor {
		t.Error("the lock is not remembered")
	}
	pass("only the locked one is left", 0, 128)
	tr.leader.lockedAt = time.Now().Add(-lockedFor - time.Second) // it remains locked for minutes
	pass("tried freely again", 0, 128)
	if time.Since(tr.leader.lockedAt) > lockedFor {
		t.Error("the second lock is not remembered")
	}
	unlock()
	pass("unlocked", 1, 128)
	tr.run()
	for i := range 5 {
		s.begins(fmt.Sprint(i)).end <- nil
		s.is(fmt.Sprint(i), store.StatusCompleted, outcomeCompleted)
	}
}

// While nobody may write to the table, as while an index is made, each pass ends in good time, though each task is let be only for a while:
// the leader has other things to do.
func TestPassWhileTheTableIsLocked(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for i := range 40 {
		s.schedule(fmt.Sprint(i), nil)
	}
	tr := s.leads(handlers.Handle(s.handle))
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_tasks IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		began := time.Now()
		found, err := tr.leader.pass(t.Context())
		if err != nil || found.Claimed != 0 || found.Next < 0 {
			t.Errorf("%+v, %v", found, err)
		}
		if took := time.Since(began); took > passMost+5*time.Second {
			t.Errorf("it took %s", took)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.run()
	for i := range 40 {
		s.begins(fmt.Sprint(i)).end <- nil
		s.is(fmt.Sprint(i), store.StatusCompleted, outcomeCompleted)
	}
}
