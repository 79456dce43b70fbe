package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tasktable/tasktable/store"
)

// Version is the state of one migration.
type Version struct {
	Source  string // "tasktable" or "river"
	Number  int64
	Name    string
	Applied bool
}

// Status returns the migrations of this library and of River, and whether each is applied to the schema.
func Status(ctx context.Context, pool *pgxpool.Pool, schema string) ([]Version, error) {
	names, err := Names()
	if err != nil {
		return nil, err
	}
	applied, err := appliedVersions(ctx, pool, schema)
	if err != nil {
		return nil, err
	}
	var versions []Version
	for i, name := range names {
		number := int64(i + 1)
		versions = append(versions, Version{Source: "tasktable", Number: number, Name: name,
			Applied: applied.tasktable >= number})
	}
	river, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, fmt.Errorf("read River's migrations: %w", err)
	}
	for _, version := range river.AllVersions() {
		number := int64(version.Version)
		versions = append(versions, Version{Source: "river", Number: number, Name: version.Name,
			Applied: applied.river >= number})
	}
	return versions, nil
}

// Check returns an error that wraps ErrUnmigrated, unless the schema is at this library's version or newer. A newer
// schema still serves this library, so that a rollback of the program needs no rollback of the database.
func Check(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	versions, err := Status(ctx, pool, schema)
	if err != nil {
		return err
	}
	for _, version := range versions {
		if !version.Applied {
			return fmt.Errorf("%w: schema %s lacks %s migration %d (%s)", ErrUnmigrated, nameOrDefault(schema),
				version.Source, version.Number, version.Name)
		}
	}
	return nil
}

// Names returns the names of this library's migration files in order.
func Names() ([]string, error) {
	names, err := fs.Glob(files, "[0-9]*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migration files: %w", err)
	}
	return names, nil
}

// Numbers has the numbers of the highest migration of this library and of River.
type Numbers struct{ Own, River int64 }

// Newest returns the numbers to which Up brings a schema.
func Newest() (Numbers, error) {
	names, err := Names()
	if err != nil {
		return Numbers{}, err
	}
	river, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return Numbers{}, fmt.Errorf("read River's migrations: %w", err)
	}
	newest := Numbers{Own: int64(len(names))}
	for _, version := range river.AllVersions() {
		newest.River = max(newest.River, int64(version.Version))
	}
	return newest, nil
}

type applied struct{ tasktable, river int64 }

func appliedVersions(ctx context.Context, pool *pgxpool.Pool, schema string) (applied, error) {
	name, err := store.NewSchema(schema)
	if err != nil {
		return applied{}, err
	}
	if exists, err := schemaExists(ctx, pool, name); err != nil || !exists {
		return applied{}, err
	}
	if err := CheckReleased(ctx, pool, name); err != nil {
		return applied{}, err
	}
	return versionsIn(ctx, pool, name)
}

// versionsIn returns the highest applied versions in a schema that exists.
func versionsIn(ctx context.Context, on Queryer, name store.Schema) (found applied, err error) {
	highest := func(sql string) (int64, error) {
		var version int64
		err := on.QueryRow(ctx, name.SQL(sql)).Scan(&version)
		var missing *pgconn.PgError
		if errors.As(err, &missing) && missing.Code == "42P01" {
			return 0, nil // there is no such table, because nothing is applied
		}
		if errors.As(err, &missing) && missing.Code == "42601" {
			return 0, fmt.Errorf("%w: schema %q is a reserved word of SQL", store.ErrInvalid, name)
		}
		if err != nil {
			return 0, fmt.Errorf("read the applied migrations of schema %s: %w", name, err)
		}
		return version, nil
	}
	found.tasktable, err = highest(
		`SELECT coalesce(max(version_id), 0) FROM tasktable.goose_db_version WHERE is_applied`)
	if err != nil {
		return applied{}, err
	}
	found.river, err = highest(`SELECT coalesce(max(version), 0) FROM tasktable.river_migration WHERE line = 'main'`)
	if err != nil {
		return applied{}, err
	}
	return found, nil
}

// refuseNewer returns an error that wraps ErrNewer if the schema has migrations that this library does not have. goose
// refuses them, too, but Down calls goose when River's tables are gone already.
func (m *migrator) refuseNewer(ctx context.Context) error {
	applied, err := versionsIn(ctx, m.conn, m.schema)
	if err != nil {
		return err
	}
	newest, err := Newest()
	if err != nil {
		return err
	}
	if applied.tasktable > newest.Own || applied.river > newest.River {
		return fmt.Errorf("%w: schema %s is at version %d, and River's part at %d, but this version knows only %d and "+
			"%d: use the newer one", ErrNewer, m.schema, applied.tasktable, applied.river, newest.Own, newest.River)
	}
	return nil
}
