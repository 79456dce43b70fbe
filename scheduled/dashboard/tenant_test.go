package dashboard_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store/storetest"
)

// newRoles returns the roles of `tasktable migrate roles`, and a change that makes a dashboard hold tenants by them. The
// roles are older than the dashboard's database, because they cannot be dropped before it.
func newRoles(t *testing.T) (roles migrations.Roles, change func(*dashboard.Config)) {
	t.Helper()
	roles = migrations.Roles{
		Owner: storetest.Role(t), Engine: storetest.Role(t), Application: storetest.Role(t), Auditor: storetest.Role(t),
		Tenant: storetest.Role(t),
	}
	return roles, func(c *dashboard.Config) {
		var script strings.Builder
		if err := migrations.PrintRoles(&script, "", roles); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Pool.Exec(t.Context(), script.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		c.Keys = keys.New(keys.Config{TenantRole: roles.Tenant})
	}
}

// newTenant is a board on the roles of `tasktable migrate roles`. acme-ops, who may operate, is signed in with a key of
// the tenant acme. The board's pool is that of the roles' owner.
func newTenant(t *testing.T) *board {
	t.Helper()
	var owner *pgxpool.Pool
	var secret string
	roles, withRoles := newRoles(t)
	b := newBoard(t, withRoles, func(c *dashboard.Config) {
		owner = c.Pool
		address, err := url.Parse(c.Pool.Config().ConnString())
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.UserPassword(roles.Engine, storetest.RolePassword)
		if c.Pool, err = pgxpool.New(t.Context(), address.String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Pool.Close)
		secret, _, err = c.Keys.Create(t.Context(), c.Pool, keys.NewKey{
			Name: "acme-ops", TenantID: "acme", Scopes: []keys.Scope{keys.Read, keys.Schedule, keys.Operate},
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	b.pool = owner
	b.post("/sign-in", "key", secret)
	return b
}
