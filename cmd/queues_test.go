package cmd

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// someQueues have tasks that have long been due, and such as nobody lives to see, since what is due the database's
// own clock says.
const someQueues = `
ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, queue, priority, status, revision, next_attempt_at, fence,
	lease_expires_at)
SELECT queue || kind || priority || ' ' || i, kind, jsonb_build_object('type', kind), queue, priority,
	CASE WHEN i <= due + waiting THEN 'QUEUED' ELSE 'EXECUTING' END, i,
	CASE WHEN i <= due THEN '2020-01-01Z'::timestamptz + i * interval '1 hour' WHEN i <= due + waiting
	THEN '2100-01-01Z'::timestamptz + i * interval '1 hour' END,
	CASE WHEN i > due + waiting THEN i END, CASE WHEN i > due + waiting THEN '2100-01-01Z'::timestamptz END
FROM (VALUES ('default', 'LOG', 0, 3, 2, 2), ('default', 'LOG', 5, 1, 0, 0), ('default', 'MAIL', -10, 0, 4, 0),
	('mail', 'MAIL', 0, 10001, 1, 1))
	AS lane (queue, kind, priority, due, waiting, running)
	CROSS JOIN LATERAL generate_series(1, due + waiting + running) AS i;
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
INSERT INTO tasktable.pauses (number, scope, name, paused_at, paused_by, ends_at, reason) VALUES
	(101, 'queue', 'mail', '2026-11-21 17:00Z', 'tasktable:ann', '2100-01-01Z', 'the mail server moves'),
	(102, 'type', 'MAIL', '2026-11-20 17:00Z', 'tasktable:bob', NULL, NULL),
	(103, 'queue', 'stopped', '2026-11-20 17:00Z', 'tasktable:bob', NULL, NULL),
	(104, 'all', '', '2026-11-20 17:00Z', 'tasktable:bob', '2026-11-20 18:00Z', 'over');`

func withQueues(t *testing.T) []string {
	t.Helper()
	url := storetest.URL(t)
	execute(t, url, someQueues)
	withNodesIn(t, url)
	return []string{"DATABASE_URL=" + url}
}

func TestQueuesAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	goldenCommands(t, "queues", withQueues, asItIs, []goldenCommand{
		{"list", exitOK, []string{"queues", "list"}},
		{"list_exact", exitOK, []string{"queues", "list", "--exact", "--queue=mail"}},
		{"list_lanes", exitOK, []string{"queues", "list", "--lanes"}},
		{"list_none", exitOK, []string{"queues", "list", "--queue=none"}},
		{"pause", exitOK, []string{"queues", "pause", "mail", "type:LOG", "default", "mial", "type:LOGG",
			"--until=2100-01-01", "--reason=the mail server moves"}},
		{"pause_all", exitOK, []string{"queues", "pause", "all", "--yes"}},
		{"pause_all_refused", exitUsage, []string{"queues", "pause", "mail", "all"}},
		{"pause_in_the_past", exitUsage, []string{"queues", "pause", "mail", "--until=-1s"}},
		{"resume", exitOK, []string{"queues", "resume", "mail", "type:MAIL", "all", "queue:default", "mial"}},
	})
}

func TestPausesAreAsAsked(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	variables := []string{"DATABASE_URL=" + url}
	runFixed(t, variables, "queues", "pause", "mail", "queue:all", "type:LOG", "all", "--until=2100-01-01 12:00",
		"--reason=it moves", "--yes").want(t, exitOK)
	execute(t, url, `SELECT 1 / (string_agg(scope || ':' || name, ' '
		ORDER BY scope, name) = 'all: queue:all queue:mail type:LOG')::int FROM tasktable.pauses
		WHERE ends_at = '2100-01-01 12:00Z' AND reason = 'it moves' AND paused_by = 'tests'`)
	runFixed(t, variables, "queues", "pause", "mail").want(t, exitOK)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.pauses WHERE scope = 'queue' AND name = 'mail'
		AND ends_at IS NULL AND reason IS NULL`)
	if got := runFixed(t, variables, "queues", "pause", "mail"); !strings.Contains(got.stdout, "unchanged") {
		t.Errorf("the same again: %s", got.stdout)
	}
	completed := run(t, variables, "__complete", "queues", "resume", "")
	if completed.stdout != "all\nqueue:all\nmail\ntype:LOG\n:4\n" {
		t.Errorf("the shell completes %q", completed.stdout)
	}
	runFixed(t, variables, "queues", "resume", "all", "mail").want(t, exitOK)
	execute(t, url, `SELECT 1 / (string_agg(scope || ':' || name, ' '
		ORDER BY scope, name) = 'queue:all type:LOG')::int FROM tasktable.pauses
		WHERE ends_at IS NULL OR ends_at > clock_timestamp()`)
	execute(t, url, `SELECT 1 / (count(*) = 2)::int FROM tasktable.pauses WHERE resumed_by = 'tests'`)
}
