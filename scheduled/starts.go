package scheduled

import (
	"context"
	"fmt"
	"time"
)

// longRun is how long an attempt runs before the node writes its start to its row. For shorter attempts only the
// history has the start, so that they cost no extra write.
const longRun = time.Second

// calls notes that the handler is called now.
func (r *run) calls(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startedAt, r.called = at, time.Now()
}

// unwritten returns when the attempt started. ok is true if the attempt has run for long and its row does not show
// the start yet.
func (r *run) unwritten(now time.Time) (startedAt time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.startedAt, !r.called.IsZero() && !r.written && now.Sub(r.called) >= longRun
}

// writeStarts writes the start and the node of attempts that have run for long to their rows. If an application has
// locked a row, the next look writes it.
func (k *keeper) writeStarts(ctx context.Context, runs []*run) error {
	now := time.Now()
	var holds []hold
	var starts []time.Time
	for _, r := range runs {
		if startedAt, ok := r.unwritten(now); ok {
			holds, starts = append(holds, r.hold), append(starts, startedAt)
		}
	}
	if len(holds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	written, err := k.worker.statements.start(ctx, k.worker.enginePool, k.worker.settler.node, holds, starts)
	if err != nil {
		return err
	}
	for _, fence := range written {
		if r := k.worker.byFence(fence); r != nil {
			r.mu.Lock()
			r.written = true
			r.mu.Unlock()
		}
	}
	return nil
}

// startSQL writes columns for which no trigger fires, so the revision stays as it is. started_fence tells the start
// of this attempt from the start of an earlier one.
const startSQL = `
WITH locked AS MATERIALIZED (
    SELECT t.id, asked.fence, asked.started_at
    FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS asked (id, fence, started_at)
    CROSS JOIN LATERAL (
        SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
        WHERE t.id = asked.id AND t.fence = asked.fence
        LIMIT 1 FOR UPDATE SKIP LOCKED
    ) AS t
)
UPDATE tasktable.scheduled_tasks AS t
SET started_at = l.started_at, started_fence = l.fence, node = $4::bigint
FROM locked AS l
WHERE t.id = ANY (ARRAY[l.id]) AND t.fence = l.fence
RETURNING t.fence`

// start writes when and where these attempts started. It returns the fences of those that it wrote.
func (s statements) start(
	ctx context.Context, q querier, node int64, holds []hold, starts []time.Time,
) ([]int64, error) {
	ids, fences := make([]string, len(holds)), make([]int64, len(holds))
	for i, h := range holds {
		ids[i], fences[i] = h.ID, h.Fence
	}
	return column[int64](ctx, q, fmt.Sprintf("write the starts of %d tasks", len(holds)),
		s.schema.SQL(startSQL), ids, fences, starts, node)
}
