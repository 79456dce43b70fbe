package keys_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fails(t *testing.T, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %v with %q", err, want, text)
	}
}

func apply(ctx context.Context, t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func reader(name string) keys.NewKey { return keys.NewKey{Name: name, Scopes: []keys.Scope{keys.Read}} }

// withRoles is a database on which the script of the roles has run, and a pool that is logged in as the engine's role.
type withRoles struct {
	roles         migrations.Roles
	admin, engine *pgxpool.Pool
	keys          *keys.Keys
}

func newWithRoles(ctx context.Context, t *testing.T) *withRoles {
	t.Helper()
	w := &withRoles{roles: migrations.Roles{ // before the database, in which they have rights
		Owner: storetest.Role(t), Engine: storetest.Role(t), Application: storetest.Role(t), Auditor: storetest.Role(t),
		Tenant: storetest.Role(t),
	}}
	w.admin = storetest.Pool(t)
	w.grant(ctx, t)
	w.engine = as(ctx, t, w.admin, w.roles.Engine)
	w.keys = keys.New(keys.Config{TenantRole: w.roles.Tenant})
	return w
}

func (w *withRoles) grant(ctx context.Context, t *testing.T) {
	t.Helper()
	var script strings.Builder
	check(t, migrations.PrintRoles(&script, "", w.roles))
	_, err := w.admin.Exec(ctx, script.String(), pgx.QueryExecModeSimpleProtocol)
	check(t, err)
}

func as(ctx context.Context, t *testing.T, admin *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	address, err := url.Parse(admin.Config().ConnString())
	check(t, err)
	address.User = url.UserPassword(role, storetest.RolePassword)
	pool, err := pgxpool.New(ctx, address.String())
	check(t, err)
	t.Cleanup(pool.Close)
	return pool
}
