package statement_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/statement"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

var tasks = store.New(store.Config{Service: "shop"})

// patience is how long a test waits for an event.
const patience = time.Minute

func newRegistry(statements map[string]statement.Statement) (*handlers.Registry, error) {
	variant, err := statement.Variant(statement.Config{Statements: statements})
	if err != nil {
		return nil, err
	}
	return handlers.NewRegistry(variant)
}

// shop is a database with a table of sessions.
func shop(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := storetest.Pool(t)
	mustExec(t, pool, `CREATE TABLE public.sessions (id bigint PRIMARY KEY, seen_at timestamptz, note text)`)
	mustExec(t, pool, `INSERT INTO sessions SELECT n, now() - n * interval '1 day', 'n' || n
		FROM generate_series(1, 10) AS n`)
	return pool
}

func mustExec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func count(t *testing.T, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// runNode runs a node with the statements until the test ends.
func runNode(t *testing.T, pool *pgxpool.Pool, statements map[string]statement.Statement) {
	t.Helper()
	registry, err := newRegistry(statements)
	if err != nil {
		t.Fatal(err)
	}
	node, err := scheduled.New(scheduled.Config{Pool: pool, Handlers: registry, Version: "test",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := node.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// scheduleJSON schedules a task with one attempt.
func scheduleJSON(t *testing.T, pool *pgxpool.Pool, id, payload string) {
	t.Helper()
	task := store.Task{ID: id, Payload: store.JSON(payload), MaxAttempts: 1}
	if _, err := tasks.Schedule(t.Context(), pool, task); err != nil {
		t.Fatal(err)
	}
}

// end waits until the task has ended.
func end(t *testing.T, pool *pgxpool.Pool, id string) store.Row {
	t.Helper()
	return becomes(t, pool, id, func(row store.Row) bool { return row.FinishedAt != nil })
}

// becomes waits until the row of the task is as wanted.
func becomes(t *testing.T, pool *pgxpool.Pool, id string, wanted func(store.Row) bool) store.Row {
	t.Helper()
	deadline, look := time.After(patience), time.NewTicker(10*time.Millisecond)
	defer look.Stop()
	for {
		row, err := tasks.Get(t.Context(), pool, id)
		if err != nil {
			t.Fatal(err)
		}
		if wanted(row) {
			return row
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s: %+v", id, row)
		}
	}
}

func message(row store.Row) string {
	if row.Message == nil {
		return ""
	}
	return fmt.Sprint(*row.Message)
}
