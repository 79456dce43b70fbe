package store_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// collated returns a pool on a migrated database that sorts texts as people do: a before B.
func collated(t *testing.T) *pgxpool.Pool {
	t.Helper()
	ctx := context.Background() // also for the end of the test
	base := storetest.EmptyURL(t)
	admin, err := pgxpool.New(ctx, base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	var name string
	if err := admin.QueryRow(ctx, `SELECT current_database() || '_collated'`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	for _, collation := range []string{ // ICU is for databases since Postgres 15
		`LOCALE_PROVIDER icu ICU_LOCALE 'en-US'`, `LC_COLLATE 'en_US.UTF-8' LC_CTYPE 'en_US.UTF-8'`,
	} {
		if _, err = admin.Exec(ctx, `CREATE DATABASE "`+name+`" TEMPLATE template0 ENCODING 'UTF8' `+collation); err == nil {
			break
		}
	}
	if err != nil {
		t.Skipf("the server has no collation but C: %v", err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(ctx, `DROP DATABASE "`+name+`" WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	there, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	there.Path = "/" + name
	pool, err := pgxpool.New(ctx, there.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := migrations.Up(ctx, pool, ""); err != nil {
		t.Fatal(err)
	}
	return pool
}

// The order of pauses is the same in each database, so that clients and tests can rely on it.
func TestPausesDoNotDependOnTheCollation(t *testing.T) {
	t.Parallel()
	b := benchOn(t, collated(t))
	for _, name := range []string{"aa", "BB", "_x", "A-b", "Ab"} {
		b.succeeds(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Type(name), time.Time{}, ""))
	}
	var names []string
	for _, pause := range b.paused() {
		names = append(names, pause.Name)
	}
	sorted := func(collation string) string {
		return one[string](b, b.Pool, `SELECT string_agg(name, ' ' ORDER BY name `+collation+`) FROM tasktable.pauses`)
	}
	if got := strings.Join(names, " "); got != "A-b Ab BB _x aa" || got != sorted(`COLLATE "C"`) {
		t.Errorf("the order is %s", got)
	}
	if sorted("") == sorted(`COLLATE "C"`) {
		t.Error("the database sorts as C does, so this test shows nothing")
	}
}
