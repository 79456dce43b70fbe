package cmd

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// After a failover, the statement of UPGRADING.md moves by hand the sequences that a leader moves.
func TestNumbersMoveByHand(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	for _, b := range markdownBlocks(t) {
		if strings.HasPrefix(b.where, "migrations/UPGRADING.md") && strings.Contains(b.text, "+ 10000000)") {
			execute(t, url, b.text)
		}
	}
	ask(t, url, `SELECT least(t.last_value, j.last_value) > 10000000
		FROM tasktable.task_numbers AS t, tasktable.river_job_id_seq AS j`, "true")
}

// The steps of MIGRATING.md, with a script that goes on meanwhile: each event is dealt with once, by the script or by
// a task.
func TestCutOverFromAScript(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	execute(t, url, `
		CREATE TABLE public.events (id text PRIMARY KEY, starts_at timestamptz NOT NULL, reminded_at timestamptz);
		INSERT INTO public.events SELECT n::text, now() + n * interval '50 milliseconds'
			FROM generate_series(1, 40) AS n`)
	const script = `UPDATE public.events SET reminded_at = now() WHERE reminded_at IS NULL AND id::int <= `
	query := written(t, "reminders.sql", `SELECT id AS key, jsonb_build_object('message', id) AS payload,
		starts_at AS scheduled_at FROM public.events WHERE reminded_at IS NULL`)
	database := []string{"DATABASE_URL=" + url}
	reconcile := func(args ...string) int {
		t.Helper()
		return run(t, database, append([]string{"reconcile", "--type=LOG", "--query=" + query}, args...)...).code
	}
	run(t, database, "queues", "pause", "type:LOG", "--reason=the script still does it").want(t, exitOK)
	execute(t, url, script+"10")
	if code := reconcile("--apply"); code != exitOK {
		t.Fatal(code)
	}
	p := start(t, database, "serve")
	p.waitFor("node is up")
	execute(t, url, script+"20")
	if code := reconcile(); code != exitDrift { // what the script has done
		t.Errorf("exit code %d", code)
	}
	ask(t, url, "SELECT count(*) FROM tasktable.late_tasks WHERE is_paused", "30") // all are due, and none has begun
	ask(t, url, "SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'QUEUED'", "30")
	if code := reconcile("--apply"); code != exitOK {
		t.Fatal(code)
	}
	run(t, database, "queues", "resume", "type:LOG").want(t, exitOK)
	ask(t, url, `SELECT string_agg(status || ' ' || count, ', ' ORDER BY status)
		FROM (SELECT status, count(*) FROM tasktable.scheduled_tasks
			GROUP BY status) AS s`, "CANCELLED 10, COMPLETED 20")
	ask(t, url, `SELECT count(*) FROM public.events AS e
		JOIN tasktable.scheduled_tasks AS t ON t.payload ->> 'message' = e.id
		WHERE (e.reminded_at IS NULL) <> (t.status = 'COMPLETED')`, "0")
	p.stop()
}
