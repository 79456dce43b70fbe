package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const liveNodesSQL = `
SELECT n.number FROM tasktable.node_states AS n WHERE n.state IN ('leads', 'works', 'quiet') ORDER BY n.number`

// refuseNodes returns an error that wraps ErrNodes if nodes are at work on the schema.
func (m *migrator) refuseNodes(ctx context.Context) error {
	rows, _ := m.conn.Query(ctx, m.schema.SQL(liveNodesSQL)) // CollectRows returns its error
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	var missing *pgconn.PgError
	if errors.As(err, &missing) && missing.Code == "42P01" {
		return nil // the view does not exist, so the schema is not fully migrated, and no node can work on it
	}
	if err != nil {
		return fmt.Errorf("look for nodes: %w", err)
	}
	if len(numbers) > 0 {
		return fmt.Errorf("%w on schema %s, numbers %v: stop them first", ErrNodes, m.schema, numbers)
	}
	return nil
}
