package scheduled

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// refuseReadOnly checks new connections of the engine's pool.
func refuseReadOnly(ctx context.Context, conn *pgx.Conn) error {
	return taskdb.RefuseReadOnly(conn.QueryRow(ctx, taskdb.ReadOnlySQL))
}
