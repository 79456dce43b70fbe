package metrics

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// countLimitedSQL counts the due tasks that limits hold back, as store.Limits does.
const countLimitedSQL = `
SELECT w.name, w.waiting::int AS waiting,
    extract(epoch FROM statement_timestamp() - w.oldest_due_at)::float8 AS age
FROM tasktable.limit_waits(10000) AS w`

type limitedRow struct {
	Name    string
	Waiting int
	Age     float64 // seconds since the first of them was due
}

// countLimited counts what limits hold back. Without a limit it asks nothing.
func (c *TableStats) countLimited(ctx context.Context, tx pgx.Tx, limits []taskdb.Limit, found *tableCounts) error {
	if len(limits) == 0 {
		found.limited = map[string]limitedRow{}
		return nil
	}
	return counted(ctx, c, tx, "count what limits hold back", countLimitedSQL, nil, func(rows []limitedRow) {
		found.limited = make(map[string]limitedRow, len(rows))
		for _, row := range rows {
			found.limited[row.Name] = row
		}
	})
}

func (found *tableCounts) collectLimits(limits []taskdb.Limit, show show) {
	for _, limit := range limits {
		if limit.MaxRunning != nil {
			show("limit_max_running", float64(*limit.MaxRunning), limit.Name)
			show("limit_running", float64(limit.Running), limit.Name)
		}
		if limit.Interval > 0 && !limit.HasBuckets() {
			show("limit_tokens", float64(max(limit.Tokens(), 0)), limit.Name)
		}
		if found.limited != nil { // otherwise nothing was counted yet
			show("limit_waiting", float64(found.limited[limit.Name].Waiting), limit.Name)
			show("limit_oldest_due_age_seconds", found.limited[limit.Name].Age, limit.Name)
		}
	}
}
