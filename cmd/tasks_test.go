package cmd

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// someTasks are in most states that a task can be in, as of fixedNow, put there past the triggers, so that all times
// and numbers are fixed.
const someTasks = `
ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, queue, entity, tenant_id, status, priority, scheduled_at,
	attempt, revision, next_attempt_at,
	fence, lease_expires_at, message, result, created_at, last_status_update, started_at, finished_at, expiration,
	paused_until, cron, time_zone, scheduled_by)
SELECT id, payload ->> 'type', payload, queue, entity, tenant, status, priority, at, attempt, revision,
	CASE WHEN status = 'QUEUED' THEN at END,
	fence, held, message, result, '2026-11-20 12:00Z', '2026-11-20 12:00Z', started, finished, expiration, until, cron,
	zone, 'events-api'
FROM (VALUES
	('task-MAIL-1', '{"type": "MAIL", "to": "ann@example.org", "n": [1, 2]}'::jsonb, 'mail', 'event:42', 'acme',
		'QUEUED', 5, '2026-11-21 21:00Z'::timestamptz, 0, 101,
		NULL::bigint, NULL::timestamptz, NULL, NULL::jsonb, NULL::timestamptz, NULL::timestamptz, '1 hour'::interval,
		NULL::timestamptz, NULL, NULL),
	('task-MAIL-2', '{"type": "MAIL", "to": "bob@example.org"}', 'mail', 'event:42', 'acme', 'FAILED', 0,
		'2026-11-21 17:00Z', 5, 102,
		NULL, NULL, E'421 try later\nat smtp.go:12', NULL, '2026-11-21 17:30Z', '2026-11-21 17:30:01.5Z', NULL, NULL,
		NULL, NULL),
	('task-MAIL-3', '{"type": "MAIL", "to": "cid@example.org"}', 'mail', 'event:43', 'other', 'EXPIRED', 0,
		'2026-11-19 17:00Z', 0, 103,
		NULL, NULL, 'was not started within 1h', NULL, NULL, '2026-11-19 18:00Z', '1 hour', NULL, NULL, NULL),
	('task-LOG-1', '{"type": "LOG", "message": "hi"}', 'default', NULL, NULL, 'COMPLETED', 0,
		'2026-11-19 18:00Z', 1, 104,
		NULL, NULL, NULL, '{"sent": true}', '2026-11-19 18:00Z', '2026-11-19 18:00:01Z', NULL, NULL, NULL, NULL),
	('task-LOG-2', '{"type": "LOG", "message": "ho"}', 'default', 'event:42', NULL, 'PAUSED', 0,
		'2026-11-22 18:00Z', 0, 105,
		NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-22 08:00Z', NULL, NULL),
	('task-LOG-3', '{"type": "LOG"}', 'default', NULL, NULL, 'EXECUTING', 0, '2026-11-21 17:59:50Z', 2, 106,
		90, '2026-11-21 18:05Z', E'first try: \x1b[31mred', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	('nightly', '{"type": "TOKEN_CLEANUP"}', 'default', NULL, NULL, 'QUEUED', 0, '2026-11-22 02:00Z', 0, 107,
		NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '0 3 * * *', 'Europe/Berlin')
) AS t (id, payload, queue, entity, tenant, status, priority, at, attempt, revision, fence, held, message, result,
	started, finished, expiration, until, cron, zone);
UPDATE tasktable.scheduled_tasks SET overlap = 'skip', catch_up = 'latest', catch_up_paused = 'none',
	catch_up_limit = 100 WHERE cron IS NOT NULL;
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_at, changed_by, old, new) VALUES
	(52, 'task-MAIL-2', 'schedule', 'created', '2026-11-20 12:00Z', 'events-api', NULL,
		'{"type": "MAIL", "status": "QUEUED", "scheduled_at": "2026-11-20T17:00:00+00:00"}'),
	(102, 'task-MAIL-2', 'reschedule', 'rescheduled', '2026-11-20 13:00:00.25Z', 'tasktable:ann',
		'{"scheduled_at": "2026-11-20T17:00:00+00:00", "queue": "default"}',
		'{"scheduled_at": "2026-11-21T17:00:00+00:00", "queue": "mail"}'),
	(60, 'gone', 'schedule', 'created', '2026-11-20 12:00Z', 'events-api', NULL,
		'{"type": "LOG", "status": "QUEUED", "scheduled_at": "2026-11-20T17:00:00+00:00"}'),
	(61, 'gone', 'delete', 'deleted', '2026-11-20 12:30Z', 'tasktable:ann',
		'{"status": "QUEUED", "scheduled_at": "2026-11-20T17:00:00+00:00", "payload": {"type": "LOG"}}', NULL);
INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, due_at,
	started_at, finished_at, outcome, error, node) VALUES
	(80, 'task-MAIL-2', 'MAIL', 102, 1, '2026-11-21 17:00Z', '2026-11-21 17:00Z', '2026-11-21 17:00:00.0012Z',
		'2026-11-21 17:00:00.5Z', 'RETRIED', '421 try later', 7),
	(81, 'task-MAIL-2', 'MAIL', 102, 2, '2026-11-21 17:00Z', NULL, NULL, '2026-11-21 17:10Z', 'LOST', NULL, NULL),
	(82, 'task-MAIL-2', 'MAIL', 102, 5, '2026-11-21 17:00Z', '2026-11-21 17:29:59Z', '2026-11-21 17:30Z',
		'2026-11-21 17:30:01.5Z', 'FAILED', E'421 try later\nat smtp.go:12', 7);
SELECT setval('tasktable.task_numbers', 1000);`

// withTasks is a database with them.
var withTasks = with(someTasks)

func TestTasksAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	goldenCommands(t, "tasks", withTasks, asItIs, []goldenCommand{
		{"list", exitOK, []string{"tasks", "list"}},
		{"list_first_page", exitOK, []string{"tasks", "list", "--limit=1", "--message=tr", "--desc"}},
		{"list_none", exitOK, []string{"tasks", "list", "--type=NO_SUCH"}},
		{"show_failed", exitOK, []string{"tasks", "show", "task-MAIL-2"}},
		{"show_waiting", exitOK, []string{"tasks", "show", "task-MAIL-1"}},
		{"show_executing", exitOK, []string{"tasks", "show", "task-LOG-3"}},
		{"show_recurring", exitOK, []string{"tasks", "show", "nightly"}},
		{"show_last_lines", exitOK, []string{"tasks", "show", "task-MAIL-2", "--history=2"}},
		{"show_deleted", exitFailed, []string{"tasks", "show", "gone"}},
		{"show_absent", exitFailed, []string{"tasks", "show", "nobody"}},
		{"schedule", exitOK, []string{"tasks", "schedule", "--id=new", "--type=LOG", "--payload",
			`{"message": "hi"}`, "--at=+10m"}},
		{"schedule_again", exitOK, []string{"tasks", "schedule", "--id=task-MAIL-2", "--type=MAIL", "--at=2026-11-22 18:00"}},
		{"schedule_unchanged", exitOK, []string{"tasks", "schedule", "--id=task-LOG-1", "--payload",
			`{"type": "LOG", "message": "hi"}`}},
		{"schedule_recurring", exitOK, []string{"tasks", "schedule", "--id=new", "--type=LOG", "--cron=@daily",
			"--at=2100-01-01"}},
		{"reschedule", exitFailed, []string{"tasks", "reschedule", "task-MAIL-1", "nobody", "task-MAIL-2", "task-LOG-2",
			"task-MAIL-1", "--at=2026-11-22T19:00:00+01:00"}},
		{"cancel", exitFailed, []string{"tasks", "cancel", "task-MAIL-1", "nobody", "task-LOG-1", "task-LOG-2",
			"task-MAIL-1"}},
		{"cancel_filter", exitOK, []string{"tasks", "cancel", "--entity=event:42", "--yes"}},
		{"cancel_none", exitOK, []string{"tasks", "cancel", "--entity=event:7"}},
		{"pause", exitOK, []string{"tasks", "pause", "task-LOG-3", "task-MAIL-1", "--until=+1d"}},
		{"pause_in_the_past", exitUsage, []string{"tasks", "pause", "task-LOG-3", "--until=-1s"}},
		{"pause_filter", exitOK, []string{"tasks", "pause", "--id-prefix=task-", "--yes"}},
		{"resume", exitOK, []string{"tasks", "resume", "task-LOG-2", "task-LOG-1"}},
		{"resume_filter", exitOK, []string{"tasks", "resume", "--type=LOG", "--yes"}},
		{"run_now", exitOK, []string{"tasks", "run-now", "task-LOG-1", "task-LOG-3"}},
		{"run_now_filter", exitOK, []string{"tasks", "run-now", "--queue=mail", "--yes"}},
		{"retry", exitOK, []string{"tasks", "retry", "task-MAIL-2", "task-LOG-1", "task-LOG-2"}},
		{"retry_filter", exitOK, []string{"tasks", "retry", "--message=421", "--yes", "--status=failed"}},
		{"delete", exitFailed, []string{"tasks", "delete", "task-LOG-1", "task-LOG-3"}},
		{"delete_filter", exitOK, []string{"tasks", "delete", "--finished-to=-1d", "--limit=2", "--yes"}},
		{"delete_refused", exitUsage, []string{"tasks", "delete", "--finished-to=-1d"}},
	})
}

// What each filter selects, TestFiltersOfTasksAgree shows.
func TestTasksListSelects(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	execute(t, urlOf(variables), `UPDATE tasktable.scheduled_tasks SET archived_at = now() WHERE id = 'task-MAIL-3'`)
	wantLists(t, variables, "tasks", map[string]string{
		"":                                 "task-MAIL-3 task-LOG-1 task-MAIL-2 task-LOG-3 task-MAIL-1 nightly task-LOG-2",
		"--desc":                           "task-LOG-2 nightly task-MAIL-1 task-LOG-3 task-MAIL-2 task-LOG-1 task-MAIL-3",
		"--status=paused,EXPIRED":          "task-MAIL-3 task-LOG-2",
		"--status=PAUSED --status=Expired": "task-MAIL-3 task-LOG-2",
		"--scheduled-from=now":             "task-MAIL-1 nightly task-LOG-2",
		"--scheduled-from=-1h":             "task-MAIL-2 task-LOG-3 task-MAIL-1 nightly task-LOG-2",
		"--scheduled-to=2026-11-21":        "task-MAIL-3 task-LOG-1",
		"--finished-from=-1h":              "task-MAIL-2",
		"--finished-to=-1h":                "task-MAIL-3 task-LOG-1",
		"--finished-from=2026-11-19T19:00:01+01:00 --finished-to=2026-11-21": "task-LOG-1",
		"--after=task-MAIL-2 --limit=2":                                      "task-LOG-3 task-MAIL-1",
		"--after=2026-11-21T17:00:00Z/task-MAIL-1": "task-MAIL-2 task-LOG-3 task-MAIL-1 " +
			"nightly task-LOG-2",
		"--type=MAIL --status=FAILED --queue=mail --tenant=acme": "task-MAIL-2",
	})
	runFixed(t, variables, "tasks", "list", "--scheduled-to=2026-11-19T19:00+02").want(t, exitUsage,
		"--scheduled-to must be a time")
}

// The command that a list hints at goes on where it left off, to the end, whatever has to be quoted.
func TestListsHintAtTheNextPage(t *testing.T) {
	t.Parallel()
	quoted := with(`SELECT tasktable.schedule('{"type": "LOG"}', '2100-01-01Z', 'it''s-' || n, queue => 'mail',
		entity => 'a b') FROM generate_series(1, 5) AS n`)
	for _, list := range []struct {
		database func(*testing.T) []string
		args     []string
		want     string
	}{
		{quoted, []string{"tasks", "list", "--entity=a b", "--queue", "mail"}, "it's-1 it's-2 | it's-3 it's-4 | it's-5"},
		{withDead, []string{"dead", "list", "--finished-to=now"}, "mail-1 mail-2 | log-1 mail-3 | log-2"},
	} {
		variables, args, pages := list.database(t), append(list.args, "--limit=2", "--output=json"), []string{}
		for len(pages) < 9 {
			got := runFixed(t, variables, args...)
			pages = append(pages, listed(t, got))
			hint, ok := strings.CutPrefix(got.stderr, "There are more: tasktable ")
			if !ok {
				break
			}
			if strings.Count(hint, "--after=") != 1 {
				t.Fatalf("it grows: %s", hint)
			}
			args = shellWords(t, hint)
		}
		if got := strings.Join(pages, " | "); got != list.want {
			t.Errorf("%q: got  %s\nwant %s", list.args, got, list.want)
		}
	}
}

func TestTasksScheduleTakesAllThereIs(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	file := written(t, "payload.json", "{\n  \"type\": \"LOG\",\n  \"message\": \"hi\"\n}\n")
	got := runFixed(t, []string{"DATABASE_URL=" + url}, "tasks", "schedule", "--payload=@"+file, "--id=one",
		"--at=2100-01-01 00:00", "--queue=mail", "--priority=-7", "--expiration=1h", "--expected-execution-time=90s",
		"--max-attempts=3", "--entity=event:42", "--tenant=acme", "--jitter=1s", "--retention=24h", "--cron=0 3 * * *",
		"--cron-time-zone=Europe/Berlin", "--overlap=allow", "--catch-up=all", "--catch-up-paused=latest",
		"--catch-up-limit=7", "--ends-at=2101-01-01T00:00:00Z", "--max-occurrences=9")
	got.want(t, exitOK)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.scheduled_tasks WHERE id = 'one'
		AND payload = '{"type": "LOG", "message": "hi"}'
		AND scheduled_at = '2100-01-01Z' AND queue = 'mail' AND priority = -7 AND expiration = '1 hour'
		AND expected_execution_time = '90 seconds'
		AND max_attempts = 3 AND entity = 'event:42' AND tenant_id = 'acme' AND jitter = '1 second'
		AND retention = '24 hours' AND cron = '0 3 * * *'
		AND time_zone = 'Europe/Berlin' AND overlap = 'allow' AND catch_up = 'all' AND catch_up_paused = 'latest'
		AND catch_up_limit = 7
		AND ends_at = '2101-01-01Z' AND max_occurrences = 9 AND scheduled_by = 'tests'`)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.scheduled_task_changes WHERE task_id = 'one'
		AND verb = 'schedule' AND changed_by = 'tests'`)

	runFixed(
		t, []string{"DATABASE_URL=" + url}, "tasks", "schedule", "--type=LOG", "--id=two", "--at=2100-01-01",
		"--if-finished=keep",
	).want(t, exitOK)
	execute(t, url, `UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id = 'two'`)
	again := runFixed(
		t, []string{"DATABASE_URL=" + url}, "tasks", "schedule", "--type=LOG", "--id=two", "--at=2100-01-02",
		"--if-finished=keep", "-o", "json",
	)
	again.want(t, exitOK)
	if !strings.Contains(again.stdout, `"outcome": "finished"`) {
		t.Errorf("got %s", again.stdout)
	}
}

// The zone of the machine must not show in JSON.
func TestTimesAreLocalInTablesAndUTCInJSON(t *testing.T) {
	t.Parallel()
	variables := append(withTasks(t), "TZ=Asia/Tokyo", "TASKTABLE_SCHEMA=tasktable")
	table := asProcess(t, variables, "", "tasks", "show", "task-MAIL-2")
	table.want(t, exitOK)
	document := asProcess(t, variables, "", "tasks", "show", "task-MAIL-2", "--output=json")
	document.want(t, exitOK)
	for text, in := range map[string]string{
		"scheduled_at             2026-11-22 02:00:00 JST (":                               table.stdout,
		"2026-11-20 22:00:00.250 JST  reschedule  rescheduled  tasktable:ann":              table.stdout,
		"queue: default → mail, scheduled_at: 2026-11-21 02:00:00.000 JST → 2026-11-22 02": table.stdout,
		`"scheduled_at": "2026-11-21T17:00:00Z"`:                                           document.stdout,
		`"finished_at": "2026-11-21T17:30:01.5Z"`:                                          document.stdout,
		`"changed_at": "2026-11-20T13:00:00.25Z"`:                                          document.stdout,
	} {
		if !strings.Contains(in, text) {
			t.Errorf("%s is not in\n%s", text, in)
		}
	}
	if strings.Contains(document.stdout, "+09:00") {
		t.Errorf("local times in\n%s", document.stdout)
	}
}

// A recurring task whose end comes before its next fire is scheduled, and the command says that it will not fire.
func TestTasksScheduleWarnsOfNoFire(t *testing.T) {
	t.Parallel()
	variables := []string{"DATABASE_URL=" + storetest.URL(t)}
	for endsAt, warns := range map[string]bool{"2001-01-01": true, "2101-01-01": false} {
		got := runFixed(t, variables, "tasks", "schedule", "--type=LOG", "--id=in-"+endsAt, "--cron=@daily",
			"--ends-at="+endsAt, "--time-zone=UTC")
		got.want(t, exitOK)
		if strings.Contains(got.stderr, "Warning: no fire is left: it ends at 2001-01-01T00:00:00Z.") != warns {
			t.Errorf("--ends-at %s: %s", endsAt, got.stderr)
		}
	}
}

func TestTasksScheduleReadsStdinAndIsDoneByTheUser(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	got := asProcess(
		t, []string{"DATABASE_URL=" + url}, `{"type": "LOG", "message": "hi"}`, "tasks", "schedule", "--payload=-",
		"--id=one", "--at=+1h",
	)
	got.want(t, exitOK)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.scheduled_task_changes
		JOIN tasktable.scheduled_tasks ON id = task_id
		WHERE id = 'one' AND payload ->> 'message' = 'hi' AND changed_by LIKE 'tasktable:_%'
			AND scheduled_by = changed_by
			AND scheduled_at BETWEEN clock_timestamp() + interval '55 minutes'
			AND clock_timestamp() + interval '1 hour'`)
}

// A retry leaves what somebody has cancelled alone, which must not look as if nothing could be done.
func TestRetryOfACancelledTaskNamesRunNow(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	runFixed(t, variables, "tasks", "cancel", "task-MAIL-1").want(t, exitOK)
	for _, verb := range []string{"tasks", "dead"} {
		got := runFixed(t, variables, verb, "retry", "task-MAIL-1", "task-LOG-1")
		got.want(t, exitOK, "tasktable tasks run-now task-MAIL-1\n")
		if !strings.Contains(got.stdout, "task-MAIL-1  unchanged") {
			t.Errorf("%s retry: %s", verb, got.stdout)
		}
	}
	if got := runFixed(t, variables, "tasks", "retry", "task-LOG-1"); strings.Contains(got.stderr, "run-now") {
		t.Errorf("of one that was not: %s", got.stderr)
	}
}

// Of a recurring task the time it began at would read as overdue.
func TestTasksListShowsTheNextFire(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	execute(t, urlOf(variables),
		`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
		UPDATE tasktable.scheduled_tasks SET scheduled_at = '2026-11-01 02:00Z', planned_revision = revision
			WHERE id = 'nightly'`)
	got := runFixed(t, variables, "tasks", "list", "--id-prefix=nightly")
	if !strings.Contains(got.stdout, "2026-11-22 02:00:00 UTC (in 8h)") {
		t.Errorf("got %s%s", got.stdout, got.stderr)
	}
	got = runFixed(t, variables, "recurring", "next", "nightyl")
	got.want(t, exitFailed, "did you mean nightly?")
	got = runFixed(t, variables, "tasks", "show", "nightyl")
	got.want(t, exitFailed, "the nearest id is nightly")
}
