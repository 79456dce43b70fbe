package metrics

type deadLabels struct{ kind, status string }

// maxDeadCounted is how many dead letters of each status are counted.
const maxDeadCounted = 100_000

// CountDeadSQL counts, of each of the two statuses, the tasks that ended last, without those that are archived.
// It reads the index of rare tasks, which has all these columns, and no rows.
const CountDeadSQL = `
SELECT t.type, dead.status, count(*)::int AS tasks
FROM unnest(ARRAY['FAILED', 'EXPIRED']) AS dead (status)
CROSS JOIN LATERAL (
    SELECT t.type::text AS type, t.archived_at FROM tasktable.scheduled_tasks AS t
    WHERE t.status = dead.status AND t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED')
    ORDER BY t.finished_at DESC LIMIT $1::int
) AS t
WHERE t.archived_at IS NULL GROUP BY t.type, dead.status`

type deadRow struct {
	Type   string
	Status string
	Tasks  int
}

func (found *tableCounts) hasDead(rows []deadRow, m *Metrics) {
	dead := map[deadLabels]int{}
	for _, row := range rows {
		dead[deadLabels{m.Of(row.Type).label, row.Status}] += row.Tasks
	}
	for known := range found.dead { // labels that were shown before and have no tasks now
		dead[known] += 0
	}
	found.dead = dead
}
