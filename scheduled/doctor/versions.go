package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/tasktable/tasktable/migrations"
)

// oldestPostgres and newestPostgres are the versions of Postgres that Tasktable is tested with.
const (
	oldestPostgres = 14
	newestPostgres = 18
)

// versionsSQL reads only the catalogs, so that it works for a role without rights in the schema.
const versionsSQL = `
SELECT current_setting('server_version') AS name, current_setting('server_version_num')::int / 10000 AS major,
    EXISTS (SELECT 1 FROM pg_namespace AS n WHERE n.nspname = $1::text) AS schema,
    coalesce((SELECT has_schema_privilege(n.oid, 'USAGE') FROM pg_namespace AS n WHERE n.nspname = $1::text),
    false) AS usable,
    (SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1::text AND c.relname IN ('goose_db_version', 'river_migration')
            AND c.relkind = 'r')::int AS tables`

type versionsRow struct {
	Name   string
	Major  int
	Schema bool
	Usable bool
	Tables int
}

const appliedSQL = `
SELECT (SELECT coalesce(max(g.version_id), 0) FROM tasktable.goose_db_version AS g WHERE g.is_applied) AS own,
    (SELECT coalesce(max(m.version), 0) FROM tasktable.river_migration AS m WHERE m.line = 'main') AS river`

type appliedRow struct{ Own, River int64 }

// postgres checks the version of the server.
func (e *examination) postgres(found versionsRow) {
	switch {
	case found.Major < oldestPostgres:
		e.fail(fmt.Sprintf("upgrade to Postgres %d or later", oldestPostgres), "Postgres %s is older than %d",
			found.Name, oldestPostgres)
	case found.Major > newestPostgres:
		e.info("", "Postgres %s is newer than %d, the newest that this version is tested with",
			found.Name, newestPostgres)
	default:
		e.ok("Postgres %s", found.Name)
	}
}

// versions checks the versions of Postgres, of the schema and of River.
func (e *examination) versions(ctx context.Context) error {
	found, err := row[versionsRow](ctx, e, versionsSQL, e.schema.String())
	if err != nil {
		return err
	}
	e.postgres(found)
	switch {
	case !found.Schema:
		e.unmigrated = true
		e.fail(e.command("migrate"), "there is no schema %s; checks of its tables are left out", e.schema)
		return nil
	case !found.Usable:
		e.unmigrated = true
		e.fail(e.sql("GRANT USAGE ON SCHEMA tasktable TO %s",
			named(e.report.Role))+" or, with rights for each purpose: "+e.command("migrate roles"),
			"role %s has no right in schema %s; checks of its tables are left out", e.report.Role, e.schema)
		return nil
	case found.Tables < 2:
		e.unmigrated = true
		e.fail(e.command("migrate"),
			"schema %s is not migrated, or not to the end; checks of its tables are left out", e.schema)
		return nil
	}
	switch err := migrations.CheckReleased(ctx, e.tx, e.schema); {
	case errors.Is(err, migrations.ErrPrerelease):
		e.unmigrated = true
		e.fail(e.sql("DROP SCHEMA tasktable CASCADE")+" once the tasks that you need are saved; then "+
			e.command("migrate"),
			"schema %s was made before the first release, and cannot be brought to this version", e.schema)
		return nil
	case err != nil:
		return err
	}
	applied, err := row[appliedRow](ctx, e, appliedSQL)
	if err != nil {
		return err
	}
	newest, err := migrations.Newest()
	if err != nil {
		return err
	}
	e.compareSchema("the schema", applied.Own, newest.Own)
	e.compareSchema("River's part of the schema", applied.River, newest.River)
	e.otherVersion = applied.Own != newest.Own || applied.River != newest.River
	return nil
}

func (e *examination) compareSchema(what string, is, wanted int64) {
	switch {
	case is < wanted:
		e.fail(e.command("migrate"), "%s is at version %d, and this program is of %d: its nodes do not start",
			what, is, wanted)
	case is > wanted:
		e.info("", "%s is at version %d, newer than this program's %d, and serves it all the same", what, is, wanted)
	default:
		e.ok("%s is at version %d", what, is)
	}
}
