package notice_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

const (
	dieNowSQL = `INSERT INTO tasktable.scheduled_task_executions
		(fence, task_id, type, revision, attempt, scheduled_at, finished_at, outcome)
		VALUES (nextval('tasktable.task_numbers'), $1, $2, 0, 1, now(), $3, 'FAILED')`
	claimSQL = `SELECT id::text FROM tasktable.scheduled_tasks WHERE type = 'NOTICE' FOR UPDATE SKIP LOCKED`
)

// newPool is a database with a rule for each of the types ONE and TWO, and one for both.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, all := storetest.Pool(t), rules.New(rules.Config{})
	if _, err := all.SetRecipient(t.Context(), pool, rules.Recipient{Name: "ops", Target: "ops"}); err != nil {
		t.Fatal(err)
	}
	for name, types := range map[string][]string{"one": {"ONE"}, "two": {"TWO"}, "both": nil} {
		if _, err := all.Set(t.Context(), pool, rules.Rule{Name: name, Events: []rules.Event{rules.Failed}, Types: types,
			Recipients: []string{"ops"}}); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// settled commits the death of a task of type ONE.
func settled(t *testing.T, pool *pgxpool.Pool, id string) {
	t.Helper()
	settle := begin(t, pool)
	exec(t, settle, dieNowSQL, id, "ONE", nine)
	commit(t, settle)
}

func exec(t *testing.T, tx pgx.Tx, sql string, args ...any) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ids(t *testing.T, db store.DB, sql string) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Two transactions make notices of the same rules in different orders. The second one is refused after a moment, so
// Postgres ends neither as a deadlock, and a node repeats it.
func TestSettlesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	first, second := begin(t, pool), begin(t, pool)
	exec(t, first, dieNowSQL, "a", "ONE", nine)
	var refused *pgconn.PgError
	if _, err := second.Exec(t.Context(), dieNowSQL, "b", "TWO", nine); !errors.As(err, &refused) ||
		refused.Code != "55P03" { // lock_not_available
		t.Fatalf("the second transaction: %v", err)
	}
	exec(t, first, dieNowSQL, "c", "TWO", nine)
	commit(t, first)
	second = begin(t, pool)
	exec(t, second, dieNowSQL, "b", "TWO", nine)
	exec(t, second, dieNowSQL, "d", "ONE", nine)
	commit(t, second)
	got := ids(t, pool, `SELECT c.notice_id || ' ' || string_agg(c.task_id, ' ' ORDER BY c.task_id)
		FROM tasktable.notice_causes AS c JOIN tasktable.scheduled_tasks AS t ON t.id = c.notice_id
		GROUP BY c.notice_id ORDER BY c.notice_id`)
	if want := []string{"notice/both/ops/2035-05-01T09:01:00Z a b c d", "notice/one/ops/2035-05-01T09:01:00Z a d",
		"notice/two/ops/2035-05-01T09:01:00Z b c"}; !slices.Equal(got, want) {
		t.Errorf("notices %q", got)
	}
}

// A notice cannot be claimed while a settle of one of its causes has not ended. A settle that meets a claim takes the
// next window, and does not wait.
func TestANoticeIsNotSentBeforeItsCausesAreThere(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	settled(t, pool, "a")
	settle := begin(t, pool)
	exec(t, settle, dieNowSQL, "b", "ONE", nine)
	claim := begin(t, pool)
	if got := ids(t, claim, claimSQL); len(got) != 0 {
		t.Fatalf("the leader can claim %q", got)
	}
	commit(t, settle)
	if got := ids(t, claim, claimSQL); len(got) != 2 {
		t.Fatalf("the leader can claim %q", got)
	}
	settle = begin(t, pool)
	exec(t, settle, dieNowSQL, "c", "ONE", nine)
	got := ids(t, settle, `SELECT DISTINCT notice_id FROM tasktable.notice_causes WHERE task_id = 'c' ORDER BY 1`)
	if len(got) != 2 || got[1] != "notice/one/ops/2035-05-01T09:02:00Z" {
		t.Errorf("the cause is in %q", got)
	}
}

// A settle that is rolled back, or whose node is killed before the commit, leaves neither the cause nor the notice.
func TestASettleThatIsNotCommittedMakesNoNotice(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(pool *pgxpool.Pool, settle pgx.Tx) error{
		"rolled back": func(_ *pgxpool.Pool, settle pgx.Tx) error { return settle.Rollback(context.Background()) },
		"killed": func(pool *pgxpool.Pool, settle pgx.Tx) error {
			_, err := pool.Exec(context.Background(), `SELECT pg_terminate_backend($1, 60000)`, settle.Conn().PgConn().PID())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			settle := begin(t, pool)
			exec(t, settle, dieNowSQL, "a", "ONE", nine)
			if got := ids(t, settle, claimSQL); len(got) != 2 {
				t.Fatalf("notices %q", got)
			}
			if err := end(pool, settle); err != nil {
				t.Fatal(err)
			}
			if got := ids(t, pool, `SELECT id::text FROM tasktable.scheduled_tasks UNION ALL SELECT task_id FROM
				tasktable.notice_causes UNION ALL SELECT task_id FROM tasktable.scheduled_task_executions`); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// An application's own trigger that refuses notices keeps no task from being settled.
func TestABrokenTriggerKeepsNoTaskFromBeingSettled(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	settle := begin(t, pool)
	exec(t, settle, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'every task needs a tenant'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION refuse()`)
	exec(t, settle, dieNowSQL, "a", "ONE", nine)
	commit(t, settle)
	if got := ids(t, pool, `SELECT id::text FROM tasktable.scheduled_tasks`); len(got) != 0 {
		t.Errorf("notices %q", got)
	}
}
