package migrations_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// explaining is a transaction that keeps the plan of each query that it runs.
type explaining struct {
	tx   pgx.Tx
	plan string
}

// Query explains, and runs.
func (e *explaining) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := e.tx.Query(ctx, "EXPLAIN (ANALYZE, TIMING OFF) "+sql, args...)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	e.plan = strings.Join(lines, "\n")
	return e.tx.Query(ctx, sql, args...) //nolint:wrapcheck // the caller names it
}

// A tenant's list reads the tasks of the page, and not those of others. The index has no task without a tenant.
func TestListsOfATenantGoByItsIndex(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	r := newRights(ctx, t)
	const perTenant, page = 200, 20
	apply(ctx, t, r.owner, fmt.Sprintf(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
		INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, scheduled_at, next_attempt_at, tenant_id)
		SELECT i, '{"type": "TEST"}', 'TEST', i, now() + i * interval '1 second', now() + i * interval '1 second',
			CASE WHEN i %% 2 = 0 THEN 'tenant ' || i / 2 %% 50 END
		FROM generate_series(1, %d) AS i;
		ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
		ANALYZE tasktable.scheduled_tasks`, 2*50*perTenant))
	same(t, "the entries of the index", lines(ctx, t, r.owner, `SELECT reltuples::text
		FROM pg_class WHERE oid = 'tasktable.scheduled_tasks_tenant'::regclass`)[0], strconv.Itoa(50*perTenant))
	inspector := inspect.New(store.Config{})
	for _, plans := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, latest := range []bool{false, true} {
			tx, err := r.engine.Begin(ctx)
			check(t, err)
			for _, setting := range [][2]string{
				{"tasktable.tenant", "tenant 7"}, {"role", r.roles.Tenant}, {"plan_cache_mode", plans},
			} {
				succeeds(t)(tx.Exec(ctx, `SELECT set_config($1, $2, true)`, setting[0], setting[1]))
			}
			db := &explaining{tx: tx}
			filter := inspect.Filter{Limit: page, LatestFirst: latest}
			for number := range 3 {
				rows, err := inspector.List(ctx, db, filter)
				check(t, err)
				if len(rows) != page || *rows[0].TenantID != "tenant 7" {
					t.Fatalf("page %d has %d tasks", number, len(rows))
				}
				most := page
				if plans == "force_generic_plan" { // it steps over the pages before
					most = page * (number + 1)
				}
				if read := readBy(t, db.plan); read > most {
					t.Errorf("%s, latest first %v, page %d reads %d tasks:\n%s", plans, latest, number, read, db.plan)
				}
				filter.After = &rows[len(rows)-1]
			}
			check(t, tx.Rollback(ctx))
		}
	}
}

// readBy is how many entries of the tenants' index a plan has read to find the page, those included that it did not
// select. The rows of the page are then read by their ids.
func readBy(t *testing.T, plan string) (rows int) {
	t.Helper()
	const read = `scheduled_tasks_tenant on scheduled_tasks .*actual rows=(\d+)|Rows Removed by Filter: (\d+)`
	scans := regexp.MustCompile(read).FindAllStringSubmatch(plan, -1)
	if len(scans) == 0 {
		t.Fatalf("no scan in the plan:\n%s", plan)
	}
	for _, scan := range scans {
		number, err := strconv.Atoi(scan[1] + scan[2])
		check(t, err)
		rows += number
	}
	return rows
}
