package cmd

import (
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
	execute(t, url, `CREATE TABLE events (id text PRIMARY KEY, starts_at timestamptz NOT NULL);
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

func TestReconcileReportsAndMends(t *testing.T) {
	t.Parallel()
	variables := []string{"DATABASE_URL=" + reconcilable(t), "TASKTABLE_RECONCILE_TYPE=REMIND",
		"TASKTABLE_RECONCILE_QUERY=" + written(t, "reminders.sql", reminders)}
	for _, step := range []struct {
		name string
		code int
		args []string
	}{
		{"1_looking", exitDrift, nil},
		{"2_mending", exitOK, []string{"--apply"}},
		{"3_mending_again", exitOK, []string{"--apply"}},
		{"4_running_it_again", exitOK, []string{"--apply", "--rearm"}},
		{"5_looking_again", exitOK, nil},
		{"6_mending_what_agrees", exitOK, []string{"--apply"}},
	} {
		got := run(t, variables, append([]string{"reconcile"}, step.args...)...)
		got.want(t, step.code)
		golden(t, "reconcile/"+step.name+".txt", got.stdout+"--\n"+got.stderr)
	}
}

func TestReconcileWithoutExamples(t *testing.T) {
	got := run(t, []string{"DATABASE_URL=" + reconcilable(t)}, "reconcile", "--type=REMIND", "--query",
		written(t, "reminders.sql", reminders), "--examples=0")
	got.want(t, exitDrift)
	if !strings.HasSuffix(got.stdout, "yield them\n\nNothing was changed.\n") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
}

func TestReconcileReadsTheQueryFromStdin(t *testing.T) {
	t.Parallel()
	url := reconcilable(t)
	got := asProcess(t, []string{"DATABASE_URL=" + url}, "SELECT '' AS key, now() AS scheduled_at WHERE false",
		"reconcile", "--type=REMIND", "--query=-", "--apply", "--service=someone")
	if got.want(t, exitOK); !strings.Contains(got.stdout, "Mended: 4 cancelled.") {
		t.Fatal(got.stdout)
	}
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.scheduled_task_changes WHERE verb = 'cancel'
		AND changed_by = 'someone'`)
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
			got := run(t, variables, "reconcile", "--type=REMIND", "--query", written(t, "reminders.sql", query), apply)
			got.want(t, exitUsage, want)
			if got.stdout != "" {
				t.Errorf("stdout:\n%s", got.stdout)
			}
		}
	}
	got := run(t, variables, "reconcile", "--type=REMIND", "--query", written(t, "reminders.sql", reminders))
	got.want(t, exitDrift)
	golden(t, "reconcile/1_looking.txt", got.stdout+"--\n"+got.stderr) // nothing was changed
}

func TestReconcileTimesOut(t *testing.T) {
	slow := written(t, "reminders.sql", `SELECT 1 AS key, now() AS scheduled_at FROM pg_sleep(60)`)
	run(t, []string{"DATABASE_URL=" + storetest.URL(t)}, "reconcile", "--type=REMIND", "--query", slow,
		"--timeout=20ms").
		want(t, exitFailed, "statement timeout")
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
	p := start(t, []string{"DATABASE_URL=" + url}, "reconcile", "--type=REMIND", "--apply", "--query",
		written(t, "reminders.sql", reminders))
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
