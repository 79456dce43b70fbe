package inspect_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// What is asked again and again reads what it is about, and never the whole table or history, also before there are
// statistics; only how many tasks are claimed, and what has ended within a time, Postgres cannot guess without them.
func TestReadsForOperatorsGoByIndexes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, priority, revision, status,
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
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
		scheduled_at, due_at, started_at, finished_at, outcome)
		SELECT i, i, 'TYPE_' || i % 3, i, 1, now.at, now.at, now.at, now.at, 'COMPLETED'
		FROM generate_series(1, 20000) AS i
			CROSS JOIN LATERAL (SELECT clock_timestamp() - (20000 - i) * interval '1 minute' AS at) AS now`)
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
			"limits":          {inspect.LimitsSQL, []any{"101"}},
			"dead letters":    {inspect.DeadSQL, []any{"101"}},
			"recurring":       {inspect.RecurringSQL, []any{"101"}},
			"pauses":          {inspect.PausesSQL, []any{"101"}},
			"coming fires":    {inspect.ComingFiresSQL, []any{"", "5"}},
			"coming tasks":    {inspect.ComingTasksSQL, []any{"5"}},
			"running tasks":   {inspect.RunningTasksSQL, nil},
			"trouble":         {inspect.TroubleSQL, []any{"500"}},
			"bound":           {inspect.ClaimBoundSQL, []any{"100", "1 hour"}},
			"throughput":      {inspect.TypeStatsSQL, []any{b.Now().Add(-time.Hour).Format(time.RFC3339), ""}},
			"of the newest":   {inspect.NewestStatsSQL, []any{"2020-01-01Z", "", "100"}},
		} {
			analyzed := strings.HasPrefix(name, "running") || name == "throughput" || name == "limits"
			if analyzed && statistics == "never taken" {
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

// A list reads little more than its page: by which index each way goes, and that it sorts no more than equal times.
func TestListsGoByIndexes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, entity, tenant_id, revision, status,
			scheduled_at, finished_at, next_attempt_at, waiting_since)
		SELECT 'task ' || i, '{"type": "TEST"}', 'TYPE_' || i % 3, 'entity ' || i % 5000, 'tenant ' || i % 7, i,
			s.status, a.at, CASE WHEN s.status NOT IN ('QUEUED', 'PAUSED') THEN a.at END,
			CASE WHEN s.status = 'QUEUED' THEN a.at END, CASE WHEN i % 400 = 0 THEN a.at END
		FROM generate_series(1, 20000) AS i
		CROSS JOIN LATERAL (SELECT CASE WHEN i % 20 = 0 THEN 'QUEUED' WHEN i % 200 = 1 THEN 'FAILED'
			WHEN i % 500 = 2 THEN 'PAUSED' ELSE 'COMPLETED' END AS status) AS s
		CROSS JOIN LATERAL (SELECT '2026-01-01 00:00Z'::timestamptz + i * interval '1 second' AS at) AS a`)
	b.Exec(b.Pool, `VACUUM ANALYZE tasktable.scheduled_tasks`)
	failed := []store.Status{store.StatusFailed}
	for name, c := range map[string]struct {
		filter inspect.Filter
		index  string // the end of its name
		most   int
	}{
		"none":         {inspect.Filter{}, "ended", 100},
		"waiting":      {inspect.Filter{Statuses: []store.Status{store.StatusQueued}}, "waiting", 60},
		"dead letters": {inspect.DeadLetters(), "rare", 40},
		"rare":         {inspect.Filter{Statuses: failed}, "rare", 130},
		"archived":     {inspect.Filter{Archived: new(true)}, "rare", 130},
		"rare, tenant": {inspect.Filter{Statuses: failed, TenantID: "tenant 3"}, "rare", 130},
		"rare, type":   {inspect.Filter{Statuses: failed, Type: "TYPE_1", Queue: "default"}, "rare", 130},
		"finished":     {inspect.Filter{Order: inspect.ByFinished}, "finished", 60},
		"id":           {inspect.Filter{Order: inspect.ByID}, "pkey", 20},
		"tenant":       {inspect.Filter{TenantID: "tenant 3"}, "tenant", 20},
		"put off":      {inspect.Filter{Waiting: true}, "put_off", 130},
		"entity":       {inspect.Filter{Entity: "entity 77"}, "entity", 20},
	} {
		for _, latest := range []bool{false, true} {
			for _, plans := range []string{"force_custom_plan", "auto"} {
				tx := b.Begin(pgx.TxOptions{})
				b.Exec(tx, `SELECT set_config('plan_cache_mode', $1, true)`, plans)
				filter := c.filter
				filter.LatestFirst, filter.Limit = latest, 10
				db := &planner{tx: tx}
				b.must(b.Inspector.Search(b.Ctx, db, filter))
				if sort := c.index == "rare" && c.filter.Order == ""; sort &&
					!strings.Contains(db.plan, "Index Only Scan using scheduled_tasks_rare") {
					t.Errorf("%s, latest first %v, %s: reads rows that are not of the page:\n%s", name, latest, plans,
						db.plan)
				}
				if read := readBy(db.plan); read > c.most || !strings.Contains(db.plan, "scheduled_tasks_"+c.index) ||
					strings.Contains(db.plan, "Seq Scan on scheduled_tasks") {
					t.Errorf("%s, latest first %v, %s: reads %d tasks, not %d by the index %s:\n%s", name, latest, plans,
						read, c.most, c.index, db.plan)
				}
				b.Check(tx.Rollback(b.Ctx))
			}
		}
	}
}

// planner keeps the plan of the last query.
type planner struct {
	tx   pgx.Tx
	plan string
}

// Query explains, and runs.
func (p *planner) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := p.tx.Query(ctx, "EXPLAIN (ANALYZE, TIMING OFF) "+sql, args...)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	p.plan = strings.Join(lines, "\n")
	return p.tx.Query(ctx, sql, args...) //nolint:wrapcheck // the caller names it
}

// readBy is how many rows the scans of a plan have read.
func readBy(plan string) (rows int) {
	scans := regexp.MustCompile(`on scheduled_tasks t\S* .*actual rows=(\d+)|Rows Removed by Filter: (\d+)`).
		FindAllStringSubmatch(plan, -1)
	for _, scan := range scans {
		number, _ := strconv.Atoi(scan[1] + scan[2])
		rows += number
	}
	return rows
}
