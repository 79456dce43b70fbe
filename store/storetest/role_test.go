package storetest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
)

func TestRoleLogsInAndMayNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var role string
	t.Run("while the test runs", func(t *testing.T) {
		role = storetest.Role(t)
		config, err := pgx.ParseConfig(storetest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		config.User, config.Password = role, storetest.RolePassword
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(ctx) })
		var name string
		var allowed bool
		if err := conn.QueryRow(ctx, `SELECT current_user, rolsuper OR rolcreatedb OR rolcreaterole
			OR has_schema_privilege('tasktable', 'USAGE')
			FROM pg_roles WHERE rolname = current_user`).Scan(&name, &allowed); err != nil || name != role || allowed {
			t.Errorf("%q, more than to log in: %t, %v", name, allowed, err)
		}
	})
	conn, err := pgx.Connect(ctx, storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	var left int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_roles WHERE rolname = $1`, role).Scan(&left); err != nil ||
		left != 0 {
		t.Errorf("the role is left after its test: %d, %v", left, err)
	}
}
