package cmd

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// The tasks of --if-dead follow the death in their order, given as JSON and as files.
func TestTasksScheduleIfDead(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	const undo = `{"id": "undo", "payload": {"type": "UNDO", "n": [1, 2]}, "scheduled_at": "2100-01-01T00:00:00Z",
		"priority": 7, "queue": "mail", "expiration": 172800, "expected_execution_time": 7.5, "max_attempts": 3,
		"entity": "event:2", "if_finished": "rearm", "jitter": 1.5, "retention": 86400}`
	runFixed(t, []string{"DATABASE_URL=" + url}, "tasks", "schedule", "--type=LOG", "--id=one", "--at=2100-01-01",
		`--if-dead={"payload": {"type": "TELL", "a": "},{"}}`, "--if-dead=@"+written(t, "undo.json", undo+"\n"),
		`--if-dead= {"payload": {"type": "TELL"}, "id": "last"} `).want(t, exitOK)
	execute(t, url, `UPDATE tasktable.scheduled_tasks SET status = 'FAILED', message = 'no' WHERE id = 'one'`)
	execute(t, url, `SELECT 1 / (count(*) = 3)::int FROM tasktable.scheduled_tasks
		WHERE (id, payload::text) IN (('one/dead/1', '{"a": "},{", "type": "TELL"}'), ('last', '{"type": "TELL"}'))
			OR id = 'undo' AND payload = '{"type": "UNDO", "n": [1, 2]}' AND scheduled_at = '2100-01-01Z'
			AND priority = 7 AND queue = 'mail' AND expiration = '48 hours' AND expected_execution_time = '7.5 seconds'
			AND max_attempts = 3 AND entity = 'event:2' AND jitter = '1.5 seconds' AND retention = '24 hours'`)
}

// A value of --if-dead that cannot be scheduled changes nothing, and the error does not quote the payload.
func TestTasksScheduleRefusesIfDead(t *testing.T) {
	t.Parallel()
	variables := []string{"DATABASE_URL=" + storetest.URL(t)}
	const fine = `--if-dead={"payload": {"type": "TELL"}}`
	for _, c := range []struct {
		wants string
		args  []string
	}{
		{"--if-dead: task 1 must be a JSON object", []string{`--if-dead=-`}},
		{"--if-dead: task 1 must be a JSON object: it is wrong at byte", []string{`--if-dead={"payload": secret`}},
		{"--if-dead: it must be a JSON array of tasks", []string{fine, `--if-dead=["secret"]`}},
		{"--if-dead: task 1: payload must be given", []string{`--if-dead={"queue": "mail"}`}},
		{"--if-dead: task 1: \"cron\" is not a field", []string{
			`--if-dead={"payload": {"type": "TELL", "a": "secret"}, "cron": "@daily"}`}},
		{"--if-dead: task 1: type must be", []string{`--if-dead={"payload": {"type": "A B", "a": "secret"}}`}},
		{"--if-dead: task 2: max_attempts must be", []string{
			fine, `--if-dead={"payload": {"type": "TELL"}, "max_attempts": -1}`}},
		{"--if-dead: open", []string{"--if-dead=@" + filepath.Join(t.TempDir(), "none.json")}},
		{"--if-dead: it must be at most 10 tasks", slices.Repeat([]string{fine}, store.MaxIfDead+1)},
		{"--if-running must be again", []string{"--if-running=twice"}},
		{"if_running must be empty for a recurring task", []string{"--if-running=again", "--cron=@daily"}},
	} {
		got := runFixed(t, variables, append([]string{"tasks", "schedule", "--type=LOG", "--id=one"}, c.args...)...)
		got.want(t, exitUsage, c.wants)
		if strings.Contains(got.stderr, "secret") {
			t.Errorf("it quotes the payload: %s", got.stderr)
		}
	}
	if got := runFixed(t, variables, "tasks", "list", "--output=json"); strings.TrimSpace(got.stdout) != "[]" {
		t.Errorf("it scheduled a task: %s", got.stdout)
	}
}

// A task that runs, scheduled unchanged, runs once more only with --if-running again.
func TestTasksScheduleIfRunningAgain(t *testing.T) {
	t.Parallel()
	variables := withTasks(t)
	execute(t, urlOf(variables),
		`UPDATE tasktable.scheduled_tasks SET fence = 900 WHERE id = 'task-LOG-3'`) // a claim of this revision
	args := []string{"tasks", "schedule", "--type=LOG", "--id=task-LOG-3", "--output=json"}
	for _, c := range []struct{ args, want string }{{"", "unchanged"}, {"--if-running=again", "again"}} {
		got := runFixed(t, variables, append(args, strings.Fields(c.args)...)...)
		got.want(t, exitOK)
		if !strings.Contains(got.stdout, `"outcome": "`+c.want+`"`) {
			t.Errorf("%s: %s", c.args, got.stdout)
		}
	}
}
