package cmd

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

var (
	anInstant = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})? UTC`)
	aDistance = regexp.MustCompile(`\b(now|in \d+[smhdy]|\d+[smhdy] ago)\b`)
	spaces    = regexp.MustCompile(` +`)
)

// timeless writes T for each time, and one space for several.
func timeless(text string) string {
	return spaces.ReplaceAllString(aDistance.ReplaceAllString(anInstant.ReplaceAllString(text, "T"), "D"), " ")
}

func TestWhy(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	variables := []string{"DATABASE_URL=" + pool.Config().ConnString(), "TASKTABLE_TIME_ZONE=UTC", "TASKTABLE_BY=tests"}
	do := func(args ...string) result {
		t.Helper()
		return run(t, variables, args...)
	}
	do("tasks", "schedule", "--type=MAIL", "--id=letter-42", `--payload={"to": "ann\u001b[31m"}`, "--at=+2h").want(t,
		exitOK)
	do("tasks", "schedule", "--type=MAIL", "--id=letter-42", `--payload={"to": "bob"}`, "--at=+3h").want(t, exitOK)
	got := do("why", "letter-42")
	got.want(t, exitOK)
	const want = `letter-42 is QUEUED: its time has not come, due at T (D); besides, no node is running.

AT WHEN WHAT
T D scheduled by tests: scheduled_at T
T D edited by tests: payload.to ann\x1b[31m → bob, scheduled_at T → T

NEXT WHAT
T (D) it is due
`
	if timeless(got.stdout) != want {
		t.Errorf("got\n%s\nwant\n%s", timeless(got.stdout), want)
	}

	var e struct {
		ID     string
		Reason struct{ Code, Obstacle string }
		Row    struct{ Status string }
		Story  []struct {
			Kind  string
			Facts []struct{ Name, Was, Value string }
		}
	}
	got = do("why", "letter-42", "--output=json")
	got.want(t, exitOK)
	if err := json.Unmarshal([]byte(got.stdout), &e); err != nil {
		t.Fatal(err)
	}
	if e.ID != "letter-42" || e.Reason.Code != "not_due" || e.Reason.Obstacle != "no node is running" ||
		e.Row.Status != "QUEUED" ||
		len(e.Story) != 2 || e.Story[1].Facts[0].Was != "ann\x1b[31m" ||
		!strings.HasSuffix(e.Story[1].Facts[1].Value, "Z") {
		t.Errorf("got %+v", e)
	}

	do("tasks", "delete", "letter-42", "--yes").want(t, exitOK)
	got = do("why", "letter-42")
	got.want(t, exitOK)
	if first, _, _ := strings.Cut(timeless(got.stdout), "\n"); first != "letter-42: deleted by tests at T (D)." {
		t.Errorf("a deleted one: %s", first)
	}
	do("why", "letter-43").want(t, exitFailed, "task letter-43: never scheduled under this id",
		"; the nearest id is letter-42")
	got = do("why", "letter-43", "--output=json")
	got.want(t, exitFailed, "never scheduled")
	if !strings.Contains(got.stdout, `"code": "never_scheduled"`) || !strings.Contains(got.stdout, `"nearest": [`) {
		t.Errorf("JSON of an unknown one: %s", got.stdout)
	}
	do("why", "a\nb").want(t, exitUsage, "id must be")
	do("why").want(t, exitUsage, "needs one ID, or --entity")
	do("why", "letter-42", "--entity=event:42").want(t, exitUsage, "takes an ID or --entity, not both")
}

// Of tasks that have ended: of those that wait the database, whose clock no test sets, tells another story each day.
func TestWhyAsTableAndJSON(t *testing.T) {
	t.Parallel()
	asked := replaced(`(?m)^(  |    )"at": "[^"]*"`, `$1"at": "T"`)
	goldenCommands(t, "why", withTasks, asked, []goldenCommand{
		{"failed", exitOK, []string{"why", "task-MAIL-2"}},
		{"completed", exitOK, []string{"why", "task-LOG-1"}},
		{"expired", exitOK, []string{"why", "task-MAIL-3"}},
		{"deleted", exitOK, []string{"why", "gone"}},
		{"unknown", exitFailed, []string{"why", "task-MAIL-4"}},
		{"entity_unknown", exitFailed, []string{"why", "--entity", "event:7"}},
	})
	goldenCommands(t, "why", withEntities, asked, []goldenCommand{
		{"entity", exitOK, []string{"why", "--entity", "event:42"}},
		{"entity_of_one_task", exitOK, []string{"why", "--entity", "event:43"}},
	})
}

// withEntities has tasks of entities that have all ended.
func withEntities(t *testing.T) []string {
	t.Helper()
	variables := withTasks(t)
	execute(t, urlOf(variables), `
		ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER; -- so that the stories stay as they are
		UPDATE tasktable.scheduled_tasks SET entity = CASE id WHEN 'task-MAIL-2' THEN 'event:42'
			WHEN 'task-LOG-1' THEN 'event:42' END
		WHERE id <> 'task-MAIL-3';
		ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	return variables
}

// Of more tasks than a list has the latest are told, and how to see all.
func TestWhyOfAnEntityWithManyTasks(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	execute(t, url, `INSERT INTO tasktable.scheduled_tasks (id, payload, entity, status, scheduled_at)
		SELECT 'task-' || n, '{"type": "MAIL"}', 'it''s', 'COMPLETED',
			'2026-11-20Z'::timestamptz + n * interval '1 minute' FROM generate_series(1, 21) AS n`)
	got := run(t, []string{"DATABASE_URL=" + url}, "why", "--entity=it's")
	got.want(t, exitOK, `These are the latest 20. All of them: tasktable tasks list --entity 'it'\''s'`)
	ids := regexp.MustCompile(`(?m)^task-\d+`).FindAllString(got.stdout, -1)
	if len(ids) != maxOfEntity || ids[0] != "task-2" || ids[19] != "task-21" {
		t.Errorf("these are told: %v", ids)
	}
}

// The work of a task that has completed may have been handed over, and have failed there.
func TestFollowUpsAreShown(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	variables := []string{"DATABASE_URL=" + pool.Config().ConnString(), "TASKTABLE_TIME_ZONE=UTC"}
	execute(t, pool.Config().ConnString(),
		`INSERT INTO tasktable.scheduled_tasks (id, payload, status, message, spawned_by) VALUES
		('reminder', '{"type": "REMIND"}', 'COMPLETED', NULL, NULL),
		('mail-1', '{"type": "MAIL"}', 'COMPLETED', NULL, 'reminder'),
		('mail-2', '{"type": "MAIL"}', 'FAILED', '550 no such mailbox', 'reminder'),
		('mail-3', '{"type": "MAIL"}', 'QUEUED', NULL, 'reminder'),
		('mail-4', '{"type": "MAIL"}', 'FAILED', '550', 'another')`)
	got := run(t, variables, "why", "reminder")
	got.want(t, exitOK)
	const want = "its follow-up mail-2 (MAIL) is FAILED: 550 no such mailbox; 1 other of its follow-ups is not " +
		"COMPLETED.\n"
	if first, _, _ := strings.Cut(got.stdout, "\n"); !strings.HasSuffix(first+"\n", want) {
		t.Errorf("why: %s", first)
	}
	for _, line := range []string{"its follow-up mail-1 (MAIL) is COMPLETED", "its follow-up mail-3 (MAIL) is QUEUED"} {
		if !strings.Contains(got.stdout, line) {
			t.Errorf("the story lacks %q:\n%s", line, got.stdout)
		}
	}
	shown := run(t, variables, "tasks", "show", "reminder").stdout
	listed := run(t, variables, "tasks", "list", "--spawned-by=reminder").stdout
	for _, text := range []string{shown, listed} {
		for id, there := range map[string]bool{"mail-1": true, "mail-2": true, "550 no such mailbox": true,
			"mail-3": true, "mail-4": false} {
			if strings.Contains(text, id) != there {
				t.Errorf("%s is there: %v, in\n%s", id, !there, text)
			}
		}
	}
	if shown := run(t, variables, "tasks", "show", "mail-2").stdout; !strings.Contains(spaces.ReplaceAllString(shown,
		" "), "spawned_by reminder") {
		t.Errorf("the follow-up does not say whose it is:\n%s", shown)
	}
}
