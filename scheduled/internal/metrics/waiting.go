package metrics

import (
	"context"
	"strconv"
)

// CountWaitingSQL counts the tasks that wait for something that is out of order, by lane. Of more than 100,000 it reads
// those that have waited for longest.
const CountWaitingSQL = `
SELECT w.queue, w.type, w.priority, count(*)::int AS tasks,
    extract(epoch FROM statement_timestamp() - min(w.waiting_since))::float8 AS age
FROM (
    SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, t.waiting_since
    FROM tasktable.scheduled_tasks AS t WHERE t.waiting_since IS NOT NULL AND t.next_attempt_at IS NOT NULL
    ORDER BY t.waiting_since LIMIT 100000
) AS w
GROUP BY w.queue, w.type, w.priority`

type waitingRow struct {
	Queue, Type string
	Priority    int
	Tasks       int
	Age         float64 // seconds since the first of them was due
}

func (c *TableStats) countWaiting(ctx context.Context, found *tableCounts) error {
	rows, err := counted[waitingRow](ctx, c, "count tasks that wait", CountWaitingSQL)
	if err != nil {
		return err
	}
	found.waits = map[laneLabels]waitingRow{}
	for _, row := range rows {
		found.waits[laneLabels{row.Queue, row.Type, strconv.Itoa(row.Priority)}] = row
	}
	return nil
}
