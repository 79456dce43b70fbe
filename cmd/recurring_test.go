package cmd

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/storetest"
)

// someRecurring are recurring tasks in most states, as of fixedNow.
const someRecurring = `
ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, queue, entity, tenant_id, status, scheduled_at, revision,
	planned_revision, next_attempt_at, created_at,
	last_status_update, started_at, finished_at, message, cron, time_zone, overlap, catch_up, catch_up_paused,
	catch_up_limit, jitter, ends_at, max_occurrences,
	occurrence_count, paused_until, declared_by)
SELECT id, kind, jsonb_build_object('type', kind), queue, entity, tenant, status, '2026-11-01 12:00Z', revision,
	planned, next, '2026-11-01 12:00Z', '2026-11-01 12:00Z',
	last, CASE WHEN status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN last END, message, cron, zone, overlap,
	catch_up, 'none', 100, jitter, ends, most, count, until, declared
FROM (VALUES
	('nightly', 'CLEANUP', 'default', NULL, NULL, 'QUEUED', 1, 1, '2026-11-22 02:00Z'::timestamptz,
		'2026-11-21 02:00Z'::timestamptz, NULL, '0 3 * * *', 'Europe/Berlin',
		'skip', 'latest', NULL::interval, NULL::timestamptz, NULL::int, 20, NULL::timestamptz, 'events-api'),
	('digest', 'DIGEST', 'mail', 'member:7', 'acme', 'QUEUED', 2, 2, '2026-11-23 09:00Z', NULL, NULL, '0 9 * * MON',
		'UTC', 'allow', 'all', '30 minutes', NULL, 2, 0, NULL, NULL),
	('overdue', 'CLEANUP', 'default', NULL, NULL, 'QUEUED', 3, 3, '2026-11-21 17:45Z', '2026-11-21 17:30Z', NULL,
		'*/15 * * * *', 'UTC', 'skip', 'none', NULL,
		'2026-11-21 18:20Z', NULL, 7, NULL, NULL),
	('paused', 'CLEANUP', 'default', NULL, NULL, 'PAUSED', 4, 3, NULL, '2026-11-21 17:00Z', NULL, '@hourly',
		'America/New_York', 'cancel_running', 'latest', NULL, NULL, NULL, 9,
		'2026-11-21 20:30Z', NULL),
	('stopped', 'CLEANUP', 'default', NULL, NULL, 'PAUSED', 5, 3, NULL, NULL, NULL, '@every 90s', 'UTC', 'skip',
		'latest', NULL, NULL, NULL, 0, NULL, NULL),
	('unplanned', 'CLEANUP', 'default', NULL, NULL, 'QUEUED', 7, 6, '2026-11-21 17:59:59Z', NULL, NULL, '@daily', 'UTC',
		'skip', 'latest', NULL, NULL, NULL, 0, NULL, NULL),
	('done', 'CLEANUP', 'default', NULL, NULL, 'COMPLETED', 8, 8, NULL, '2026-11-20 00:00Z',
		'ended after 3 occurrences', '@daily', 'UTC', 'skip', 'latest', NULL, NULL, 3, 3, NULL, NULL),
	('wrong', 'CLEANUP', 'default', NULL, NULL, 'FAILED', 9, 9, NULL, '2026-11-20 00:00Z',
		'invalid: cron must be 5 fields', 'never', 'UTC', 'skip', 'latest', NULL, NULL, NULL, 0, NULL, NULL)
) AS t (id, kind, queue, entity, tenant, status, revision, planned, next, last, message, cron, zone, overlap, catch_up,
	jitter, ends, most, count, until, declared);
INSERT INTO tasktable.scheduled_tasks (id, type, payload, revision, parent_id, status, scheduled_at, finished_at,
	message)
SELECT parent || '@' || fire, 'CLEANUP', '{"type": "CLEANUP"}', 20, parent, status, fire, fire + interval '1 minute',
	CASE WHEN status = 'FAILED' THEN E'the disk is full\nat /var' END
FROM (VALUES
	('nightly', 'COMPLETED', '2026-11-21 02:00Z'::timestamptz),
	('overdue', 'COMPLETED', '2026-11-21 17:00Z'),
	('overdue', 'FAILED', '2026-11-21 17:15Z'),
	('overdue', 'FAILED', '2026-11-21 17:30Z'),
	('paused', 'FAILED', '2026-11-21 17:00Z')
) AS t (parent, status, fire);
-- They were edited in the future. So no success is expected yet, and none is overdue, whenever the test runs.
INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_at, changed_by)
SELECT t.revision, t.id, 'schedule', 'rescheduled', '2100-01-01Z', 'ann'
FROM tasktable.scheduled_tasks AS t WHERE t.cron IS NOT NULL;
INSERT INTO tasktable.scheduled_tasks (id, type, payload, revision, next_attempt_at)
	VALUES ('plain', 'LOG', '{"type": "LOG"}', 10, '2100-01-01Z');
INSERT INTO tasktable.pauses (number, scope, name, paused_at, paused_by, ends_at)
	VALUES (11, 'queue', 'mail', '2026-11-21 12:00Z', 'ann', '2100-01-01Z');
ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER;`

var withRecurring = with(someRecurring)

func TestRecurringAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	goldenCommands(t, "recurring", withRecurring, asItIs, []goldenCommand{
		{"list", exitOK, []string{"recurring", "list"}},
		{"list_first_page", exitOK, []string{"recurring", "list", "--limit=1", "--type=CLEANUP"}},
		{"list_none", exitOK, []string{"recurring", "list", "--queue=none"}},
		{"next", exitOK, []string{"recurring", "next", "nightly", "--count=2"}},
		{"next_in_another_zone", exitOK, []string{"recurring", "next", "nightly", "--count=2",
			"--time-zone=America/New_York"}},
		{"next_in_its_zone", exitOK, []string{"recurring", "next", "nightly", "--count=2",
			"--time-zone=Europe/Berlin"}},
		{"next_from", exitOK, []string{"recurring", "next", "nightly", "--count=2", "--from=2027-03-27",
			"--time-zone=Europe/Berlin"}},
		{"next_from_past", exitUsage, []string{"recurring", "next", "nightly", "--from=-1h"}},
		{"next_jitter", exitOK, []string{"recurring", "next", "digest"}},
		{"next_overdue", exitOK, []string{"recurring", "next", "overdue"}},
		{"next_paused", exitOK, []string{"recurring", "next", "paused", "--count=4"}},
		{"next_stopped", exitOK, []string{"recurring", "next", "stopped", "--count=2"}},
		{"next_unplanned", exitOK, []string{"recurring", "next", "unplanned", "--count=2"}},
		{"next_ended", exitOK, []string{"recurring", "next", "done"}},
		{"next_wrong", exitOK, []string{"recurring", "next", "wrong"}},
		{"next_absent", exitFailed, []string{"recurring", "next", "nobody"}},
		{"next_plain", exitFailed, []string{"recurring", "next", "plain"}},
	})
}

// What somebody asks about who writes an expression needs no database, and starts none.
func TestNextFiresOfAnExpression(t *testing.T) {
	t.Parallel()
	nowhere := func(*testing.T) []string { return []string{"DATABASE_URL=postgres://127.0.0.1:1/x"} }
	goldenCommands(t, "recurring", nowhere, asItIs, []goldenCommand{
		{"cron", exitOK, []string{"recurring", "next", "--cron=0 3 * * *", "--count=3",
			"--cron-time-zone=Europe/Berlin"}},
		{"cron_spring", exitOK, []string{"recurring", "next", "--cron=30 2 * * *", "--cron-time-zone=Europe/Berlin",
			"--from=2027-03-27", "--count=3", "--time-zone=Europe/Berlin"}},
		{"cron_autumn", exitOK, []string{"recurring", "next", "--cron=*/30 2 * * *", "--cron-time-zone=Europe/Berlin",
			"--from=2027-10-31", "--count=5"}},
		{"cron_every", exitOK, []string{"recurring", "next", "--cron=@every 90s", "--count=2"}},
		{"cron_last", exitOK, []string{"recurring", "next", "--cron=@yearly", "--from=9998-06-01", "--count=3"}},
		{"cron_every_second", exitOK, []string{"recurring", "next", "--cron=0 9 * * TUE", "--every=2",
			"--from=2027-01-05", "--count=3"}},
		{"cron_workdays", exitOK, []string{"recurring", "next", "--cron=0 9 L * *", "--keep-to=workdays",
			"--move=previous", "--from=2027-01-01", "--count=3"}},
		{"cron_options_twice", exitUsage, []string{"recurring", "next", "--cron=0 9 L * * every=2 from=2027-01-05",
			"--keep-to=workdays"}},
		{"cron_move_alone", exitUsage, []string{"recurring", "next", "--cron=@daily", "--move=next"}},
		{"every_alone", exitUsage, []string{"recurring", "next", "--every=2"}},
		{"cron_none", exitOK, []string{"recurring", "next", "--cron=@yearly", "--from=9999-06-01"}},
	})
}

func TestRecurringListSelects(t *testing.T) {
	t.Parallel()
	wantLists(t, withRecurring(t), "recurring", map[string]string{
		"":                               "digest done nightly overdue paused stopped unplanned wrong",
		"--type=DIGEST":                  "digest",
		"--status=paused":                "paused stopped",
		"--queue=mail":                   "digest",
		"--entity=member:7":              "digest",
		"--tenant=acme":                  "digest",
		"--declared-by=events-api":       "nightly",
		"--after=overdue --limit=2":      "paused stopped",
		"--type=CLEANUP --status=QUEUED": "nightly overdue unplanned",
	})
}

// Whoever schedules a recurring task is told its next fire, and not its start. It is that of the command recurring next.
func TestSchedulingTellsTheNextFire(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	variables := []string{"DATABASE_URL=" + url}
	var scheduled struct {
		NextFire time.Time `json:"next_fire"`
	}
	var next struct{ Fires []struct{ At time.Time } }
	decode := func(into any, args ...string) {
		t.Helper()
		got := run(t, variables, append(args, "--output=json")...)
		got.want(t, exitOK)
		if err := json.Unmarshal([]byte(got.stdout), into); err != nil {
			t.Fatalf("%v: %s", err, got.stdout)
		}
	}
	decode(&scheduled, "tasks", "schedule", "--id=leap", "--type=LOG", "--cron=0 3 29 2 *", "--cron-time-zone=Europe/Berlin")
	decode(&next, "recurring", "next", "leap", "--count=1")
	if len(next.Fires) != 1 || !scheduled.NextFire.Equal(next.Fires[0].At) || scheduled.NextFire.UTC().Hour() != 2 {
		t.Errorf("schedule says %s, and next says %v", scheduled.NextFire, next.Fires)
	}
	execute(t, url, `INSERT INTO tasktable.scheduled_tasks (id, payload, parent_id) VALUES
		('leap@2028-02-29T02:00:00Z', '{"type": "LOG"}', 'leap'), ('other', '{"type": "LOG"}', NULL)`)
	var listed []struct{ ID string }
	decode(&listed, "tasks", "list", "--parent=leap")
	if len(listed) != 1 || listed[0].ID != "leap@2028-02-29T02:00:00Z" {
		t.Errorf("occurrences %v", listed)
	}
}
