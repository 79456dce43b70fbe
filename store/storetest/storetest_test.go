package storetest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

func TestURLGivesEachTestItsOwnMigratedDatabase(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			conn, err := pgx.Connect(ctx, storetest.URL(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close(ctx) })
			if _, err := conn.Exec(ctx, "CREATE TABLE mine (id int)"); err != nil {
				t.Fatal("another test's table is here:", err)
			}
			var migrated bool
			if err := conn.QueryRow(
				ctx, "SELECT to_regclass('tasktable.scheduled_tasks') IS NOT NULL",
			).Scan(&migrated); err != nil {
				t.Fatal(err)
			}
			if !migrated {
				t.Fatal("there is no scheduled_tasks")
			}
		})
	}
}

func TestPoolIsUsable(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	var tasks int
	if err := pool.QueryRow(
		context.Background(), "SELECT count(*) FROM tasktable.scheduled_tasks",
	).Scan(&tasks); err != nil {
		t.Fatal(err)
	}
}

func TestEmptyURLIsNotMigrated(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	var schemas int
	if err := conn.QueryRow(
		ctx, "SELECT count(*) FROM pg_namespace WHERE nspname = 'tasktable'",
	).Scan(&schemas); err != nil {
		t.Fatal(err)
	}
	if schemas != 0 {
		t.Fatal("the schema tasktable is there")
	}
}
