package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
)

// reminders is a query on the table that reconcilable makes.
const reminders = `SELECT id AS key, jsonb_build_object('event_id', id) AS payload,
	starts_at - interval '1 hour' AS scheduled_at FROM events;
-- as in the service`

// reconcilable is a database with events, and a reminder in each state in which one can be. It returns its URL.
func reconcilable(t *testing.T) string {
	t.Helper()
	url := storetest.URL(t)
	mustExec(t, url, `CREATE TABLE events (id text PRIMARY KEY, starts_at timestamptz NOT NULL);
		INSERT INTO events SELECT id, '2100-01-01 19:00Z'
			FROM unnest(ARRAY['agrees', 'cancelled', 'done', 'done-but-moved', 'missing', 'moved', 'other']) AS id;
		SELECT tasktable.schedule(jsonb_build_object('type', 'REMIND', 'event_id', id), '2100-01-01 18:00Z',
			'task-REMIND-' || id)
			FROM unnest(ARRAY['agrees', 'cancelled', 'done', 'done-but-moved', 'moved', 'orphan', 'other']) AS id;
		UPDATE events SET starts_at = '2100-01-02 19:30Z' WHERE id IN ('moved', 'done-but-moved');
		SELECT tasktable.schedule('{"type": "REMIND", "event_id": "none"}', '2100-01-01 18:00Z', 'task-REMIND-other',
			queue => 'slow');
		SELECT tasktable.pause('task-REMIND-moved'), tasktable.cancel('task-REMIND-cancelled');
		UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id LIKE 'task-REMIND-done%';
		SELECT tasktable.schedule('{"type": "OTHER"}', '2100-01-01 18:00Z', 'task-OTHER')`)
	return url
}

func mustExec(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func queryFile(t *testing.T, query string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reminders.sql")
	if err := os.WriteFile(path, []byte(query), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const foundTable = `REMIND         TASKS  MEANING
agree          1      wait as the query says
finished       1      have ended at the time that the query says
missing        1      do not exist
cancelled      1      were cancelled
ended          1      have ended at another time
wrong time     1      wait for another time
other content  1      wait for the right time, and differ in another field
orphaned       1      wait, and the query does not yield them

EXAMPLES       ID                          IS                              OUGHT TO BE
missing        task-REMIND-missing         absent                          2100-01-01T18:00:00Z
cancelled      task-REMIND-cancelled       CANCELLED 2100-01-01T18:00:00Z  2100-01-01T18:00:00Z
ended          task-REMIND-done-but-moved  COMPLETED 2100-01-01T18:00:00Z  2100-01-02T18:30:00Z
wrong time     task-REMIND-moved           PAUSED 2100-01-01T18:00:00Z     2100-01-02T18:30:00Z
other content  task-REMIND-other           QUEUED 2100-01-01T18:00:00Z     with another payload
orphaned       task-REMIND-orphan          QUEUED 2100-01-01T18:00:00Z     absent

`

const left = "1 task that has ended at another time was left as it is; --rearm runs it again.\n"

const endedTable = `REMIND         TASKS  MEANING
agree          5      wait as the query says
finished       1      have ended at the time that the query says
missing        0      do not exist
cancelled      0      were cancelled
ended          1      have ended at another time
wrong time     0      wait for another time
other content  0      wait for the right time, and differ in another field
orphaned       0      wait, and the query does not yield them

EXAMPLES  ID                          IS                              OUGHT TO BE
ended     task-REMIND-done-but-moved  COMPLETED 2100-01-01T18:00:00Z  2100-01-02T18:30:00Z

`

const agreedTable = `REMIND         TASKS  MEANING
agree          6      wait as the query says
finished       1      have ended at the time that the query says
missing        0      do not exist
cancelled      0      were cancelled
ended          0      have ended at another time
wrong time     0      wait for another time
other content  0      wait for the right time, and differ in another field
orphaned       0      wait, and the query does not yield them

All agree.
`

func TestReconcileReportsAndMends(t *testing.T) {
	t.Parallel()
	variables := []string{"DATABASE_URL=" + reconcilable(t), "TASKTABLE_RECONCILE_TYPE=REMIND",
		"TASKTABLE_RECONCILE_QUERY=" + queryFile(t, reminders)}
	for _, step := range []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"looking", nil, exitDrift, foundTable + "Nothing was changed.\n",
			"tasktable: 6 tasks are not as the query says; --apply mends them, except the 1 that has ended, which " +
				"needs --rearm, too\n"},
		{"mending", []string{"--apply"}, exitOK,
			foundTable + "Mended: 1 created, 2 rescheduled, 1 rearmed, 1 cancelled.\n" + left, ""},
		{"mending again", []string{"--apply"}, exitOK, endedTable + "Nothing was changed.\n" + left, ""},
		{"running it again", []string{"--apply", "--rearm"}, exitOK, endedTable + "Mended: 1 rearmed.\n", ""},
		{"looking again", nil, exitOK, agreedTable, ""},
		{"mending what agrees", []string{"--apply"}, exitOK, agreedTable, ""},
	} {
		got := run(t, variables, append([]string{"reconcile"}, step.args...)...)
		got.want(t, step.code)
		if got.stdout != step.stdout || got.stderr != step.stderr {
			t.Errorf("%s:\n%s%s\nwant:\n%s%s", step.name, got.stdout, got.stderr, step.stdout, step.stderr)
		}
	}
}

func TestReconcileWithoutExamples(t *testing.T) {
	got := run(t, []string{"DATABASE_URL=" + reconcilable(t)}, "reconcile", "--type=REMIND", "--query",
		queryFile(t, reminders), "--examples=0")
	got.want(t, exitDrift)
	if !strings.HasSuffix(got.stdout, "yield them\n\nNothing was changed.\n") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
}

func TestReconcileReadsTheQueryFromStdin(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "reconcile", "--type=REMIND", "--query=-", "--apply",
		"--service=someone")
	url := reconcilable(t)
	cmd.Env = asProgramIn("DATABASE_URL=" + url)
	cmd.Stdin = strings.NewReader("SELECT '' AS key, now() AS scheduled_at WHERE false")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Mended: 4 cancelled.") {
		t.Fatalf("%v\n%s", err, out)
	}
	mustExec(t, url, `SELECT 1 / count(*) FROM tasktable.scheduled_task_changes WHERE verb = 'cancel'
		AND changed_by = 'someone'`)
}

func TestReconcileWithWrongOptions(t *testing.T) {
	file := queryFile(t, reminders)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no type":      {[]string{"--query", file}, "--type (TASKTABLE_RECONCILE_TYPE) is missing"},
		"no query":     {[]string{"--type=REMIND"}, "--query (TASKTABLE_RECONCILE_QUERY) is missing"},
		"no such file": {[]string{"--type=REMIND", "--query=/nonexistent.sql"}, "/nonexistent.sql: no such file"},
		"a folder":     {[]string{"--type=REMIND", "--query", t.TempDir()}, "is a directory"},
		"wrong type": {[]string{"--type=?", "--query", file},
			"--type (TASKTABLE_RECONCILE_TYPE) must be 2 to 127 letters"},
		"no duration": {[]string{"--timeout=0s", "--type=REMIND", "--query", file},
			"--timeout (TASKTABLE_RECONCILE_TIMEOUT) must be between 1ms and 1d"},
		"many examples": {[]string{"--examples=1001", "--type=REMIND", "--query", file},
			"--examples (TASKTABLE_RECONCILE_EXAMPLES) must be a whole number from 0 to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, []string{"DATABASE_URL=postgres://127.0.0.1:1/x"},
				append([]string{"reconcile"}, test.args...)...).want(t, exitUsage, test.want)
		})
	}
}

func TestReconcileRefusesAQueryThatWouldWrite(t *testing.T) {
	t.Parallel()
	variables := []string{"DATABASE_URL=" + reconcilable(t)}
	for query, want := range map[string]string{
		`DELETE FROM events RETURNING id AS key, starts_at AS scheduled_at`: "query must be one SELECT that only " +
			"reads",
		reminders + "\n; DELETE FROM events":                                  "query is wrong",
		`SELECT id AS key, starts_at AS scheduled_at, 1 AS color FROM events`: `a column "color"`,
		`SELECT id AS key, starts_at AS scheduled_at FROM evnts`:              "query is wrong in line 1",
	} {
		for _, apply := range []string{"--apply=false", "--apply"} {
			got := run(t, variables, "reconcile", "--type=REMIND", "--query", queryFile(t, query), apply)
			got.want(t, exitUsage, want)
			if got.stdout != "" {
				t.Errorf("stdout:\n%s", got.stdout)
			}
		}
	}
	got := run(t, variables, "reconcile", "--type=REMIND", "--query", queryFile(t, reminders))
	got.want(t, exitDrift)
	if !strings.HasPrefix(got.stdout, foundTable) {
		t.Errorf("something was changed:\n%s", got.stdout)
	}
}

func TestReconcileTimesOut(t *testing.T) {
	slow := queryFile(t, `SELECT 1 AS key, now() AS scheduled_at FROM pg_sleep(60)`)
	run(t, []string{"DATABASE_URL=" + storetest.URL(t)}, "reconcile", "--type=REMIND", "--query", slow,
		"--timeout=20ms").
		want(t, exitFailed, "statement timeout")
}

func TestReconcileNeedsAMigratedDatabase(t *testing.T) {
	run(t, []string{"DATABASE_URL=" + storetest.EmptyURL(t)}, "reconcile", "--type=REMIND", "--query",
		queryFile(t, reminders)).
		want(t, exitUnmigrated, "not migrated")
}

// The other transaction keeps a lock until the first try waits for it; the second finds what that one left, and mends.
func TestReconcileComparesAnewAfterAConflict(t *testing.T) {
	t.Parallel()
	url := reconcilable(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT tasktable.cancel('task-REMIND-orphan')`); err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"DATABASE_URL=" + url}, "reconcile", "--type=REMIND", "--query", queryFile(t, reminders),
		"--apply")
	deadline := time.Now().Add(waitLimit)
	for waits := false; !waits; {
		if err := tx.QueryRow(t.Context(),
			`SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))
				FROM pg_sleep(0.01)`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("reconcile never came to the lock")
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.waitFor("compares anew")
	got := p.end()
	got.want(t, exitOK)
	if !strings.Contains(got.stdout, "Mended: 1 created, 2 rescheduled, 1 rearmed.\n") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
}
