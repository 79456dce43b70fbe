package week

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const schema = "tasktable_demo"

func open(t *testing.T) (*pgxpool.Pool, time.Time) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := migrations.Up(t.Context(), pool, schema); err != nil {
		t.Fatal(err)
	}
	if err := community.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	var now time.Time
	if err := pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	return pool, now
}

func TestFill(t *testing.T) {
	pool, now := open(t)
	began := time.Now()
	if err := Fill(t.Context(), pool, schema, now, 7); err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(began))
	var n [3]int
	pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM tasktable_demo.scheduled_tasks),(SELECT count(*) FROM tasktable_demo.scheduled_task_executions), (SELECT count(*) FROM tasktable_demo.scheduled_task_changes)`).Scan(&n[0], &n[1], &n[2])
	t.Log(n)
}
