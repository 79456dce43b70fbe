package taskdb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// The jobs that River runs on this node, except those that the node has received. A job that was fetched within the
// last seconds may still be on its way. Without an order, because Postgres would then read all jobs by their id.
const strayJobsSQL = `
SELECT id, queue, kind, coalesce(args ->> 'tasks', '') AS tasks FROM tasktable.river_job
WHERE state = 'running' AND attempted_by[array_length(attempted_by, 1)] = $1::text AND id <> ALL ($2::bigint[])
    AND attempted_at < clock_timestamp() - interval '5 seconds'
LIMIT 500`

// StrayJob is a River job that River runs on a node and that the node does not have in hand.
type StrayJob struct {
	ID    int64
	Queue string
	Kind  string
	Tasks string
}

// LookAtPool asks two things in one round trip: whether the server takes writes, and which jobs River runs on this
// node although the node has not received them.
func (s Queries) LookAtPool(
	ctx context.Context, pool *pgxpool.Pool, number int64, inHand []int64,
) (strays []StrayJob, err error) {
	var batch pgx.Batch
	batch.Queue(pg.ReadOnlySQL)
	s.QueueStrayJobs(&batch, number, inHand)
	results := pool.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	if err := pg.RefuseReadOnly(results.QueryRow()); err != nil {
		return nil, err
	}
	return pg.CollectNext[StrayJob](results, "read River's jobs of this node")
}

// QueueStrayJobs adds strayJobsSQL to a batch.
func (s Queries) QueueStrayJobs(batch *pgx.Batch, number int64, inHand []int64) {
	batch.Queue(s.Schema.SQL(strayJobsSQL), ClientID(number), inHand)
}
