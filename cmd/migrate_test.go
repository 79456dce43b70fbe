package cmd

import (
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/storetest"
)

func TestMigrateUpStatusAndDown(t *testing.T) {
	t.Parallel()
	database := []string{"DATABASE_URL=" + storetest.EmptyURL(t)}
	expect := func(stdout string, args ...string) {
		t.Helper()
		got := run(t, database, args...)
		got.want(t, exitOK)
		if !strings.Contains(got.stdout, stdout) {
			t.Errorf("%v: stdout lacks %q:\n%s", args, stdout, got.stdout)
		}
		if got.stderr != "" {
			t.Errorf("%v: stderr: %s", args, got.stderr)
		}
	}
	state := func(want string) {
		t.Helper()
		got := run(t, database, "migrate", "status")
		got.want(t, exitOK)
		if states(got) != want {
			t.Errorf("not all migrations are %s:\n%s", want, got.stdout)
		}
	}
	state("pending")
	expect("Schema tasktable of ", "migrate")
	state("applied")
	expect("was up to date", "migrate", "up")
	expect("Removed all tables from schema tasktable", "migrate", "down", "--yes")
	state("pending")
	expect("is migrated", "migrate", "up")
	state("applied")
}

// states is what stands in the table that migrate status prints: applied, pending, or both.
func states(status result) string {
	found := map[string]bool{}
	sources := map[string]bool{}
	for line := range strings.Lines(status.stdout) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[0] != "SOURCE" {
			sources[fields[0]], found[fields[2]] = true, true
		}
	}
	if !sources["tasktable"] || !sources["river"] {
		return "no table of migrations"
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " and ")
}

func TestMigrateIntoAnotherSchema(t *testing.T) {
	t.Parallel()
	url := storetest.EmptyURL(t)
	run(t, []string{"DATABASE_URL=" + url, "TASKTABLE_SCHEMA=jobs"}, "migrate").want(t, exitOK)
	ask(t, url, `SELECT string_agg(DISTINCT schemaname::text, ' ') FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`, "jobs")
}

func TestMigrateRefusesAReservedWordAsSchema(t *testing.T) {
	run(t, []string{"DATABASE_URL=" + storetest.EmptyURL(t)}, "migrate", "--schema=select").want(t, exitUsage,
		"reserved word")
}

// Print needs no database: this one would be unreachable.
func TestMigratePrintsTheSQL(t *testing.T) {
	got := run(t, []string{"DATABASE_URL=postgres://127.0.0.1:1/x"}, "migrate", "print", "--schema=jobs")
	got.want(t, exitOK)
	for _, want := range []string{"CREATE SCHEMA IF NOT EXISTS jobs;", "CREATE TABLE jobs.scheduled_tasks",
		"jobs.river_job"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("stdout lacks %q", want)
		}
	}
	if strings.Contains(got.stdout, "tasktable.") {
		t.Error("the default schema is in it")
	}
}

// The session URL is the direct one, and only through that the lock of migrations holds.
func TestMigrateGoesPastThePooler(t *testing.T) {
	t.Parallel()
	direct := storetest.EmptyURL(t)
	pooler := storetest.EmptyURL(t) // stands for one: another database, which must stay empty
	variables := []string{"DATABASE_URL=" + pooler, "TASKTABLE_SESSION_DATABASE_URL=" + direct}
	run(t, variables, "migrate").want(t, exitOK)
	if got := run(t, []string{"DATABASE_URL=" + direct}, "migrate", "status"); states(got) != "applied" {
		t.Errorf("the direct database is not migrated:\n%s", got.stdout)
	}
	if got := run(t, []string{"DATABASE_URL=" + pooler}, "migrate", "status"); states(got) != "pending" {
		t.Errorf("the pooler's database is migrated:\n%s", got.stdout)
	}
}

// A program that was rolled back serves a newer schema; one that is newer than its schema says what is missing, and
// does not begin.
func TestServeOnAnotherVersionsSchema(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	for step := range strings.SplitSeq(readFile(t, "migrations/testdata/newer.sql"), "-- step\n") {
		execute(t, url, step)
	}
	p := start(t, []string{"DATABASE_URL=" + url, "TASKTABLE_MIGRATE=true"}, "serve")
	p.waitFor("msg=serving ")
	execute(t, url, `SELECT tasktable.schedule('{"type":"LOG","message":"hi"}', id => 'hi')`)
	ask(t, url, "SELECT status FROM tasktable.scheduled_tasks WHERE id = 'hi'", "COMPLETED")
	p.stop()

	execute(t, url, `DELETE FROM tasktable.goose_db_version WHERE version_id >= 4`)
	for _, command := range [][]string{{"serve"}, {"reconcile", "--type=LOG", "--query=" + os.DevNull}} {
		run(t, []string{"DATABASE_URL=" + url}, command...).want(t, exitUnmigrated,
			"the database is not migrated: schema tasktable lacks tasktable migration 4 (00004_")
	}
}

// Nodes would go on without their tables.
func TestMigrateDownIsRefusedWhileNodesWork(t *testing.T) {
	t.Parallel()
	variables := []string{"DATABASE_URL=" + storetest.EmptyURL(t), "TASKTABLE_SCHEMA=jobs"}
	p := start(t, variables, "serve", "--migrate")
	p.waitFor("msg=serving ")
	p.waitFor("node is up")
	run(t, variables, "migrate", "down", "--yes").want(t, exitFailed,
		"nodes are at work on schema jobs, numbers [1]: stop them first")
	if got := run(t, variables, "migrate", "status"); states(got) != "applied" {
		t.Errorf("something was removed:\n%s", got.stdout)
	}
	p.signal(syscall.SIGKILL)
	p.end()
	for limit := time.Now().Add(waitLimit); ; { // until the server has noticed
		if got := run(t, variables, "migrate", "down", "--yes"); got.code == exitOK {
			break
		} else if time.Now().After(limit) {
			t.Fatal(got.stderr)
		}
	}
	if got := run(t, variables, "migrate", "status"); states(got) != "pending" {
		t.Errorf("something is left:\n%s", got.stdout)
	}
}
