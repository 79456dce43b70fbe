package session

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// RefuseReadOnly checks new sessions, and new connections of the engine's pool.
func RefuseReadOnly(ctx context.Context, conn *pgx.Conn) error {
	return pg.RefuseReadOnly(conn.QueryRow(ctx, pg.ReadOnlySQL))
}
