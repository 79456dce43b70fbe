package community

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schemaSQL string

const migrateLockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('community.Migrate', 0))`

// commentSQL is built by hand, because COMMENT takes no arguments.
var (
	schemaVersion = fmt.Sprintf("made by handlers/community, version %x", sha256.Sum256([]byte(schemaSQL)))
	commentSQL    = "COMMENT ON SCHEMA community IS '" + schemaVersion + "'"
)

const migratedSQL = `SELECT coalesce(obj_description(to_regnamespace('community'), 'pg_namespace'), '')`

// Migrate makes the schema community and everything that is missing in it. It may be called at every start, and by
// several processes at once. A comment on the schema says which version of schema.sql made it. If that is this
// version, Migrate does nothing, because even an ALTER TABLE ... IF NOT EXISTS would wait for all users of the table
// and block later ones. The role needs the right to create a schema. Migrate does not make Tasktable's own tables.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// IF NOT EXISTS does not help against a second process: both see no table, and the later one fails.
		if _, err := tx.Exec(ctx, migrateLockSQL); err != nil {
			return err
		}
		var made string
		if err := tx.QueryRow(ctx, migratedSQL).Scan(&made); err != nil || made == schemaVersion {
			return err
		}
		if _, err := tx.Exec(ctx, schemaSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, commentSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate the community's schema: %w", err)
	}
	return nil
}
