package cmd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// someDead are dead letters as of fixedNow, put there past the triggers, so that all times and numbers are fixed.
const someDead = `
ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, queue, entity, tenant_id, status, scheduled_at, attempt,
	revision, message,
	created_at, last_status_update, started_at, finished_at, archived_at, archived_note)
SELECT id, payload ->> 'type', payload, queue, entity, tenant, status, finished - interval '1 hour', attempt,
	100 + attempt, message,
	'2026-11-20 12:00Z', finished, CASE WHEN attempt > 0 THEN finished - interval '1 second' END, finished,
	archived, note
FROM (VALUES
	('mail-1', '{"type": "MAIL", "to": "ann@example.org"}'::jsonb, 'mail', 'event:42', 'acme', 'FAILED',
		'2026-11-21 17:30Z'::timestamptz, 5,
		E'421 try later\nat smtp.go:12', NULL::timestamptz, NULL),
	('mail-2', '{"type": "MAIL", "to": "bob@example.org"}', 'mail', 'event:42', 'acme', 'FAILED', '2026-11-21 17:00Z',
		5, E'421 try later\nat smtp.go:99', NULL, NULL),
	('mail-3', '{"type": "MAIL", "to": "cid@example.org"}', 'mail', 'event:43', 'other', 'EXPIRED', '2026-11-19 17:00Z',
		0, 'was not started within 1h', NULL, NULL),
	('log-1', '{"type": "LOG", "message": "hi"}', 'default', NULL, NULL, 'FAILED', '2026-11-21 17:00Z', 1,
		E'\x1b[31mred', NULL, NULL),
	('log-2', '{"type": "LOG", "message": "ho"}', 'default', NULL, NULL, 'FAILED', '2026-11-01 17:00Z', 5, NULL,
		NULL, NULL),
	('old-1', '{"type": "MAIL"}', 'mail', NULL, 'acme', 'FAILED', '2026-11-11 17:00Z', 5, '421 try later',
		'2026-11-12 09:00Z', 'the server was down'),
	('old-2', '{"type": "MAIL"}', 'mail', NULL, 'acme', 'EXPIRED', '2026-11-10 17:00Z', 0, 'was not started within 1h',
		'2026-11-12 09:01Z', NULL),
	('fine', '{"type": "MAIL"}', 'mail', NULL, 'acme', 'COMPLETED', '2026-11-21 17:00Z', 1, NULL, NULL, NULL)
) AS t (id, payload, queue, entity, tenant, status, finished, attempt, message, archived, note);
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
SELECT setval('tasktable.task_numbers', 1000);`

var withDead = with(someDead)

func TestDeadAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	goldenCommands(t, "dead", withDead, asItIs, []goldenCommand{
		{"list", exitOK, []string{"dead", "list"}},
		{"list_first_page", exitOK, []string{"dead", "list", "--limit=2", "--queue=mail", "--asc"}},
		{"list_archived", exitOK, []string{"dead", "list", "--archived"}},
		{"list_none", exitOK, []string{"dead", "list", "--type=NO_SUCH"}},
		{"group", exitOK, []string{"dead", "list", "--group"}},
		{"group_some", exitOK, []string{"dead", "list", "--group", "--limit=1"}},
		{"group_by_entity", exitOK, []string{"dead", "list", "--group-by=entity"}},
		{"group_by_tenant", exitOK, []string{"dead", "list", "--group-by=tenant", "--limit=2"}},
		{"group_none", exitOK, []string{"dead", "list", "--group", "--tenant=nobody"}},
		{"retry", exitFailed, []string{"dead", "retry", "mail-1", "nobody", "fine", "log-1", "mail-1"}},
		{"retry_filter", exitOK, []string{"dead", "retry", "--type=MAIL", "--status=failed", "--yes"}},
		{"retry_all", exitOK, []string{"dead", "retry", "--all", "--yes"}},
		{"retry_some", exitOK, []string{"dead", "retry", "--all", "--limit=2", "--yes"}},
		{"retry_none", exitOK, []string{"dead", "retry", "--message=500", "--yes"}},
		{"retry_refused", exitUsage, []string{"dead", "retry", "--all", "--limit=4"}},
		{"archive", exitFailed, []string{"dead", "archive", "mail-1", "old-1", "fine", "nobody", "--note=refunded"}},
		{"archive_filter", exitOK, []string{"dead", "archive", "--message=421", "--note=the server was down", "--yes"}},
		{"archive_refused", exitUsage, []string{"dead", "archive", "--finished-to=-1d"}},
	})
}

// The list and the question count errors that differ only in an id as one. --pattern takes the pattern that the list
// shows.
func TestDeadLettersOfAPattern(t *testing.T) {
	t.Parallel()
	variables := withDead(t)
	execute(
		t, urlOf(variables),
		`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
UPDATE tasktable.scheduled_tasks SET message = 'image ' || id || ': too large' WHERE type IN ('LOG', 'MAIL');`,
	)
	got := runFixed(t, variables, "dead", "list", "--group", "--type=LOG")
	if got.want(t, exitOK); !strings.Contains(got.stdout, " image * too large\n") {
		t.Errorf("dead list --group: %s", got.stdout)
	}
	got = runFixed(t, variables, "dead", "retry", "--type=LOG", "--pattern=image * too large")
	if got.want(t, exitUsage); !strings.Contains(got.stderr, `2 dead letters (2 FAILED of LOG: "image * too large")`) {
		t.Errorf("the question of dead retry: %s", got.stderr)
	}
}

// Of very many dead letters the groups count those that ended last, and a note says so.
func TestVeryManyDeadLetters(t *testing.T) {
	t.Parallel()
	variables := withDead(t)
	execute(t, urlOf(variables), fmt.Sprintf(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, status, attempt, revision, message, finished_at)
SELECT 'many-' || n, 'MANY', '{"type": "MANY"}', 'FAILED', 5, n, 'broken', now() FROM generate_series(1, %d) AS n;
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`, inspect.MaxGrouped))
	got := runFixed(t, variables, "dead", "list", "--group")
	if got.want(t, exitOK); !strings.Contains(got.stderr, "These are the counts of the 20000 that ended last.") {
		t.Errorf("dead list --group: %s", got.stderr)
	}
}

// listed are the ids of a JSON array.
func listed(t *testing.T, got result) string {
	t.Helper()
	got.want(t, exitOK)
	var rows []struct{ ID string }
	if err := json.Unmarshal([]byte(got.stdout), &rows); err != nil {
		t.Fatalf("%v: %s", err, got.stdout)
	}
	var ids []string
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return strings.Join(ids, " ")
}

// wantLists runs a list with options, and wants these ids.
func wantLists(t *testing.T, variables []string, command string, wants map[string]string) {
	t.Helper()
	for args, want := range wants {
		got := listed(t, runFixed(t, variables, strings.Fields(command+" list --output=json "+args)...))
		if got != want {
			t.Errorf("%s list %s: got  %s\nwant %s", command, args, got, want)
		}
	}
}

func TestDeadListSelects(t *testing.T) {
	t.Parallel()
	wantLists(t, withDead(t), "dead", map[string]string{
		"":                                   "mail-1 mail-2 log-1 mail-3 log-2",
		"--asc":                              "log-2 mail-3 log-1 mail-2 mail-1",
		"--status=failed":                    "mail-1 mail-2 log-1 log-2",
		"--finished-from=-1h":                "mail-1 mail-2 log-1",
		"--finished-to=-1h":                  "mail-3 log-2",
		"--archived":                         "old-1 old-2",
		"--archived --status=EXPIRED":        "old-2",
		"--after=mail-2":                     "log-1 mail-3 log-2",
		"--after=2026-11-21T17:00:00Z/log-1": "mail-3 log-2",
		"--after=mail-3 --asc --limit=2":     "log-1 mail-2",
	})
}

const manyDead = `ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
	INSERT INTO tasktable.scheduled_tasks (id, type, payload, status, revision, finished_at)
		SELECT 'dead ' || i, 'LOG', '{"type": "LOG"}', 'FAILED', i, '2026-11-01Z'::timestamptz + i * interval '1 second'
			FROM generate_series(1, 2500) AS i;
	ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
	SELECT setval('tasktable.task_numbers', 10000)`

// The time is shared by all batches: what ended first is due first, and no second has more than its share.
func TestDeadRetryOverATime(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	execute(t, url, manyDead)
	variables := []string{"DATABASE_URL=" + url}
	got := runFixed(t, variables, "dead", "retry", "--all", "--over=20h", "--yes", "--output=json")
	if found := strings.Count(got.stdout, `"queued"`); found != 2500 {
		t.Errorf("%d retried: %s", found, got.stderr)
	}
	// 20 hours for 2500 are 28.8 s for each.
	execute(t, url, `SELECT 1 / (count(*) = 2499 AND min(gap) > '18 seconds' AND max(gap) < '10 minutes')::int FROM (
		SELECT next_attempt_at - lag(next_attempt_at) OVER (ORDER BY substr(id, 6)::int) AS gap
		FROM tasktable.scheduled_tasks) AS g WHERE gap IS NOT NULL`)
	execute(t, url, `SELECT 1 / (max(next_attempt_at) - min(next_attempt_at)
		BETWEEN '19 hours' AND '20 hours 10 minutes')::int
		FROM tasktable.scheduled_tasks`)
	for _, args := range []string{"one two --over=10m", "--all --over=25h", "--all --over=-1s", "--all --over=0s"} {
		runFixed(t, variables, append([]string{"dead", "retry"}, strings.Fields(args)...)...).want(t, exitUsage)
	}
}

// A filter of many is gone through in batches, and says who did it.
func TestDeadRetryOfMany(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	execute(t, url, manyDead)
	variables := []string{"DATABASE_URL=" + url}
	got := runFixed(t, variables, "dead", "retry", "--type=LOG", "--limit=2100", "--yes", "--output=json")
	if found := strings.Fields(strings.ReplaceAll(listed(t, got), "dead ", "dead-")); len(found) != 2100 {
		t.Errorf("%d retried", len(found))
	}
	execute(t, url, `SELECT 1 / (count(*) = 2100)::int FROM tasktable.scheduled_tasks WHERE status = 'QUEUED'`)
	execute(t, url, `SELECT 1 / (count(*) = 2100)::int FROM tasktable.scheduled_task_changes
		WHERE verb = 'retry' AND outcome = 'queued' AND changed_by = 'tests'`)
	got = runFixed(t, variables, "dead", "archive", "--all", "--note=enough", "--yes", "--output=json")
	if found := strings.Count(got.stdout, `"archived"`); found != 400 {
		t.Errorf("%d archived", found)
	}
	execute(t, url, `SELECT 1 / (count(*) = 400)::int FROM tasktable.scheduled_tasks
		WHERE status = 'FAILED' AND archived_note = 'enough'`)
}
