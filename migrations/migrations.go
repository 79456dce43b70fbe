// Package migrations creates the schema of Tasktable. It applies goose SQL files, which are part of the package, and
// River's own migrations, both in one Postgres schema.
//
// The files are written for the default schema, tasktable. For another schema every "tasktable." in them is replaced.
// Goose's version table is in the same schema. Several processes may call Up at once, because an advisory lock lets
// one of them work while the others wait. No function needs a superuser. The role must own the schema, or be allowed
// to create it.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tasktable/tasktable/store"
)

//go:embed [0-9]*.sql
var files embed.FS

// ErrUnmigrated is wrapped by the error of Check if the schema does not exist or is older than this library.
var ErrUnmigrated = errors.New("the database is not migrated")

// ErrNodes is wrapped by the error of Down if nodes are at work, because they would go on without their tables.
var ErrNodes = errors.New("nodes are at work")

// ErrNewer is wrapped by the error of Down if a newer version of this library has migrated the schema. This version
// would not remove the tables of the newer one.
var ErrNewer = errors.New("a newer version has migrated the database")

const versionTable = "goose_db_version"

// Up brings the schema to this library's version. It changes nothing in a schema that is up to date or newer. Schema
// "" means store.DefaultSchema. The error wraps store.ErrInvalid for a malformed schema name, and ErrPrerelease for a
// schema from before the first release. It wraps store.ErrReadOnly if the server takes no writes.
//
// Nodes and applications may work meanwhile. A step may need a lock that others hold. It then makes the others wait
// for at most two seconds, lets them through, and tries again, for two minutes. A lock_timeout in the pool's settings
// replaces the two seconds.
func Up(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return underLock(ctx, pool, schema, func(m *migrator) error {
		if err := m.createSchema(ctx); err != nil {
			return err
		}
		if err := CheckReleased(ctx, m.conn, m.schema); err != nil {
			return err
		}
		err := patiently(ctx, func() error {
			_, err := m.goose.Up(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("migrate schema %s: %w", m.schema, err)
		}
		err = patiently(ctx, func() error {
			_, err := m.river.Migrate(ctx, rivermigrate.DirectionUp, nil)
			return err
		})
		if err != nil {
			return fmt.Errorf("migrate River's tables in schema %s: %w", m.schema, err)
		}
		return m.dropUnread(ctx)
	})
}

// unreadIndexes are indexes of River that nothing in this library reads. Each job would write to them three times.
var unreadIndexes = []string{"river_job_args_index", "river_job_metadata_index"}

// dropUnread drops unreadIndexes. It first checks that an index exists, because DROP INDEX IF EXISTS would lock the
// table each time.
func (m *migrator) dropUnread(ctx context.Context) error {
	for _, index := range unreadIndexes {
		var exists bool
		name := m.schema.String() + "." + index
		if err := m.conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&exists); err != nil {
			return fmt.Errorf("look for index %s: %w", name, err)
		}
		if !exists {
			continue
		}
		err := patiently(ctx, func() error {
			_, err := m.conn.Exec(ctx, "BEGIN; SET LOCAL lock_timeout = '"+lockTimeout+"'; DROP INDEX "+name+"; COMMIT")
			if err != nil {
				_, rollbackErr := m.conn.Exec(ctx, "ROLLBACK")
				return errors.Join(err, rollbackErr)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("drop index %s: %w", name, err)
		}
	}
	return nil
}

// Down removes everything that Up made, with all tasks and their history. The schema itself and goose's version table
// stay. The error wraps ErrNodes if nodes are at work, ErrNewer if the schema is newer than this library, and
// store.ErrReadOnly if the server takes no writes. Down waits for locks as Up does.
//
// Single migrations cannot be undone. That is not necessary for a rollback of the program, because an older program
// works with a newer schema.
func Down(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return underLock(ctx, pool, schema, func(m *migrator) error {
		exists, err := schemaExists(ctx, m.conn, m.schema)
		if err != nil || !exists {
			return err
		}
		if err := CheckReleased(ctx, m.conn, m.schema); err != nil {
			return err
		}
		if err := m.refuseNewer(ctx); err != nil {
			return err
		}
		if err := m.refuseNodes(ctx); err != nil {
			return err
		}
		err = patiently(ctx, func() error {
			_, err := m.river.Migrate(ctx, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: -1})
			return err
		})
		if err != nil {
			return fmt.Errorf("remove River's tables from schema %s: %w", m.schema, err)
		}
		err = patiently(ctx, func() error {
			_, err := m.goose.DownTo(ctx, 0)
			return err
		})
		if err != nil {
			return fmt.Errorf("remove schema %s: %w", m.schema, err)
		}
		return nil
	})
}

// Fingerprint returns a text that differs for each schema that a version of Up makes. Test databases have it in their
// names.
func Fingerprint() string {
	hash := sha256.New()
	names, _ := Names() // the pattern is constant and well formed
	for _, name := range names {
		content, _ := files.ReadFile(name) // it exists, because it is embedded
		hash.Write(content)
	}
	for _, index := range unreadIndexes {
		hash.Write([]byte(index))
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}

func nameOrDefault(schema string) string {
	if schema == "" {
		return store.DefaultSchema
	}
	return schema
}

type migrator struct {
	schema store.Schema
	conn   *pgx.Conn
	goose  *goose.Provider
	river  *rivermigrate.Migrator[pgx.Tx]
}

// underLock runs do while no other process migrates the schema.
func underLock(ctx context.Context, pool *pgxpool.Pool, schema string, do func(*migrator) error) error {
	name, err := store.NewSchema(schema)
	if err != nil {
		return err
	}
	conn, err := lock(ctx, pool, name)
	if err != nil {
		return err
	}
	// Not ctx, because the connection must be closed even after ctx is done.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	ours, err := hurriedPool(ctx, pool)
	if err != nil {
		return err
	}
	defer ours.Close()
	db := stdlib.OpenDBFromPool(ours)
	defer func() { _ = db.Close() }()
	provider, err := newProvider(db, name)
	if err != nil {
		return err
	}
	river, err := rivermigrate.New(riverpgxv5.New(ours), &rivermigrate.Config{Schema: name.String()})
	if err != nil {
		return fmt.Errorf("prepare River's migrations: %w", err)
	}
	err = do(&migrator{schema: name, conn: conn, goose: provider, river: river})
	if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == "25006" {
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	return err
}

func newProvider(db *sql.DB, schema store.Schema) (*goose.Provider, error) {
	rewritten, err := filesFor(schema)
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, rewritten,
		goose.WithTableName(schema.String()+"."+versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("prepare migrations of schema %s: %w", schema, err)
	}
	return provider, nil
}

// filesFor returns the embedded files with the schema's name in them.
func filesFor(schema store.Schema) (fs.FS, error) {
	names, err := Names()
	if err != nil {
		return nil, err
	}
	rewritten := fstest.MapFS{}
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		rewritten[name] = &fstest.MapFile{Data: []byte(schema.SQL(string(content)))}
	}
	return rewritten, nil
}

// schemaExistsSQL does not ask quote_ident, because that quotes every name under quote_all_identifiers.
const schemaExistsSQL = `
SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1),
    NOT EXISTS (SELECT 1 FROM pg_get_keywords() AS k WHERE k.word = $1 AND k.catcode <> 'U')`

// schemaExists reports whether the schema exists. It refuses reserved words, which only Postgres knows.
func schemaExists(ctx context.Context, on Queryer, schema store.Schema) (bool, error) {
	var exists, plain bool
	if err := on.QueryRow(ctx, schemaExistsSQL, schema.String()).Scan(&exists, &plain); err != nil {
		return false, fmt.Errorf("look for schema %s: %w", schema, err)
	}
	if !plain {
		return false, fmt.Errorf("%w: schema %q is a reserved word of SQL", store.ErrInvalid, schema)
	}
	return exists, nil
}

// Queryer is a pgx Conn, Pool or Tx.
type Queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// createSchema first checks whether the schema exists, because CREATE SCHEMA IF NOT EXISTS needs the right to create
// even if the schema exists.
func (m *migrator) createSchema(ctx context.Context) error {
	exists, err := schemaExists(ctx, m.conn, m.schema)
	if err != nil || exists {
		return err
	}
	if _, err := m.conn.Exec(ctx, m.schema.SQL("CREATE SCHEMA tasktable")); err != nil {
		return fmt.Errorf("create schema %s: %w", m.schema, err)
	}
	return nil
}
