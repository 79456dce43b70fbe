package store_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/seal"
)

// A variable of a connection that nobody has set is refused by every call, instead of a panic.
func TestNilConnections(t *testing.T) {
	t.Parallel()
	var (
		tx    pgx.Tx
		pool  *pgxpool.Pool
		sqlTx *sql.Tx
	)
	tasks, inspector := store.New(store.Config{}), inspect.New(store.Config{})
	for name, db := range map[string]store.DB{
		"nil": nil, "pgx.Tx": tx, "*pgxpool.Pool": pool, "*sql.Tx": store.SQL(sqlTx), "of database/sql": store.SQL(nil),
	} {
		_, scheduled := tasks.Schedule(t.Context(), db, base("one"))
		_, many := tasks.ScheduleMany(t.Context(), db, []store.Task{base("one")})
		_, synced := tasks.Sync(t.Context(), db, "event:1", base("one"))
		_, cancelled := tasks.Cancel(t.Context(), db, "one")
		_, read := tasks.Get(t.Context(), db, "one")
		_, listed := inspector.List(t.Context(), db, inspect.Filter{})
		_, reconciled := tasks.Reconcile(t.Context(), tx, store.ReconcileConfig{Type: "TEST"})
		for call, err := range map[string]error{
			"Schedule": scheduled, "ScheduleMany": many, "Sync": synced, "Cancel": cancelled, "Get": read,
			"List": listed, "Reconcile": reconciled,
		} {
			if !errors.Is(err, store.ErrInvalid) ||
				!strings.Contains(err.Error(), "db must be a connection or a transaction") {
				t.Errorf("%s on %s: %v", call, name, err)
			}
		}
	}
}

// A pointer that is nil is a Codec that is not nil. It is refused before it panics.
func TestNilCodecs(t *testing.T) {
	t.Parallel()
	b := benchOn(t, nil)
	var none *seal.Codec
	for name, codec := range map[string]store.Codec{
		"a *seal.Codec that is nil": none, "a *seal.Codec that is nil as number 2": store.Codecs(secret(t, 1), none),
		"a <nil> that is nil as number 1": store.Codecs(nil),
	} {
		config := store.Config{Codec: codec}
		tasks := store.New(config)
		_, scheduled := tasks.Schedule(b.Ctx, noDB(b), base("one"))
		_, many := tasks.ScheduleMany(b.Ctx, noDB(b), []store.Task{base("one")})
		_, payload := tasks.Payload(b.Ctx, store.Row{Payload: []byte(`{"type":"TEST","$codec":"x","$data":""}`)})
		_, listed := inspect.New(config).List(b.Ctx, noDB(b), inspect.Filter{})
		for call, err := range map[string]error{
			"Check": config.Check(), "Schedule": scheduled, "ScheduleMany": many, "Payload": payload,
			"List": listed,
		} {
			if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "codec must not be ") ||
				!strings.HasSuffix(err.Error(), ", got "+name) {
				t.Errorf("%s with %s: %v", call, name, err)
			}
		}
	}
	if err := (store.Config{Codec: store.Codecs(secret(t, 2), secret(t, 1))}).Check(); err != nil {
		t.Error(err)
	}
}
