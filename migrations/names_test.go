package migrations_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestSchemasOfOtherNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"jobs", "public", "_x9", "tasks_tasktable", strings.Repeat("n", 46)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t)
			pool := emptyPool(ctx, t)
			check(t, migrations.Up(ctx, pool, name))
			migrated(ctx, t, pool, name)
			same(t, "schema", dump(ctx, t, pool, name, true), dump(ctx, t, storetest.Pool(t), "tasktable", true))
			if made := lines(ctx, t, pool, `SELECT nspname::text FROM pg_namespace
				WHERE nspname = 'tasktable'`); len(made) != 0 {
				t.Error("there is a schema tasktable too")
			}
			receipt, err := store.New(store.Config{Schema: name}).Schedule(ctx, pool, store.Task{
				ID: "one", Payload: store.JSON(`{"type":"TEST"}`),
			})
			if err != nil || receipt.Outcome != store.Created {
				t.Errorf("got %+v, %v", receipt, err)
			}
			check(t, migrations.Down(ctx, pool, name))
		})
	}
}

// Two teams share a database and do not meet.
func TestTwoSchemasInOneDatabase(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := emptyPool(ctx, t)
	for _, name := range []string{"team_one", "team_two"} {
		check(t, migrations.Up(ctx, pool, name))
		tasks := store.New(store.Config{Schema: name, Service: name})
		for _, entity := range []string{"event:1", "event:2"} {
			if _, err := tasks.Sync(ctx, pool, entity, store.Task{
				ID: entity, Payload: store.JSON(`{"type":"TEST"}`),
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	same(t, "schema two", dump(ctx, t, pool, "team_two", true), dump(ctx, t, pool, "team_one", true))
	check(t, migrations.Down(ctx, pool, "team_one"))
	migrated(ctx, t, pool, "team_two")
	history, err := store.New(store.Config{Schema: "team_two"}).History(ctx, pool, "event:1")
	if err != nil || len(history.Changes) != 1 || history.Changes[0].ChangedBy != "team_two" {
		t.Errorf("got %+v, %v", history, err)
	}
}

// The migrations make the same of a database whose sessions read strings and write names in another way.
func TestADatabaseWithStylesOfItsOwn(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	plain, own := emptyPool(ctx, t), emptyPool(ctx, t)
	check(t, migrations.Up(ctx, plain, ""))
	for _, style := range []string{
		"standard_conforming_strings = off", "quote_all_identifiers = on", "timezone = 'Europe/Berlin'",
		"datestyle = 'German'", "intervalstyle = 'sql_standard'", "search_path = ''", "idle_session_timeout = '300ms'",
	} {
		_, err := own.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s SET %s",
			pgx.Identifier{own.Config().ConnConfig.Database}.Sanitize(), style))
		check(t, err)
	}
	own.Reset() // new connections have the styles
	check(t, migrations.Up(ctx, own, ""))
	_, err := own.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s RESET ALL",
		pgx.Identifier{own.Config().ConnConfig.Database}.Sanitize()))
	check(t, err)
	own.Reset()
	same(t, "the schema", dump(ctx, t, own, "tasktable", true), dump(ctx, t, plain, "tasktable", true))
}

func TestSchemaNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := emptyPool(ctx, t)
	for name, why := range map[string]string{
		"user": "reserved word", "select": "reserved word", "order": "reserved word", "all": "reserved word",
		"between": "reserved word", "Jobs": "must be 1 to 46", "my jobs": "must be 1 to 46", "1st": "must be 1 to 46",
		`a"b`: "must be 1 to 46", "ü": "must be 1 to 46", strings.Repeat("n", 47): "must be 1 to 46",
	} {
		_, status := migrations.Status(ctx, pool, name)
		for call, err := range map[string]error{
			"Up": migrations.Up(ctx, pool, name), "Down": migrations.Down(ctx, pool, name),
			"Check": migrations.Check(ctx, pool, name), "Status": status,
		} {
			if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), why) ||
				!strings.Contains(err.Error(), "schema") {
				t.Errorf("%s(%s): %v", call, name, err)
			}
		}
		if why != "reserved word" {
			if err := migrations.Print(io.Discard, name); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("Print(%s): %v", name, err)
			}
		}
	}
	if err := migrations.Up(ctx, pool, "pg_jobs"); err == nil ||
		!strings.Contains(err.Error(), `unacceptable schema name "pg_jobs"`) {
		t.Errorf("a name of Postgres's own: %v", err)
	}
}
