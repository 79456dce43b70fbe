package scheduled

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const strandedJobsSQL = `
SELECT j.id, coalesce(j.args ->> 'tasks', '') AS tasks FROM tasktable.river_job AS j
WHERE j.state = 'available' AND NOT EXISTS (
    SELECT FROM unnest($1::text[], $2::text[]) AS worked (queue, kind) WHERE worked.queue = j.queue AND worked.kind = j.kind)
ORDER BY j.id LIMIT 500 FOR UPDATE OF j SKIP LOCKED`

const waitingLanesSQL = `SELECT DISTINCT queue, kind FROM tasktable.river_job WHERE state = 'available'`

// worked is the queues and types that some node works together.
type worked map[workedLane]bool

type workedLane struct{ Queue, Kind string }

func workedBy(nodes []liveNode) worked {
	lanes := worked{}
	for _, node := range nodes {
		for queue, slots := range node.Queues {
			for _, kind := range node.Types {
				if slots > 0 {
					lanes[workedLane{queue, kind}] = true
				}
			}
		}
	}
	return lanes
}

// lacks reports whether something of before is worked no more.
func (w worked) lacks(before worked) bool {
	for lane := range before {
		if !w[lane] {
			return true
		}
	}
	return false
}

// releaseStranded hands back claims that wait in River for nobody: the last node of their queue and type has stopped, died or become quiet
// before it fetched them. Else they would be shown as claimed until their leases end, and could not expire. What the leader claims
// goes by the same nodes, so it looks when a queue and type is worked no more, and now and then, for what another leader has left.
func (l *leader) releaseStranded(ctx context.Context) error {
	lanes := workedBy(l.workingNodes())
	queues, kinds := make([]string, 0, len(lanes)), make([]string, 0, len(lanes))
	for lane := range lanes {
		queues, kinds = append(queues, lane.Queue), append(kinds, lane.Kind)
	}
	return l.transaction(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, l.statements.schema.SQL(strandedJobsSQL), queues, kinds)
		if err != nil {
			return fmt.Errorf("read jobs that no node works: %w", err)
		}
		jobs, err := pgx.CollectRows(rows, pgx.RowToStructByName[jobRow])
		if err != nil {
			return fmt.Errorf("read jobs that no node works: %w", err)
		}
		_, err = l.endJobs(ctx, tx, jobs, func(h hold) settlement { return released(h, "no node works its queue and type any more") })
		return err
	})
}
