package doctor

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
)

var update = flag.Bool("update", false, "write structure.sql anew")

// Of River's and goose's indexes those without which the engine is slow; they are free to have others.
const structureOfSQL = `
SELECT o.definition || ';' FROM (
    SELECT c.relname, i.relname AS name, pg_get_indexdef(i.oid) AS definition FROM pg_index AS x
    JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_class AS c ON c.oid = x.indrelid
    WHERE c.relnamespace = 'tasktable'::regnamespace AND (c.relname !~ '^(river|goose)_'
        OR i.relname IN ('river_job_pkey', 'river_job_prioritized_fetching_index',
            'river_job_state_and_finalized_at_index'))
    UNION ALL
    SELECT c.relname, t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'tasktable'::regnamespace AND NOT t.tgisinternal
) AS o ORDER BY o.relname COLLATE "C", o.name COLLATE "C"`

// The structure is what the migrations make. After a change of one,
//
//	go test ./scheduled/doctor -run TestStructureIsWhatTheMigrationsMake -update
//
// writes the file.
func TestStructureIsWhatTheMigrationsMake(t *testing.T) {
	p := newPatient(t)
	conn := p.connect()
	p.on(conn, "SET search_path = pg_catalog")
	found, err := conn.Query(p.ctx, structureOfSQL)
	ok(t, err)
	statements, err := pgx.CollectRows(found, pgx.RowTo[string])
	ok(t, err)
	var lines strings.Builder
	for _, statement := range statements {
		lines.WriteString(wrapped(statement) + "\n")
	}
	got := lines.String()
	if *update {
		ok(t, os.WriteFile("structure.sql", []byte(got), 0o644))
		return
	}
	if got != structureSQL {
		t.Errorf("structure.sql is not what the migrations make, but:\n%s", got)
	}
	e := &examination{}
	if triggers, indexes := len(e.structure("TRIGGER")),
		len(e.structure("INDEX")); triggers+indexes != len(statements) ||
		triggers < 10 {
		t.Errorf("of %d statements it reads %d triggers and %d indexes", len(statements), triggers, indexes)
	}
}

// wrapped breaks a statement into lines of at most 120 characters, as structure reads it.
func wrapped(statement string) string {
	var out strings.Builder
	width := 0
	for i, word := range strings.Split(statement, " ") {
		switch {
		case i > 0 && width+1+len(word) > 120:
			out.WriteString("\n    ")
			width = 4
		case i > 0:
			out.WriteString(" ")
			width++
		}
		out.WriteString(word)
		width += len(word)
	}
	return out.String()
}

// In another schema it is the same structure.
func TestStructureOfAnotherSchema(t *testing.T) {
	t.Parallel()
	p := at(t, storetest.EmptyURL(t))
	ok(t, migrations.Up(p.ctx, p.pool, "jobs"))
	examine := func(only ...string) Report {
		return p.examineBy(func(c *Config) { c.Schema, c.Only = "jobs", only })
	}
	p.well(examine("versions", "triggers", "indexes", "permissions"))
	p.exec(`ALTER TABLE jobs.scheduled_tasks DISABLE TRIGGER zzz_task_1_edit`)
	found := p.finds(examine("triggers"), "triggers", Error, "zzz_task_1_edit of jobs.scheduled_tasks is disabled")
	p.exec(found.Do)
	p.well(examine("triggers"))
	p.exec(`DELETE FROM jobs.goose_db_version WHERE version_id > 3`)
	p.finds(examine("versions"), "versions", Error, "the schema is at version 3")
	if found := p.finds(
		examine("versions"), "versions", Error, "version 3",
	); found.Do != "tasktable migrate --schema jobs" {
		t.Errorf("it says %q", found.Do)
	}
}

func TestTriggers(t *testing.T) {
	p := newPatient(t)
	p.well(p.examine(nil, "triggers"))

	p.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER task_4_update`)
	p.cures("triggers", Error, "task_4_update of tasktable.scheduled_tasks is disabled")

	p.exec(`ALTER TABLE tasktable.scheduled_task_changes ENABLE REPLICA TRIGGER append_only`)
	p.cures("triggers", Error, "append_only of tasktable.scheduled_task_changes is disabled")

	p.exec(`DROP TRIGGER task_5_held ON tasktable.scheduled_tasks`)
	p.cures("triggers", Error, "task_5_held of tasktable.scheduled_tasks is missing")

	p.exec(`DROP TRIGGER task_3_insert ON tasktable.scheduled_tasks; CREATE TRIGGER task_3_insert
		AFTER INSERT ON tasktable.scheduled_tasks
		FOR EACH ROW EXECUTE FUNCTION tasktable.after_task_change()`)
	p.cures("triggers", Error, "task_3_insert of tasktable.scheduled_tasks is another")

	p.exec(`CREATE TRIGGER task_9_own_insert AFTER INSERT ON tasktable.scheduled_tasks
		FOR EACH ROW EXECUTE FUNCTION tasktable.after_task_change()`) // as the script of roles makes one
	p.well(p.examine(nil, "triggers"))
	p.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER task_9_own_insert`)
	p.cures("triggers", Error,
		"task_9_own_insert of tasktable.scheduled_tasks is disabled", "applications can change the tasks of other services")

	p.exec(`CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER watch AFTER INSERT ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION public.watch()`)
	p.finding("triggers", Info, "trigger watch of tasktable.scheduled_tasks is not Tasktable's")
}

func TestIndexes(t *testing.T) {
	p := newPatient(t)
	p.well(p.examine(nil, "indexes"))

	p.exec(`DROP INDEX tasktable.scheduled_tasks_claimable`)
	p.cures("indexes", Error, "scheduled_tasks_claimable of tasktable.scheduled_tasks is missing")

	p.exec(`DROP INDEX tasktable.river_job_prioritized_fetching_index`)
	p.cures("indexes", Error, "river_job_prioritized_fetching_index")

	p.exec(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'tasktable.scheduled_tasks_entity'::regclass`)
	p.cures("indexes", Error, "scheduled_tasks_entity of tasktable.scheduled_tasks is invalid")

	p.exec(`DROP INDEX tasktable.pauses_ends_at; CREATE INDEX pauses_ends_at ON tasktable.pauses (paused_at)`)
	p.cures("indexes", Error, "pauses_ends_at of tasktable.pauses is another")

	p.exec(`CREATE INDEX ours ON tasktable.scheduled_tasks (status)`)
	p.finding("indexes", Info, "index ours of tasktable.scheduled_tasks is not Tasktable's")
	p.exec(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'tasktable.ours'::regclass`)
	p.cures("indexes", Warning, "index ours of tasktable.scheduled_tasks is invalid")
}

// What a newer or older schema has may differ: it is not compared.
func TestStructureOfAnotherVersion(t *testing.T) {
	p := newPatient(t)
	p.exec(`DROP INDEX tasktable.scheduled_tasks_claimable;
		INSERT INTO tasktable.goose_db_version (version_id, is_applied) VALUES (1000, true)`)
	report := p.examine(nil, "versions", "indexes", "triggers")
	p.finds(report, "versions", Info, "the schema is at version 1000, newer than this program's")
	p.finds(report, "indexes", Info, "not compared")
	p.finds(report, "triggers", Info, "not compared")
}
