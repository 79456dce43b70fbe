package migrations

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A node holds an advisory lock on its number as long as it lives; one that was killed is not marked as dead before another leads.
const liveNodesSQL = `
SELECT n.number FROM tasktable.nodes AS n JOIN pg_locks AS l ON l.objid::bigint = n.number
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid::bigint = $1
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
ORDER BY n.number`

// refuseNodes returns ErrNodes while nodes are at work on the schema.
func (m *migrator) refuseNodes(ctx context.Context) error {
	class := fnv.New32a() // as package scheduled makes it
	_, _ = class.Write([]byte("tasktable node " + m.schema.String()))
	rows, _ := m.conn.Query(ctx, m.schema.SQL(liveNodesSQL), int64(class.Sum32())) // CollectRows returns its error
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	var missing *pgconn.PgError
	if errors.As(err, &missing) && missing.Code == "42P01" {
		return nil // no such table: nothing is migrated
	}
	if err != nil {
		return fmt.Errorf("look for nodes: %w", err)
	}
	if len(numbers) > 0 {
		return fmt.Errorf("%w on schema %s, numbers %v: stop them first", ErrNodes, m.schema, numbers)
	}
	return nil
}
