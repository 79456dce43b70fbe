package inspect

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Work tells which tasks the nodes have now.
type Work struct {
	// InHand has, for each node by its number, the number of tasks that it has fetched and not given back: those that
	// run, and those that wait on it for their time or for a slot. A node gives back tasks that it fetched together
	// when the last of them has ended. Until then all of them count.
	InHand map[int64]int
	// Running has the tasks that have run for at least a second, by node and queue. The longest come first.
	Running []RunningTasks
}

// RunningTasks are the tasks of a queue that have run on a node for at least a second.
type RunningTasks struct {
	Node  int64
	Queue string
	Count int
	// ID and Type are those of the task that has run for longest, and Since is when its attempt began.
	ID    string
	Type  string
	Since time.Time
}

// inHandSQL reads River's jobs. Somebody else's job may have any metadata, and counts as one task.
const inHandSQL = `
SELECT substring(j.attempted_by[array_length(j.attempted_by, 1)] FROM '-([0-9]{1,18})$')::bigint AS number,
    sum(CASE WHEN j.metadata ->> 'tasks' ~ '^[0-9]{1,6}$' THEN (j.metadata ->> 'tasks')::int ELSE 1 END)::bigint
        AS count
FROM tasktable.river_job AS j
WHERE j.state = 'running' AND j.attempted_by[array_length(j.attempted_by, 1)] ~ '-[0-9]{1,18}$'
GROUP BY 1`

const runningTasksSQL = `
SELECT t.node, t.queue::text AS queue, count(*) AS count, min(t.started_at) AS since,
    (array_agg(t.id::text ORDER BY t.started_at, t.id::text COLLATE "C"))[1] AS id,
    (array_agg(t.type::text ORDER BY t.started_at, t.id::text COLLATE "C"))[1] AS type
FROM tasktable.scheduled_tasks AS t
WHERE t.lease_expires_at IS NOT NULL AND t.started_fence = t.fence AND t.node IS NOT NULL
GROUP BY t.node, t.queue ORDER BY min(t.started_at), t.node, t.queue`

// Work tells which tasks the nodes have now. It reads River's running jobs and the claimed tasks, and neither waiting
// tasks nor history.
func (i *Inspector) Work(ctx context.Context, db store.DB) (Work, error) {
	counts, err := query.Collect[struct {
		Number int64
		Count  int
	}](ctx, i.source, db, "count the tasks of nodes", inHandSQL)
	if err != nil {
		return Work{}, err
	}
	found := Work{InHand: map[int64]int{}}
	for _, node := range counts {
		found.InHand[node.Number] = node.Count
	}
	found.Running, err = query.Collect[RunningTasks](ctx, i.source, db, "find running tasks", runningTasksSQL)
	return found, err
}
