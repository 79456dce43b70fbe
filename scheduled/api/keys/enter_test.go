package keys_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func ofTenant(name, tenant string) keys.NewKey {
	return keys.NewKey{Name: name, Scopes: keys.Scopes(), TenantID: tenant}
}

func taskOf(id, tenant string) store.Task {
	return store.Task{ID: id, Payload: store.JSON(`{"type":"TEST"}`), TenantID: tenant}
}

// within runs statements in a transaction that a key has entered.
func within(ctx context.Context, t *testing.T, w *withRoles, key keys.Key, do func(pgx.Tx) error) {
	t.Helper()
	check(t, pgx.BeginFunc(ctx, w.engine, func(tx pgx.Tx) error {
		if err := w.keys.Enter(ctx, tx, key.TenantID); err != nil {
			return err
		}
		return do(tx)
	}))
}

func idsOf(ctx context.Context, t *testing.T, db store.DB) string {
	t.Helper()
	rows, err := db.Query(ctx, `SELECT id::text FROM tasktable.scheduled_tasks ORDER BY id::text COLLATE "C"`)
	check(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	return strings.Join(ids, " ")
}

func TestATenantsTransaction(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newWithRoles(ctx, t)
	tasks := store.New(store.Config{Service: "api"})
	secret, _, err := w.keys.Create(ctx, w.engine, ofTenant("acme", "acme"))
	check(t, err)
	acme, err := w.keys.Authenticate(ctx, w.engine, secret)
	check(t, err)
	_, globex, err := w.keys.Create(ctx, w.engine, ofTenant("globex", "globex"))
	check(t, err)

	within(ctx, t, w, acme, func(tx pgx.Tx) error {
		_, err := tasks.Schedule(ctx, tx, taskOf("a", "acme"))
		return err
	})
	within(ctx, t, w, globex, func(tx pgx.Tx) error {
		_, err := tasks.Schedule(ctx, tx, taskOf("g", "globex"))
		return err
	})
	within(ctx, t, w, acme, func(tx pgx.Tx) error {
		same(t, idsOf(ctx, t, tx), "a")
		receipt, err := tasks.Cancel(ctx, tx, "g")
		if receipt.Outcome != store.Absent {
			t.Errorf("another tenant's task: %+v", receipt)
		}
		return err
	})
	// Within the transaction it can be left, for what a tenant must not write.
	within(ctx, t, w, acme, func(tx pgx.Tx) error {
		const answer = `INSERT INTO tasktable.api_answers (caller, idempotency_key, request_hash, answer)
			VALUES ($1, 'x', '', '{}')`
		var refused *pgconn.PgError
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
			_, err := savepoint.Exec(ctx, answer, acme.Name)
			return err
		})
		if !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("an answer by the tenant: %v", err)
		}
		if err := w.keys.Leave(ctx, tx); err != nil {
			return err
		}
		same(t, idsOf(ctx, t, tx), "a g")
		_, err = tx.Exec(ctx, answer, acme.Name)
		return err
	})
	// The connection keeps nothing of it, after a commit or a rollback.
	conn, err := w.engine.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	for _, end := range []error{nil, errors.New("rollback")} {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			check(t, w.keys.Enter(ctx, tx, "acme"))
			return end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
		var role, tenant string
		check(t, conn.QueryRow(ctx, `SELECT current_user, coalesce(current_setting('tasktable.tenant', true), '')`).
			Scan(&role, &tenant))
		same(t, role+" "+tenant, w.roles.Engine+" ")
	}
	// A session that has taken a role before gets it back.
	_, err = conn.Exec(ctx, `SET ROLE `+w.roles.Tenant)
	check(t, err)
	check(t, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		check(t, w.keys.Enter(ctx, tx, "acme"))
		check(t, w.keys.Leave(ctx, tx))
		var role string
		err := tx.QueryRow(ctx, `SELECT current_user`).Scan(&role)
		same(t, role, w.roles.Tenant)
		return err
	}))
	_, err = conn.Exec(ctx, `RESET ROLE`)
	check(t, err)
}

// A key of a tenant without the role of tenants would have the tasks of all, so it neither comes to be nor gets in.
func TestTenantsNeedTheirRole(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	stranger := storetest.Role(t)
	w := newWithRoles(ctx, t)
	_, key, err := w.keys.Create(ctx, w.engine, ofTenant("acme", "acme"))
	check(t, err)
	apply(ctx, t, w.admin, `GRANT USAGE ON SCHEMA tasktable TO `+stranger+`; GRANT ALL ON tasktable.api_keys,
		tasktable.applications, tasktable.scheduled_tasks TO `+stranger)
	other := as(ctx, t, w.admin, stranger)
	_, _, err = w.keys.Create(ctx, other, ofTenant("b", "acme"))
	fails(t, err, keys.ErrNoTenantRole,
		"role "+stranger+` is not a member of it: run tasktable migrate roles --tenant-role `+
			w.roles.Tenant+` | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"`)
	tx, err := other.Begin(ctx)
	check(t, err)
	fails(t, w.keys.Enter(ctx, tx, key.TenantID), keys.ErrNoTenantRole, w.roles.Tenant)
	check(t, tx.Rollback(ctx))

	for role, want := range map[string]string{
		"nobody_has_this_role": "it does not exist", stranger: "it has no rights in the schema",
	} {
		lacking := keys.New(keys.Config{TenantRole: role})
		_, _, err = lacking.Create(ctx, w.admin, ofTenant("b", "acme"))
		fails(t, err, keys.ErrNoTenantRole, want)
	}
	missing := keys.New(keys.Config{TenantRole: "nobody_has_this_role"})
	list, err := missing.List(ctx, w.engine, false)
	check(t, err)
	same(t, names(ctx, t, missing, w.engine, true), "acme")
	tx, err = w.engine.Begin(ctx)
	check(t, err)
	fails(t, missing.Enter(ctx, tx, list[0].TenantID), keys.ErrNoTenantRole, "nobody_has_this_role")
	check(t, tx.Rollback(ctx))
	tx, err = w.engine.Begin(ctx)
	check(t, err)
	fails(t, w.keys.Enter(ctx, tx, ""), store.ErrInvalid, "tenant must not be empty")
	check(t, tx.Rollback(ctx))
}
