package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// RolePassword is the password of all roles that [Role] makes.
const RolePassword = "only-for-this-test"

// Role makes a database role that may do nothing but log in with [RolePassword]. The role is dropped when t ends. It
// has a unique name, because roles belong to the whole server.
//
// Call Role before you ask for the database in which the role gets rights. Cleanups run in reverse order, and
// Postgres cannot drop a role that still has rights somewhere. The test is skipped if its database user may not
// create roles.
func Role(t testing.TB) (name string) {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("storetest: no Postgres for tests: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	name = fmt.Sprintf("tasktable_test_%016x", rand.Uint64())
	_, err = s.admin.Exec(ctx,
		`CREATE ROLE `+name+` LOGIN PASSWORD '`+RolePassword+`' NOSUPERUSER NOCREATEDB NOCREATEROLE`)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" { // insufficient_privilege
		t.Skip("the tests' role may not create roles")
	}
	if err != nil {
		t.Fatalf("storetest: creating a role: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		if _, err := s.admin.Exec(ctx, `DROP ROLE IF EXISTS `+name); err != nil {
			t.Errorf("storetest: dropping the role: %v", err)
		}
	})
	return name
}
