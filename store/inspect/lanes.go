package inspect

import (
	"context"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Recurring tasks have an index of their own.
const lanesSQL = lanesCTE + `, recurring AS (
    SELECT DISTINCT t.queue::text AS queue, t.type::text AS type FROM tasktable.scheduled_tasks AS t
    WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
)`

const typesSQL = lanesSQL + `
SELECT type COLLATE "C" AS type FROM lane UNION SELECT type COLLATE "C" FROM recurring
UNION SELECT unnest(n.types) COLLATE "C" FROM tasktable.nodes AS n WHERE n.dead_at IS NULL ORDER BY type`

// Types lists the types in use. These are the types of waiting tasks, and the types for which nodes that have not
// ended have handlers. Types reads no finished tasks. It needs the right to read the table nodes, which the
// application role of `tasktable migrate roles` does not have.
func (i *Inspector) Types(ctx context.Context, db store.DB) ([]string, error) {
	return query.Values[string](ctx, i.source, db, "list types", typesSQL)
}

const queuesSQL = lanesSQL + `
SELECT queue COLLATE "C" AS queue FROM lane UNION SELECT queue COLLATE "C" FROM recurring
UNION SELECT jsonb_object_keys(n.queues) COLLATE "C" FROM tasktable.nodes AS n WHERE n.dead_at IS NULL ORDER BY queue`

// Queues lists the queues in use. These are the queues of waiting tasks, and the queues that nodes that have not
// ended work. It needs the same right as Types.
func (i *Inspector) Queues(ctx context.Context, db store.DB) ([]string, error) {
	return query.Values[string](ctx, i.source, db, "list queues", queuesSQL)
}
