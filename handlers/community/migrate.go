package community

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schemaSQL string

const migrateLockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('community.Migrate', 0))`

// Migrate makes the schema community and its tables where they are missing. It may be called at every start and by several
// processes at once. The role needs the right to create a schema. Tasktable's own tables are not its concern.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// IF NOT EXISTS alone is no help against another process: both see nothing, and the later one fails.
		if _, err := tx.Exec(ctx, migrateLockSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schemaSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate the community's schema: %w", err)
	}
	return nil
}
