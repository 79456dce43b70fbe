package taskdb

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// startSQL writes columns for which no trigger fires, so the revision stays as it is. started_fence tells the start
// of this attempt from the start of an earlier one.
const startSQL = `
WITH locked AS MATERIALIZED (
    SELECT t.id, asked.fence, asked.started_at
    FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS asked (id, fence, started_at)
    CROSS JOIN LATERAL (
        SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
        WHERE t.id = asked.id AND t.fence = asked.fence
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ) AS t
)
UPDATE tasktable.scheduled_tasks AS t
SET started_at = l.started_at, started_fence = l.fence, node = $4::bigint
FROM locked AS l
WHERE t.id = ANY (ARRAY[l.id]) AND t.fence = l.fence
RETURNING t.fence`

// Start writes when and where these attempts started. It returns the fences of those that it wrote.
func (s Queries) Start(
	ctx context.Context, q pg.DB, node int64, holds []Claim, starts []time.Time,
) ([]int64, error) {
	return pg.CollectColumn[int64](ctx, q, fmt.Sprintf("write the starts of %d tasks", len(holds)),
		s.Schema.SQL(startSQL), idsOf(holds), fencesOf(holds), starts, node)
}
