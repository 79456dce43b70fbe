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

const (
	migrateLockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('community.Migrate', 0))`
	migratedSQL    = `SELECT to_regnamespace('community') IS NOT NULL`
)

// Migrate makes the schema community with its tables, unless the schema exists. It may be called at every start, and
// by several processes at once. The role needs the right to create a schema. Migrate does not make Tasktable's own
// tables.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, migrateLockSQL); err != nil {
			return err
		}
		var made bool
		if err := tx.QueryRow(ctx, migratedSQL).Scan(&made); err != nil || made {
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
