package scheduled

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// The jobs that River runs on this node, except those the node has in hand. A job that was fetched a moment ago may
// still be on its way.
const strayJobsSQL = `
SELECT id, queue, kind, coalesce(args ->> 'tasks', '') AS tasks FROM tasktable.river_job
WHERE state = 'running' AND attempted_by[array_length(attempted_by, 1)] = $1::text AND id <> ALL ($2::bigint[])
    AND attempted_at < clock_timestamp() - interval '5 seconds'
ORDER BY id LIMIT 500`

type strayJob struct {
	ID    int64
	Queue string
	Kind  string
	Tasks string
}

// lookAtPool asks, in one round trip, whether the server takes writes, and which jobs River runs here that are not in
// hand.
func (s statements) lookAtPool(ctx context.Context, conn *pgx.Conn, number int64, inHand []int64) (strays []strayJob, err error) {
	var batch pgx.Batch
	batch.Queue(readOnlySQL)
	batch.Queue(s.schema.SQL(strayJobsSQL), clientID(number), inHand)
	results := conn.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	if err := refused(results.QueryRow()); err != nil {
		return nil, err
	}
	return collectNext[strayJob](results, "read River's jobs of this node")
}

// release hands back the claims of a job that River runs here although the node never got it: the answer to the fetch
// was lost. None of them has begun, so no attempt is used. If the job comes after all, its claims are gone, and the
// gate refuses them.
func (w *worker) release(stray strayJob) {
	if !w.take(stray.ID) {
		return // it came meanwhile
	}
	holds, err := unpack(stray.Tasks)
	if err != nil {
		w.log.Error("River job is not one of ours; removed", "job", stray.ID, "error", err)
	}
	w.log.Warn("the answer to a fetch of River's was lost; its claims are released", "job", stray.ID, "type", stray.Kind, "tasks", len(holds))
	b := &batch{worker: w, kind: stray.Kind, tally: w.metrics.of(stray.Kind)}
	runs := b.add(stray.Queue, holds)
	b.releaseAll(runs, "the answer to River's fetch was lost")
	b.finishJob(stray.ID)
}
