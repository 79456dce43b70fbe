package scheduled

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// nudgeAfter is how long a job that could begin waits in River until River is told of it once more.
	nudgeAfter = time.Second
	// unfetchedMax is how long it waits until its tasks go back to the queue.
	unfetchedMax = 2 * time.Second
)

// River was told of the jobs when they were inserted. But nobody heard it where its listening connection had just
// broken, and where its fetch failed nobody asks again before its next poll. The channel and the payload are River's
// own.
const nudgeSQL = `
SELECT pg_notify(concat($1::text, '.river_insert'), json_build_object('queue', waiting.queue)::text)
FROM (
    SELECT DISTINCT j.queue FROM tasktable.river_job AS j WHERE j.id = ANY ($2::bigint[]) AND j.state = 'available'
) AS waiting
WHERE pg_notification_queue_usage() < 0.5`

// nudge tells River once more of the queues in which jobs wait. Nodes that are full do not mind.
func (l *leader) nudge(ctx context.Context) error {
	waiting := l.jobs.waiting(nudgeAfter)
	if len(waiting) == 0 {
		return nil
	}
	_, err := l.session.conn.Exec(ctx, l.statements.schema.SQL(nudgeSQL), l.statements.schema.String(), waiting)
	return wrap(err, "tell River of waiting jobs")
}

const unfetchedJobsSQL = `
SELECT j.id, coalesce(j.args ->> 'tasks', '') AS tasks FROM tasktable.river_job AS j
WHERE j.id = ANY ($1::bigint[]) AND j.state = 'available'
ORDER BY j.id LIMIT 500 FOR UPDATE OF j SKIP LOCKED`

// releaseWaiting hands back the tasks of jobs that no node has fetched although they could have begun: their nodes
// have no slot for them after all, or are gone. They use up no attempt, and are claimed again when there is room for
// them. Meanwhile more urgent tasks go first, and they may expire, or be paused or edited.
func (l *leader) releaseWaiting(ctx context.Context) error {
	waiting := l.jobs.waiting(unfetchedMax)
	if len(waiting) == 0 {
		return nil
	}
	back := 0
	err := l.transaction(ctx, func(tx pgx.Tx) error {
		jobs, err := collect[jobRow](ctx, tx, "read jobs that no node has fetched",
			l.statements.schema.SQL(unfetchedJobsSQL), waiting)
		if err != nil {
			return err
		}
		_, err = l.endJobs(ctx, tx, nil, jobs, func(h hold) settlement { return released(h, "no node had a slot for it in time") })
		back = len(l.lines)
		return err
	})
	if err == nil && back > 0 {
		l.log.Info("claimed tasks went back to the queue, because no node had a slot for them in time", "tasks", back)
	}
	return err
}
