package migrations_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func as(ctx context.Context, t *testing.T, role, database string) *pgxpool.Pool {
	t.Helper()
	address, err := url.Parse(database)
	check(t, err)
	address.User = url.UserPassword(role, storetest.RolePassword)
	return poolOn(ctx, t, address.String(), 2)
}

func TestMigratingAsAPlainRole(t *testing.T) {
	t.Parallel()
	for name, grant := range map[string]string{
		"owner of the database": `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO ROLE',
			current_database()); END $$`,
		"may create in the database": `DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO ROLE',
			current_database()); END $$`,
		"owner of the schema alone":      `CREATE SCHEMA tasktable AUTHORIZATION ROLE`,
		"may create in the schema alone": `CREATE SCHEMA tasktable; GRANT USAGE, CREATE ON SCHEMA tasktable TO ROLE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t)
			role := storetest.Role(t)
			database := storetest.EmptyURL(t)
			admin := poolOn(ctx, t, database, 1)
			apply(ctx, t, admin, strings.ReplaceAll(grant, "ROLE", role))
			pool := as(ctx, t, role, database)
			check(t, migrations.Up(ctx, pool, ""))
			migrated(ctx, t, pool, "")
			same(t, "schema", dump(ctx, t, pool, "tasktable", true), dump(ctx, t, storetest.Pool(t), "tasktable", true))
			receipt, err := store.New(store.Config{}).Schedule(ctx, pool, store.Task{
				ID: "one", Payload: store.JSON(`{"type":"TEST"}`),
			})
			if err != nil || receipt.Outcome != store.Created {
				t.Errorf("schedule: %+v, %v", receipt, err)
			}
			same(t, "author", lines(ctx, t, pool, `SELECT changed_by FROM tasktable.scheduled_task_changes`)[0], role)
			check(t, migrations.Down(ctx, pool, ""))
			check(t, migrations.Up(ctx, pool, ""))
		})
	}
}

func TestARoleThatMayNotCreateIsToldSo(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	role := storetest.Role(t)
	err := migrations.Up(ctx, as(ctx, t, role, storetest.EmptyURL(t)), "")
	if err == nil || !strings.Contains(err.Error(), "create schema tasktable: ") ||
		!strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %v", err)
	}
}
