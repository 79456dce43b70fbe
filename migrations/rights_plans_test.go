package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// planned are the generic plans of statements for the role of a pool.
func planned(ctx context.Context, t *testing.T, pool *pgxpool.Pool, statements []statement) (plans []string) {
	t.Helper()
	conn, err := pool.Acquire(ctx)
	check(t, err)
	defer conn.Release()
	succeeds(t)(conn.Exec(ctx, `SET plan_cache_mode = force_generic_plan`))
	for i, one := range statements {
		described, err := conn.Conn().Prepare(ctx, fmt.Sprintf("s%d", i), one.sql)
		check(t, err)
		nulls := strings.Repeat(", NULL", len(described.ParamOIDs))
		if nulls != "" {
			nulls = "(" + nulls[2:] + ")"
		}
		rows, err := conn.Query(ctx, fmt.Sprintf("EXPLAIN (COSTS OFF, VERBOSE) EXECUTE s%d%s", i, nulls),
			pgx.QueryExecModeSimpleProtocol)
		check(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		check(t, err)
		plan = whole(plan)
		for i, line := range plan {
			plan[i] = inOneOrder(line)
		}
		plans = append(plans, strings.Join(slices.DeleteFunc(plan, readsDatabases), "\n"))
	}
	check(t, conn.Conn().DeallocateAll(ctx))
	succeeds(t)(conn.Exec(ctx, `RESET plan_cache_mode`))
	return plans
}

// whole joins the lines of a plan that a line break in a text constant has parted.
func whole(plan []string) (lines []string) {
	for _, line := range plan {
		if last := len(lines) - 1; last >= 0 && strings.Count(lines[last], "'")%2 == 1 {
			lines[last] += "\n" + line
		} else {
			lines = append(lines, line)
		}
	}
	return lines
}

// readsDatabases reports whether a line says how Postgres finds the row of this database. That plan follows the size of
// pg_database, which other tests change meanwhile.
func readsDatabases(line string) bool {
	return strings.Contains(line, "pg_catalog.pg_database") || strings.Contains(line, "d.datname = current_database")
}

// inOneOrder sorts the conditions of a line. With row level security Postgres asks some of them in another order.
func inOneOrder(line string) string {
	name, conditions, ok := strings.Cut(line, ": ")
	if !ok {
		return line
	}
	parts := strings.Split(strings.NewReplacer("(", "", ")", "", "::text", "").Replace(conditions), " AND ")
	slices.Sort(parts)
	return name + ": " + strings.Join(parts, " AND ")
}

// Row level security, which is on as soon as there are roles, costs the engine, the auditor and an application of all
// services nothing: their policies have no condition, so their plans are those of a table without it, up to the order
// of conditions on a row. Only a bound application and a tenant have other plans.
func TestRowLevelSecurityChangesNoPlanOfTheEngine(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	var statements []statement
	for _, one := range collected(t) {
		if strings.Contains(one.sql, "tasktable.scheduled_task") {
			statements = append(statements, one)
		}
	}
	if len(statements) < 50 {
		t.Fatalf("only %d statements", len(statements))
	}
	simple := []statement{
		{name: "a task", sql: `SELECT * FROM tasktable.scheduled_tasks WHERE id = $1`},
		{name: "its history", sql: `SELECT * FROM tasktable.scheduled_task_changes WHERE task_id = $1`},
		{name: "its executions", sql: `SELECT * FROM tasktable.scheduled_task_executions WHERE task_id = $1`},
	}
	with := [][]string{
		planned(ctx, t, r.engine, statements), planned(ctx, t, r.application, simple),
		planned(ctx, t, r.auditor, simple),
	}
	ofTenant := planned(ctx, t, r.tenant, simple)
	for _, table := range []string{"scheduled_tasks", "scheduled_task_changes", "scheduled_task_executions"} {
		for who, want := range map[*pgxpool.Pool]string{r.owner: "false", r.engine: "true", r.tenant: "true"} {
			same(t, "row level security of "+table,
				lines(ctx, t, who, `SELECT row_security_active('tasktable.`+table+`')::text`)[0], want)
		}
		apply(ctx, t, r.owner, `ALTER TABLE tasktable.`+table+` DISABLE ROW LEVEL SECURITY`)
	}
	without := [][]string{
		planned(ctx, t, r.engine, statements), planned(ctx, t, r.application, simple),
		planned(ctx, t, r.auditor, simple),
	}
	for i, whose := range [][]statement{statements, simple, simple} {
		for j, one := range whose {
			same(t, "the plan of "+one.name, with[i][j], without[i][j])
		}
	}
	for i, plan := range planned(ctx, t, r.tenant, simple) {
		if plan == ofTenant[i] {
			t.Errorf("%s: row level security changes no plan of the tenant, so the plans tell nothing", simple[i].name)
		}
	}
}
