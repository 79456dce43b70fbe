package taskdb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// claimAtNoon claims the JOB tasks that are due at noon, in a transaction of its own, and commits it.
func (b *bench) claimAtNoon(aside ...string) (ids []string, err error) {
	err = pgx.BeginFunc(b.T.Context(), b.Pool, func(tx pgx.Tx) error {
		settings := strings.ReplaceAll(pg.PlanSettingsSQL, "SET ", "SET LOCAL ")
		if _, err := tx.Exec(b.T.Context(), settings+"; "+taskdb.EnterSQL); err != nil {
			return err
		}
		taken, err := b.Claim(
			b.T.Context(), tx, &noon, 0, time.Minute, []taskdb.Grant{enginetest.Jobs(0, 1000)},
			aside...,
		)
		for _, c := range enginetest.ClaimsOf(taken) {
			ids = append(ids, c.ID)
		}
		return err
	})
	return ids, err
}

// slowDueSQL makes the claim wait for a test after it has read the task a and before it locks it.
const slowDueSQL = `
CREATE OR REPLACE FUNCTION tasktable.due_of(id text, scheduled_at timestamptz, run_now_at timestamptz, jitter interval)
RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF id = 'a' AND current_setting('tasktable_change.context', true) = 'engine' THEN
        PERFORM pg_advisory_xact_lock(4711);
    END IF;
    RETURN coalesce(run_now_at, scheduled_at);
END $$`

const claimWaitsSQL = `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND objid = 4711
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// An edit that is committed after the claim has read the row and before it locks the row wins. The claim takes the
// other tasks.
func TestClaimLeavesWhatIsEditedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]struct{ sql, want string }{
		"moved": {`SELECT tasktable.reschedule('a', '2030-01-01 13:00Z')`, `
			QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s
			1 schedule created by test
			2 reschedule rescheduled by tester`},
		"of another payload": {`
			UPDATE tasktable.scheduled_tasks SET payload = payload || '{"name":"b"}' WHERE id = 'a'`, `
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
			UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = attempt + 1,
				fence = nextval('tasktable.task_numbers'), lease_expires_at = '2030-01-01 12:30Z',
				next_attempt_at = NULL WHERE id = 'a';
		END $$`, `
			EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=30m0s
			1 schedule created by test`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Schedule(
				store.Task{Payload: job{Name: "a"}, At: noon},
				store.Task{Payload: job{Name: "b"}, At: noon.Add(-time.Second)},
			)
			b.Exec(slowDueSQL)
			tx := b.Begin()
			b.Did(tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(4711)`))
			claimed := make(chan error, 1)
			var ids []string
			go func() {
				var err error
				ids, err = b.claimAtNoon()
				claimed <- err
			}()
			enginetest.Eventually(t, enginetest.Patience, "the claim has read the row", func() bool {
				var n int
				b.OK(b.Pool.QueryRow(t.Context(), claimWaitsSQL).Scan(&n))
				return n == 1
			})
			b.Exec(edit.sql)
			b.OK(tx.Commit(t.Context()))
			if err := enginetest.Receive(t, claimed, enginetest.Patience, "the claim ends"); err != nil ||
				fmt.Sprint(ids) != "[b]" {
				t.Errorf("claimed %v, %v; want b alone", ids, err)
			}
			b.Expect("after the claim", "a", edit.want)
		})
	}
}

// A claim takes the tasks behind those that are locked, and no more than there is room for.
func TestClaimStepsOverLockedRows(t *testing.T) {
	b := newBench(t)
	for i := range 10 {
		at := noon.Add(time.Duration(i-10) * time.Second)
		b.Schedule(
			store.Task{Payload: job{Name: fmt.Sprint("high ", i)}, At: at, Priority: 5},
			store.Task{Payload: job{Name: fmt.Sprint("low ", i)}, At: at},
		)
	}
	b.Schedule(store.Task{Payload: job{Name: "near"}, At: noon.Add(time.Second), Priority: 5})
	claim := func(what string, lookAhead time.Duration, want string, grants ...taskdb.Grant) {
		t.Helper()
		var got []string
		for _, c := range enginetest.ClaimsOf(b.ClaimFrom(noon, lookAhead, grants...)) {
			got = append(got, c.ID)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: claimed %v, want %s", what, got, want)
		}
	}
	tx := b.Begin()
	const lockSQL = `SELECT FROM tasktable.scheduled_tasks WHERE id = ANY ($1) FOR UPDATE`
	b.Did(tx.Exec(t.Context(), lockSQL, []string{"high 0", "high 1", "high 2", "low 0"}))
	due := enginetest.Jobs(5, 9)
	due.Near = false
	claim("behind the locked", 0, "[high 3 high 4 low 1]", enginetest.Jobs(5, 2), enginetest.Jobs(0, 1))
	claim("the rest of the lane", time.Minute, "[high 5 high 6 high 7 high 8 high 9 low 2]", due, enginetest.Jobs(0, 1))
	claim("only locked ones are due", time.Minute, "[near]", enginetest.Jobs(5, 9))
	b.OK(tx.Rollback(t.Context()))
	claim("unlocked", 0, "[high 0 high 1 high 2 low 0 low 3]", enginetest.Jobs(5, 100), enginetest.Jobs(0, 2))
}

// A lane with very many locked tasks is given up after a while, so that the other lanes do not wait.
func TestClaimGivesUpALaneThatIsLocked(t *testing.T) {
	b := newBench(t)
	for i := range 10 {
		at := noon.Add(time.Duration(i-10) * time.Second)
		b.Schedule(store.Task{Payload: job{Name: fmt.Sprint("high ", i)}, At: at, Priority: 5})
	}
	b.Due("low")
	b.Exec(`
CREATE OR REPLACE FUNCTION tasktable.due_of(id text, scheduled_at timestamptz, run_now_at timestamptz, jitter interval)
RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pg_sleep(0.2) WHERE id LIKE 'high %';
    RETURN scheduled_at;
END $$`)
	tx := b.Begin()
	const lockSQL = `SELECT FROM tasktable.scheduled_tasks WHERE id LIKE 'high %' AND id <> 'high 9' FOR UPDATE`
	b.Did(tx.Exec(t.Context(), lockSQL))
	began := time.Now()
	taken := enginetest.ClaimsOf(b.ClaimFrom(noon, 0, enginetest.Jobs(5, 1), enginetest.Jobs(0, 1)))
	if took := time.Since(began); len(taken) != 1 || taken[0].ID != "low" || took < 250*time.Millisecond {
		t.Errorf("claimed %+v within %s; want low alone, after a quarter of a second", taken, took)
	}
}

// Other transactions may lock each row that the claim has not taken.
func TestClaimLocksNoMoreThanItTakes(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		b.Schedule(
			store.Task{Payload: job{Name: fmt.Sprint("high ", i)}, At: noon, Priority: 5},
			store.Task{Payload: job{Name: fmt.Sprint("low ", i)}, At: noon},
		)
	}
	b.InTx(func(tx pgx.Tx) {
		b.Did(tx.Exec(t.Context(), taskdb.EnterSQL))
		taken, err := b.Claim(
			t.Context(), tx, &noon, 0, time.Minute,
			[]taskdb.Grant{enginetest.Jobs(5, 20), enginetest.Jobs(0, 1)},
		)
		if n := len(enginetest.ClaimsOf(taken)); err != nil || n != 21 {
			t.Fatalf("claimed %d tasks, %v; want 21", n, err)
		}
		var free int
		const freeSQL = `SELECT count(*) FROM (SELECT FROM tasktable.scheduled_tasks FOR UPDATE SKIP LOCKED) AS t`
		b.OK(b.Pool.QueryRow(t.Context(), freeSQL).Scan(&free))
		if free != 19 {
			t.Errorf("%d rows of 40 can be locked beside a claim of 21", free)
		}
	})
}

// While a transaction that references a task's row is open, the claim leaves the task. It takes the task afterwards.
func TestClaimBesideAForeignKey(t *testing.T) {
	b := newBench(t)
	b.Due("a", "b")
	b.Exec(`CREATE TABLE refers (task_id text REFERENCES tasktable.scheduled_tasks (id))`)
	tx := b.Begin()
	b.Did(tx.Exec(t.Context(), `INSERT INTO refers VALUES ('a')`))
	if ids, err := b.claimAtNoon(); err != nil || fmt.Sprint(ids) != "[b]" {
		t.Errorf("beside the open transaction: claimed %v, %v", ids, err)
	}
	b.OK(tx.Commit(t.Context()))
	if ids, err := b.claimAtNoon(); err != nil || fmt.Sprint(ids) != "[a]" {
		t.Errorf("after it: claimed %v, %v", ids, err)
	}
}

func TestClaimLeavesWhatIsSetAside(t *testing.T) {
	b := newBench(t)
	b.Due("a", "b", "c")
	if ids, err := b.claimAtNoon("a", "c", "none"); err != nil || fmt.Sprint(ids) != "[b]" {
		t.Errorf("claimed %v, %v; want b", ids, err)
	}
}

// An application that has locked a task and then wants others, which the claim has written, waits for the claim at
// most. Neither is ended by a deadlock.
func TestClaimDoesNoHarmToApplications(t *testing.T) {
	b := newBench(t)
	limit := enginetest.Limits(t, b.Pool)
	for i := range 20 {
		b.Schedule(store.Task{
			Payload: job{Name: fmt.Sprintf("%02d", i)},
			At:      noon.Add(time.Duration(i-20) * time.Second),
		})
	}
	tx := b.Begin()
	b.Did(tx.Exec(t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id = '19' FOR UPDATE`))
	claimed := make(chan error, 1)
	go func() {
		_, err := b.claimAtNoon()
		claimed <- err
	}()
	began := time.Now()
	_, err := tx.Exec(t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id < '19' ORDER BY id DESC FOR UPDATE`)
	if took := time.Since(began); err != nil || took > limit(900*time.Millisecond) {
		t.Errorf("the application waited %s: %v", took, err)
	}
	if err := enginetest.Receive(t, claimed, enginetest.Patience, "the claim ends"); err != nil {
		t.Errorf("the claim: %v", err)
	}
}

// Two leaders at once, as there may be for a moment after one was cut off, never claim the same task.
func TestClaimTwiceAtOnce(t *testing.T) {
	b := newBench(t)
	const most = 300
	for i := range most {
		b.Due(fmt.Sprint(i))
	}
	type answer struct {
		ids []string
		err error
	}
	answers := make(chan answer, 4)
	for range cap(answers) {
		go func() {
			var all answer
			for waiting := 1; waiting > 0 && all.err == nil; { // another may have locked them, and may fail
				var ids []string
				if ids, all.err = b.claimAtNoon(); all.err == nil {
					const waitingSQL = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'QUEUED'`
					all.err = b.Pool.QueryRow(t.Context(), waitingSQL).Scan(&waiting)
				}
				all.ids = append(all.ids, ids...)
			}
			answers <- all
		}()
	}
	var all []string
	for range cap(answers) {
		one := enginetest.Receive(t, answers, 30*time.Second, "the claims end")
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
