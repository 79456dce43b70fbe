package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// entry is how the transaction of a call is held to a tenant.
type entry struct {
	schema store.Schema
	role   string
}

const tenantRoleSQL = `
SELECT CASE
    WHEN to_regrole(quote_ident($1::text)) IS NULL THEN 'it does not exist'
    WHEN NOT EXISTS (SELECT FROM tasktable.applications AS a WHERE a.role = $1::text AND a.by_tenant)
        OR NOT (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = 'tasktable.scheduled_tasks'::regclass)
        THEN 'it has no rights in the schema'
    -- SET ROLE asks for the right of the role that has logged in.
    WHEN NOT pg_has_role(session_user, $1::text::name,
        CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END)
        THEN format('role %I is not a member of it', session_user)
    ELSE '' END AS reason`

// checkTenantRole returns an error that wraps ErrNoTenantRole if a transaction on db cannot take the role of tenants.
func (k *Keys) checkTenantRole(ctx context.Context, db store.DB) error {
	rows, err := collect[struct{ Reason string }](ctx, k.schema, db, tenantRoleSQL, k.entry.role)
	switch {
	case err != nil:
		return fmt.Errorf("look at the role of tenants: %w", err)
	case len(rows) == 1 && rows[0].Reason == "":
		return nil
	case len(rows) == 1:
		return noTenantRole(k.entry.role, errors.New(rows[0].Reason))
	}
	return fmt.Errorf("look at the role of tenants: %d answers instead of one", len(rows))
}

func noTenantRole(role string, reason error) error {
	return fmt.Errorf("%w: %q: %w: run the SQL of \"tasktable migrate roles\"", ErrNoTenantRole, role, reason)
}

// The columns are evaluated in their order: the role is read before it is set.
const enterSQL = `
SELECT set_config('tasktable.former_role', current_setting('role'), true) AS former,
    set_config('tasktable.tenant', $1::text, true) AS tenant, set_config('role', $2::text, true) AS role`

// Enter holds the transaction to the tenant of the key, from now until Leave or the end of the transaction: Postgres
// then shows and changes tasks of this tenant alone, and refuses everything that a tenant must not do. It takes one
// round trip. For a key without a tenant it does nothing.
//
// Call it before the first statement that is about tasks. Do not enter within a savepoint, because a rollback to the
// savepoint would undo it. The error wraps ErrNoTenantRole if the role of tenants is missing or must not be taken.
func (k Key) Enter(ctx context.Context, tx pgx.Tx) error {
	if k.TenantID == "" {
		return nil
	}
	if k.entry.role == "" {
		return fmt.Errorf("enter tenant: key %s does not come from Keys", k.Name)
	}
	var former, tenant, role string
	err := tx.QueryRow(ctx, k.entry.schema.SQL(enterSQL), k.TenantID, k.entry.role).Scan(&former, &tenant, &role)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && (refused.Code == "22023" || refused.Code == "42501"):
		// The role does not exist, or membership is missing.
		return fmt.Errorf("enter tenant: %w", noTenantRole(k.entry.role, err))
	case err != nil:
		return fmt.Errorf("enter tenant: %w", err)
	case tenant != k.TenantID || role != k.entry.role:
		return fmt.Errorf("enter tenant: the transaction has role %q and another tenant", role)
	}
	return nil
}

const leaveSQL = `
SELECT set_config('role', current_setting('tasktable.former_role'), true), set_config('tasktable.tenant', '', true)`

// Leave undoes Enter within the transaction, for statements that a tenant may not run, such as writing the answer of a
// call with an Idempotency-Key. For a key without a tenant it does nothing.
func (k Key) Leave(ctx context.Context, tx pgx.Tx) error {
	if k.TenantID == "" {
		return nil
	}
	if _, err := tx.Exec(ctx, k.entry.schema.SQL(leaveSQL)); err != nil {
		return fmt.Errorf("leave tenant: %w", err)
	}
	return nil
}
