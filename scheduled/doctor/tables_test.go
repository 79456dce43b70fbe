package doctor

import "testing"

func TestAutovacuumOfATable(t *testing.T) {
	p := newPatient(t)
	p.finding("autovacuum", OK, "last vacuumed: river_job", "scheduled_tasks")
	p.exec(`ALTER TABLE tasktable.scheduled_tasks SET (autovacuum_enabled = off)`)
	p.cures("autovacuum", Warning, "autovacuum is off for tasktable.scheduled_tasks")
}

const manySQL = `INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
	SELECT 'task ' || n, '{"type":"TEST"}', '2100-01-01Z' FROM generate_series(1, 3000) AS n`

// Dead rows that nobody removes, as behind an old snapshot.
func TestDeadRows(t *testing.T) {
	p := newPatient(t)
	holder := p.connect()
	p.exec(manySQL)
	p.on(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1") // autovacuum, should it come, removes none
	p.exec(`UPDATE tasktable.scheduled_tasks SET priority = 1`)
	p.until("the statistics tell",
		`SELECT n_dead_tup >= 3000 FROM pg_stat_all_tables WHERE relid = 'tasktable.scheduled_tasks'::regclass`)
	p.well(p.examine(nil, "autovacuum"))
	few := func(l *limits) { l.dead = 1000 }
	p.finds(p.examine(few, "autovacuum"), "autovacuum", Warning, "tasktable.scheduled_tasks has 3",
		"and 3000 dead ones; autovacuum begins with")
	p.on(holder, "ROLLBACK")
	p.exec(`VACUUM ANALYZE tasktable.scheduled_tasks, tasktable.scheduled_task_changes`)
	p.until("the statistics tell",
		`SELECT n_dead_tup = 0 FROM pg_stat_all_tables WHERE relid = 'tasktable.scheduled_tasks'::regclass`)
	p.well(p.examine(few, "autovacuum"))
}

func TestNeverAnalyzed(t *testing.T) {
	p := newPatient(t)
	// It comes each minute.
	p.exec(`ALTER TABLE tasktable.scheduled_task_changes SET (autovacuum_analyze_threshold = 1000000)`)
	p.exec(`ALTER TABLE tasktable.scheduled_tasks SET (autovacuum_analyze_threshold = 1000000)`)
	p.exec(manySQL)
	p.until("the statistics tell",
		`SELECT n_live_tup >= 3000 FROM pg_stat_all_tables WHERE relid = 'tasktable.scheduled_task_changes'::regclass`)
	few := func(l *limits) { l.dead = 1000 }
	p.well(p.examine(nil, "autovacuum"))
	p.finds(p.examine(few, "autovacuum"), "autovacuum", Warning,
		"tasktable.scheduled_tasks has 3000 rows, and was never analyzed")
	found := p.finds(p.examine(few, "autovacuum"), "autovacuum", Warning,
		"tasktable.scheduled_task_changes has 3000 rows, and was never analyzed")
	p.exec(found.Do)
	p.exec(`ANALYZE tasktable.scheduled_tasks`)
	p.until("the statistics tell",
		`SELECT last_analyze IS NOT NULL FROM pg_stat_all_tables WHERE relid = 'tasktable.scheduled_tasks'::regclass`)
	p.well(p.examine(few, "autovacuum"))
}

func TestHowNearWraparoundIs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row  wraparoundRow
		want Level
	}{
		"young":                 {wraparoundRow{"", 100_000_000, 5, 200_000_000, 400_000_000}, OK},
		"freezing just begins":  {wraparoundRow{"", 210_000_000, 5, 200_000_000, 400_000_000}, OK},
		"freezing does not end": {wraparoundRow{"", 300_000_000, 5, 200_000_000, 400_000_000}, Warning},
		"locks":                 {wraparoundRow{"", 1000, 600_000_000, 200_000_000, 400_000_000}, Warning},
		"near":                  {wraparoundRow{"", 1_700_000_000, 5, 200_000_000, 400_000_000}, Error},
		"near, of locks":        {wraparoundRow{"", 1000, 1_700_000_000, 200_000_000, 400_000_000}, Error},
	} {
		if got := test.row.level(); got != test.want || (got == OK) != (test.row.do() == "") {
			t.Errorf("%s: %s, to do %q", name, got, test.row.do())
		}
	}
}

func TestBloat(t *testing.T) {
	p := newPatient(t)
	small := func(l *limits) { l.bloat = 200 << 10 }
	p.exec(`ALTER TABLE tasktable.scheduled_tasks SET (autovacuum_enabled = off)`)
	// ANALYZE and VACUUM set the number of rows. A session tells its inserts and deletes up to a second later, and
	// Postgres adds them to that number. So the test waits for them first.
	p.exec(manySQL)
	p.until("the inserts are told",
		`SELECT n_tup_ins >= 3000 FROM pg_stat_all_tables WHERE relid = 'tasktable.scheduled_tasks'::regclass`)
	p.exec(`ANALYZE tasktable.scheduled_tasks, tasktable.scheduled_task_changes`)
	p.well(p.examine(small, "bloat")) // full, and half empty by its fillfactor
	p.exec(`DELETE FROM tasktable.scheduled_tasks WHERE id <> 'task 3000' AND id NOT LIKE 'task %0'`)
	p.until("the deletes are told",
		`SELECT n_tup_del >= 2700 FROM pg_stat_all_tables WHERE relid = 'tasktable.scheduled_tasks'::regclass`)
	p.exec(`VACUUM ANALYZE tasktable.scheduled_tasks`)
	p.until("the statistics tell",
		`SELECT n_live_tup < 400 FROM pg_stat_all_tables WHERE relid = 'tasktable.scheduled_tasks'::regclass`)
	p.well(p.examine(nil, "bloat")) // as a whole too small to matter
	report := p.examine(small, "bloat")
	p.finds(report, "bloat", Warning, "tasktable.scheduled_tasks takes", "and its 300 rows would take about")
	p.finds(p.examine(func(l *limits) { l.bloat = 50 << 10 }, "bloat"), "bloat", Warning,
		"index tasktable.scheduled_tasks_pkey takes", "entries of 300 rows")
	p.exec(`VACUUM FULL tasktable.scheduled_tasks`)
	p.well(p.examine(small, "bloat"))
}
