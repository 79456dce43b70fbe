package migrations_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
)

// The nine migrations before the first release made the same tables with other numbers. A schema of theirs at version 9
// is not one of a newer release, and one at version 5 is not complete.
func TestSchemasBeforeTheFirstReleaseAreRefused(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := emptyPool(ctx, t)
	apply(ctx, t, pool, `CREATE SCHEMA tasktable;
		CREATE TABLE tasktable.scheduled_tasks (id text, payload jsonb, type text, entity text, tenant_id text,
			queue text, status text, priority integer, scheduled_at timestamptz, run_now_at timestamptz,
			expiration interval,
			expected_execution_time interval);
		INSERT INTO tasktable.scheduled_tasks (id) VALUES ('kept');
		CREATE TABLE tasktable.goose_db_version (
			id serial, version_id bigint, is_applied boolean, tstamp timestamp DEFAULT now());
		INSERT INTO tasktable.goose_db_version (version_id, is_applied) SELECT n, true FROM generate_series(0, 9) AS n`)
	before := dump(ctx, t, pool, "tasktable", true)
	for name, call := range map[string]func(context.Context, *pgxpool.Pool, string) error{
		"Up": migrations.Up, "Down": migrations.Down, "Check": migrations.Check,
		"Status": func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
			_, err := migrations.Status(ctx, pool, schema)
			return err
		},
	} {
		err := call(ctx, pool, "")
		if !errors.Is(err, migrations.ErrPrerelease) || errors.Is(err, migrations.ErrUnmigrated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	same(t, "schema", dump(ctx, t, pool, "tasktable", true), before)
	if kept := lines(ctx, t, pool, `SELECT id FROM tasktable.scheduled_tasks`); len(kept) != 1 {
		t.Errorf("tasks after the refusals: %v", kept)
	}
}
