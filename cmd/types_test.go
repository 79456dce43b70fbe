package cmd

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

const someDefaults = `
INSERT INTO tasktable.task_defaults (type, max_attempts, backoff, queue, timeout, changed_at, changed_by, declared_by)
	VALUES ('*', 5, NULL, NULL, NULL, '2026-11-21 17:00Z', 'tasktable:ann', NULL),
	('CHARGE', 3, '1m x2', 'money', '30 seconds', '2026-11-21 18:00Z', 'shop', 'shop')`

var withDefaults = with(someDefaults)

func TestTypesAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	goldenCommands(t, "types", withDefaults, asItIs, []goldenCommand{
		{"list", exitOK, []string{"types", "list"}},
		{"set", exitOK, []string{"types", "set", "MAIL", "--max-attempts=3"}},
		{"set_nothing", exitUsage, []string{"types", "set", "MAIL"}},
		{"set_a_wrong_type", exitUsage, []string{"types", "set", "M", "--max-attempts=3"}},
		{"set_a_wrong_backoff", exitUsage, []string{"types", "set", "MAIL", "--backoff=soon"}},
		{"remove", exitOK, []string{"types", "remove", "CHARGE"}},
		{"remove_an_unknown", exitOK, []string{"types", "remove", "MAIL"}},
	})
}

func TestTypesSetAsAsked(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	variables := []string{"DATABASE_URL=" + url}
	set := []string{"types", "set", "CHARGE", "--group-key=all", "--expiration=24h", "--queue=money", "--priority=-7",
		"--expected-execution-time=1m", "--max-attempts=3", "--backoff=1m x2 max 1h", "--timeout=30s", "--retention=48h"}
	runFixed(t, variables, set...).want(t, exitOK)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.task_defaults WHERE type = 'CHARGE' AND group_key = 'all'
		AND expiration = '24 hours' AND queue = 'money' AND priority = -7 AND expected_execution_time = '1 minute'
		AND max_attempts = 3 AND backoff = '1m x2 max 1h' AND timeout = '30 seconds' AND retention = '48 hours'
		AND changed_by = 'tests'`)
	if got := runFixed(t, variables, set...); !strings.Contains(got.stdout, "unchanged") {
		t.Errorf("the same again: %s", got.stdout)
	}
	runFixed(t, variables, "tasks", "schedule", "--type=CHARGE", "--id=one", "--at=+1h", "--max-attempts=4").want(t, exitOK)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.scheduled_tasks WHERE id = 'one' AND max_attempts = 4
		AND backoff = '1m x2 max 1h' AND queue = 'money'`)
	runFixed(t, variables, "types", "set", "CHARGE", "--max-attempts=3", "--queue=A").want(t, exitUsage)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.task_defaults WHERE queue = 'money'`) // nothing was changed
}
