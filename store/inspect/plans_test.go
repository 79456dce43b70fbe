package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/inspect"
)

// What is asked again and again reads what it is about, and never the whole table or history, also before there are
// statistics; only how many tasks are claimed, and what has ended within a time, Postgres cannot guess without them.
func TestReadsForOperatorsGoByIndexes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
		b.Exec(tx, `INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, priority, revision, status,
			finished_at, next_attempt_at, fence, lease_expires_at, cron, planned_revision)
			SELECT i, '{"type": "TEST"}', 'TYPE_' || i % 3, 'queue' || i % 2, i % 2, i, s.status,
				CASE WHEN s.status = 'COMPLETED' THEN clock_timestamp() END,
				CASE WHEN s.status = 'QUEUED' THEN clock_timestamp() + (i - 10000) * interval '1 second' END,
				CASE WHEN s.status = 'EXECUTING' THEN i END, CASE WHEN s.status = 'EXECUTING'
				THEN clock_timestamp() END,
				CASE WHEN s.status = 'QUEUED' AND i % 5 = 0 THEN '@daily' END, CASE WHEN s.status = 'QUEUED'
				AND i % 5 = 0 THEN i END
			FROM generate_series(1, 20000) AS i CROSS JOIN LATERAL (
				SELECT CASE WHEN i % 10 = 0 THEN 'QUEUED' WHEN i % 100 = 1 THEN 'EXECUTING'
					ELSE 'COMPLETED' END AS status) AS s`)
		b.Exec(tx, `ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
		b.Exec(tx, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
			scheduled_at, due_at, started_at, finished_at, outcome)
			SELECT i, i, 'TYPE_' || i % 3, i, 1, now.at, now.at, now.at, now.at, 'COMPLETED'
			FROM generate_series(1, 20000) AS i
				CROSS JOIN LATERAL (SELECT clock_timestamp() - (20000 - i) * interval '1 minute' AS at) AS now`)
	})
	for _, statistics := range []string{"never taken", "taken"} {
		if statistics == "taken" {
			b.Exec(b.Pool, `ANALYZE tasktable.scheduled_tasks`)
			b.Exec(b.Pool, `ANALYZE tasktable.scheduled_task_executions`)
		}
		for name, read := range map[string]struct {
			sql  string
			args []any
		}{
			"due and waiting": {inspect.LaneCountsSQL, []any{"", "101"}},
			"running":         {inspect.LaneRunningSQL, []any{""}},
			"late":            {inspect.LateSQL, []any{"101"}},
			"oldest due":      {inspect.OldestDueSQL, []any{""}},
			"coming fires":    {inspect.ComingFiresSQL, []any{"", "5"}},
			"coming tasks":    {inspect.ComingTasksSQL, []any{"5"}},
			"running tasks":   {inspect.RunningTasksSQL, nil},
			"trouble":         {inspect.TroubleSQL, []any{"501"}},
			"bound":           {inspect.ClaimBoundSQL, []any{"100", "1 hour"}},
			"throughput":      {inspect.TypeStatsSQL, []any{b.Now().Add(-time.Hour).Format(time.RFC3339), ""}},
			"of the newest":   {inspect.NewestStatsSQL, []any{"2020-01-01Z", "", "100"}},
		} {
			if (name == "running" || name == "running tasks" || name == "throughput") && statistics == "never taken" {
				continue
			}
			rows, err := b.Pool.Query(b.Ctx, `EXPLAIN (ANALYZE, TIMING OFF) `+read.sql, read.args...)
			b.Check(err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			b.Check(err)
			plan := strings.Join(lines, "\n")
			for _, table := range []string{"scheduled_tasks", "scheduled_task_executions"} {
				if strings.Contains(plan, "Seq Scan on "+table) {
					t.Errorf("statistics %s, %s:\n%s", statistics, name, plan)
				}
			}
			if !strings.Contains(plan, "using scheduled_task") &&
				!strings.Contains(plan, "Bitmap Index Scan on scheduled_task") {
				t.Errorf("statistics %s, %s goes by no index:\n%s", statistics, name, plan)
			}
		}
	}
}
