package migrations_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestSeveralProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	url := storetest.EmptyURL(t)
	start, failures := make(chan struct{}), make([]error, 8)
	var group sync.WaitGroup
	for i := range failures {
		pool := poolOn(ctx, t, url, 1) // the least that a service can have
		group.Go(func() {
			<-start
			if failures[i] = migrations.Up(ctx, pool, ""); failures[i] == nil {
				failures[i] = migrations.Check(ctx, pool, "")
			}
		})
	}
	close(start)
	group.Wait()
	check(t, errors.Join(failures...))
	pool := poolOn(ctx, t, url, 1)
	migrated(ctx, t, pool, "")
	same(t, "schema", dump(ctx, t, pool, "tasktable", true), dump(ctx, t, storetest.Pool(t), "tasktable", true))
	if doubled := lines(ctx, t, pool, `SELECT version_id::text FROM tasktable.goose_db_version GROUP BY 1
		HAVING count(*) > 1`); len(doubled) != 0 {
		t.Errorf("applied more than once: %v", doubled)
	}
}

func TestUpAgainDoesNothing(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := storetest.Pool(t)
	const applied = `SELECT v::text FROM tasktable.goose_db_version AS v UNION ALL SELECT v::text
		FROM tasktable.river_migration AS v`
	schema, versions := dump(ctx, t, pool, "tasktable", true), lines(ctx, t, pool, applied)
	check(t, migrations.Up(ctx, pool, ""))
	same(t, "schema", dump(ctx, t, pool, "tasktable", true), schema)
	same(t, "versions", strings.Join(lines(ctx, t, pool, applied), "\n"), strings.Join(versions, "\n"))
}

// Nothing reads a GIN index of River's, and each job would write to it. Up drops them, and so does a second Up after
// somebody has made one again.
func TestUnreadIndexesAreDropped(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := storetest.Pool(t)
	const gin = `SELECT indexname::text FROM pg_indexes WHERE schemaname = 'tasktable' AND indexdef LIKE '%USING gin%'`
	if left := lines(ctx, t, pool, gin); len(left) != 0 {
		t.Errorf("after Up: %v", left)
	}
	succeeds(t)(pool.Exec(ctx, `CREATE INDEX river_job_args_index ON tasktable.river_job USING gin (args)`))
	check(t, migrations.Up(ctx, pool, ""))
	if left := lines(ctx, t, pool, gin); len(left) != 0 {
		t.Errorf("after a second Up: %v", left)
	}
}

// unmigrated demands of Check an error that says what is missing, and of Up that it mends that.
func unmigrated(ctx context.Context, t *testing.T, pool *pgxpool.Pool, lacks string) {
	t.Helper()
	if err := migrations.Check(ctx, pool, ""); !errors.Is(err, migrations.ErrUnmigrated) ||
		!strings.Contains(err.Error(), lacks) {
		t.Errorf("check: %v, which should name %s", err, lacks)
	}
	check(t, migrations.Up(ctx, pool, ""))
	migrated(ctx, t, pool, "")
}

func TestCheckOfWhatIsUnmigratedOrOlder(t *testing.T) {
	t.Parallel()
	names, err := migrations.Names()
	check(t, err)
	last := names[len(names)-1]
	for name, c := range map[string]struct {
		up    bool
		sql   string
		lacks string
	}{
		"nothing":          {false, ``, "schema tasktable lacks tasktable migration 1 (" + names[0] + ")"},
		"an empty schema":  {false, `CREATE SCHEMA tasktable`, "tasktable migration 1 (" + names[0] + ")"},
		"without the last": {true, withoutLast, last},
		"without River's":  {true, `DROP TABLE tasktable.river_migration CASCADE; ` + dropRiver, "river migration 1"},
		"stopped between the two": {
			true, `TRUNCATE tasktable.river_migration; DROP TABLE tasktable.river_migration CASCADE; ` + dropRiver,
			"river migration 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t)
			pool := emptyPool(ctx, t)
			if c.up {
				check(t, migrations.Up(ctx, pool, ""))
			}
			apply(ctx, t, pool, c.sql)
			unmigrated(ctx, t, pool, c.lacks)
		})
	}
}

// withoutLast undoes the last migration, which must then be named in its place.
const withoutLast = `
	DROP FUNCTION tasktable.after_death CASCADE;
	DROP FUNCTION tasktable.add_cause, tasktable.recurring_id, tasktable.open_notice, tasktable.insert_notice;
	DROP TABLE tasktable.notice_episodes, tasktable.notice_causes, tasktable.notice_rule_recipients,
		tasktable.notice_rules, tasktable.notice_recipients;
	DELETE FROM tasktable.goose_db_version WHERE version_id = 7`

// dropRiver removes what River's migrations made but their table.
const dropRiver = `DO $$ DECLARE made record; BEGIN
	FOR made IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'tasktable'::regnamespace AND c.relkind = 'r'
	AND c.relname LIKE 'river%' LOOP
		EXECUTE format('DROP TABLE tasktable.%I CASCADE', made.relname);
	END LOOP;
	FOR made IN SELECT p.oid::regprocedure AS name FROM pg_proc AS p WHERE p.pronamespace = 'tasktable'::regnamespace
	AND p.proname LIKE 'river%' LOOP
		EXECUTE format('DROP FUNCTION %s CASCADE', made.name);
	END LOOP;
	DROP TYPE tasktable.river_job_state CASCADE;
END $$`

// A program that was rolled back works on the database of the newer one.
func TestNewerSchemasAreAccepted(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := storetest.Pool(t)
	apply(ctx, t, pool, `INSERT INTO tasktable.goose_db_version (version_id, is_applied) VALUES (99, true)`)
	apply(ctx, t, pool, `INSERT INTO tasktable.river_migration (line, version) VALUES ('main', 99)`)
	before := dump(ctx, t, pool, "tasktable", true)
	migrated(ctx, t, pool, "")
	check(t, migrations.Up(ctx, pool, ""))
	same(t, "schema", dump(ctx, t, pool, "tasktable", true), before)
	if _, err := inspect.New(store.Config{}).List(ctx, pool, inspect.Filter{}); err != nil {
		t.Error(err)
	}
}

func TestDownWithoutUp(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := emptyPool(ctx, t)
	check(t, migrations.Down(ctx, pool, ""))
	if made := lines(ctx, t, pool, `SELECT nspname::text FROM pg_namespace
		WHERE nspname = 'tasktable'`); len(made) != 0 {
		t.Error("down made the schema")
	}
	apply(ctx, t, pool, `CREATE SCHEMA tasktable`)
	check(t, migrations.Down(ctx, pool, ""))
	unmigrated(ctx, t, pool, "tasktable migration 1")
}

// Down refuses a newer schema before it removes anything. goose would refuse it when River's tables are gone.
func TestDownRemovesNothingOfANewerSchema(t *testing.T) {
	t.Parallel()
	for _, newer := range []string{
		`INSERT INTO tasktable.goose_db_version (version_id, is_applied) VALUES (99, true)`,
		`INSERT INTO tasktable.river_migration (line, version) VALUES ('main', 99)`,
	} {
		ctx := deadline(t)
		pool := storetest.Pool(t)
		apply(ctx, t, pool, newer)
		before := dump(ctx, t, pool, "tasktable", true)
		if err := migrations.Down(ctx, pool, ""); !errors.Is(err, migrations.ErrNewer) {
			t.Errorf("%s: %v", newer, err)
		}
		same(t, "schema", dump(ctx, t, pool, "tasktable", true), before)
	}
}

// A transaction that has read the tasks makes Down wait. It would otherwise leave the tasks without River's tables and
// without their audit.
func TestDownGivesWay(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	pool := storetest.Pool(t)
	givesWay(ctx, t, pool, "scheduled_tasks", "ACCESS SHARE", migrations.Down)
	unmigrated(ctx, t, pool, "tasktable migration 1")
}

func TestUpEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(deadline(t))
	pool := emptyPool(ctx, t)
	check(t, pool.Ping(ctx))
	cancel()
	for name, call := range map[string]func(context.Context, *pgxpool.Pool, string) error{
		"Up": migrations.Up, "Down": migrations.Down, "Check": migrations.Check,
	} {
		if err := call(ctx, pool, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A migration that needs what an open transaction has locked lets others through, again and again, until it can be
// had. Without that everybody would wait behind it. River's migrations do the same.
func TestUpGivesWay(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"goose_db_version", "river_migration"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t)
			pool := storetest.Pool(t)
			givesWay(ctx, t, pool, table, "ACCESS EXCLUSIVE", migrations.Up)
		})
	}
}

// givesWay locks a table in an open transaction. The migration waits for it, lets others through, and waits again.
func givesWay(ctx context.Context, t *testing.T, pool *pgxpool.Pool, table, mode string,
	migrate func(context.Context, *pgxpool.Pool, string) error) {
	t.Helper()
	tx, err := pool.Begin(ctx)
	check(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	succeeds(t)(tx.Exec(ctx, `LOCK TABLE tasktable.`+table+` IN `+mode+` MODE`))
	done := make(chan error, 1)
	go func() { done <- migrate(ctx, poolOn(ctx, t, pool.Config().ConnString(), 1), "") }()
	waits := map[string]bool{} // each with the time of its beginning
	for gaveWay := false; len(waits) < 2 || !gaveWay; {
		select {
		case err := <-done:
			t.Fatalf("the migration ended while the table was locked: %v", err)
		default:
		}
		now := strings.Join(lines(ctx, t, pool, `SELECT l.pid || ' ' || a.query_start FROM pg_locks AS l
			JOIN pg_stat_activity AS a USING (pid)
			WHERE NOT l.granted AND l.relation = 'tasktable.`+table+`'::regclass`), " ")
		if now != "" {
			waits[now] = true
		}
		gaveWay = now == "" && len(waits) > 0
	}
	check(t, tx.Commit(ctx))
	check(t, <-done)
}
