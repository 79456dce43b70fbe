package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

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
	reason, err := pg.QueryOne[string](
		ctx, db, "look at the role of tenants", k.schema.SQL(tenantRoleSQL), k.tenantRole)
	if err != nil || reason == "" {
		return err
	}
	return k.noTenantRole(errors.New(reason))
}

func (k *Keys) noTenantRole(reason error) error {
	command := "tasktable migrate roles"
	if k.schema.String() != store.DefaultSchema {
		command += " --schema " + k.schema.String()
	}
	if k.tenantRole != k.schema.String()+"_tenant" {
		command += " --tenant-role " + k.tenantRole
	}
	return fmt.Errorf(`%w: %q: %w: run %s | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"`, ErrNoTenantRole, k.tenantRole,
		reason, command)
}

// The columns are evaluated in their order: the role is read before it is set.
const enterSQL = `
SELECT set_config('tasktable.former_role', current_setting('role'), true) AS former,
    set_config('tasktable.tenant', $1::text, true) AS tenant, set_config('role', $2::text, true) AS role`

// Enter holds the transaction to a tenant, from now until Leave or the end of the transaction: Postgres then shows and
// changes tasks of this tenant alone, and refuses everything that a tenant must not do. It takes one round trip.
//
// Call it before the first statement that is about tasks. Do not enter within a savepoint, because a rollback to the
// savepoint would undo it. The error wraps ErrNoTenantRole if the role of tenants is missing or must not be taken.
func (k *Keys) Enter(ctx context.Context, tx pgx.Tx, tenant string) error {
	if k.err != nil {
		return fmt.Errorf("enter tenant: %w", k.err)
	}
	if tenant == "" {
		return fmt.Errorf("enter tenant: %w", invalid("tenant must not be empty"))
	}
	var former, entered, role string
	err := tx.QueryRow(ctx, k.schema.SQL(enterSQL), tenant, k.tenantRole).Scan(&former, &entered, &role)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && (refused.Code == "22023" || refused.Code == "42501"):
		// The role does not exist, or membership is missing.
		return fmt.Errorf("enter tenant: %w", k.noTenantRole(err))
	case err != nil:
		return fmt.Errorf("enter tenant: %w", err)
	case entered != tenant || role != k.tenantRole:
		return fmt.Errorf("enter tenant: the transaction has role %q and another tenant", role)
	}
	return nil
}

const bindSQL = `
SELECT set_config('tasktable.types', $1::text, true), set_config('tasktable.queues', $2::text, true)`

// Bind binds the transaction to types and queues. Until its end Postgres refuses to change a task of another type or
// queue. An empty list means all, except that Enter alone leaves out the types that NewKey.Types names. It takes one
// round trip.
func (k *Keys) Bind(ctx context.Context, tx pgx.Tx, types, queues []string) error {
	if k.err != nil {
		return fmt.Errorf("bind to types and queues: %w", k.err)
	}
	_, err := tx.Exec(ctx, k.schema.SQL(bindSQL), strings.Join(types, ","), strings.Join(queues, ","))
	if err != nil {
		return fmt.Errorf("bind to types and queues: %w", err)
	}
	return nil
}

// Unbound returns the column, type or queue, for which the database has refused to change a task after Bind or Enter,
// and a sentence about it. It returns two empty texts for each other error.
func Unbound(err error) (column, text string) {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" && // insufficient_privilege
		(refused.ColumnName == "type" || refused.ColumnName == "queue") {
		return refused.ColumnName, refused.Message
	}
	return "", ""
}

const leaveSQL = `
SELECT set_config('role', current_setting('tasktable.former_role'), true), set_config('tasktable.tenant', '', true)`

// Leave undoes Enter within the transaction, for statements that a tenant may not run, such as writing the answer of a
// call with an Idempotency-Key.
func (k *Keys) Leave(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, k.schema.SQL(leaveSQL)); err != nil {
		return fmt.Errorf("leave tenant: %w", err)
	}
	return nil
}
