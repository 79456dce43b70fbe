package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// limit bounds each test. It is reached only where something hangs.
const limit = 2 * time.Minute

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// emptyPool is a pool on a database of the test's own in which nothing is.
func emptyPool(ctx context.Context, t *testing.T) *pgxpool.Pool {
	t.Helper()
	return poolOn(ctx, t, storetest.EmptyURL(t), 4)
}

func poolOn(ctx context.Context, t *testing.T, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	check(t, err)
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	check(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// succeeds returns a function that ends the test if a call has failed.
func succeeds(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		check(t, err)
	}
}

func apply(ctx context.Context, t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// lines reads one column of text.
func lines(ctx context.Context, t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(ctx, sql, args...)
	check(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	return found
}

// migrated demands that nothing is left to do in a schema.
func migrated(ctx context.Context, t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	if err := migrations.Check(ctx, pool, schema); err != nil {
		t.Errorf("check: %v", err)
	}
	versions, err := migrations.Status(ctx, pool, schema)
	check(t, err)
	sources := map[string]int{}
	for _, version := range versions {
		sources[version.Source]++
		if !version.Applied || version.Name == "" {
			t.Errorf("not applied: %+v", version)
		}
	}
	names, err := migrations.Names()
	check(t, err)
	if sources["tasktable"] != len(names) || sources["river"] == 0 || len(sources) != 2 {
		t.Errorf("%d migration files, but in the status: %v", len(names), sources)
	}
	newest, err := migrations.Newest()
	check(t, err)
	if newest.Own != int64(sources["tasktable"]) || newest.River != int64(sources["river"]) {
		t.Errorf("the newest are %+v, but in the status: %v", newest, sources)
	}
}
