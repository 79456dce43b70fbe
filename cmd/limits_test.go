package cmd

import (
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

const someLimits = `
INSERT INTO tasktable.limits (name, scope, scope_name, per, max_running, rate, rate_interval, burst, changed_at,
	changed_by) VALUES
	('charges', 'type', 'CHARGE', NULL, 2, NULL, NULL, NULL, '2026-11-21 17:00Z', 'tasktable:ann'),
	('per-customer', 'type', 'CHARGE', 'group', 1, NULL, NULL, NULL, '2026-11-21 17:00Z', 'tasktable:ann'),
	('ledger', 'queue', 'ledger', 'group', 1, NULL, NULL, NULL, '2026-11-21 17:00Z', 'tasktable:ann'),
	('stripe', 'queue', 'stripe', NULL, NULL, 100, '1 minute', 20, '2026-11-20 17:00Z', 'tasktable:bob'),
	('whole', 'all', '', NULL, 500, 7, '1 day', 1, '2026-11-20 17:00Z', 'tasktable:bob');
UPDATE tasktable.limits SET in_order = true WHERE name = 'ledger';
UPDATE tasktable.limits SET weights = '{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}' WHERE name = 'per-customer';
INSERT INTO tasktable.limit_buckets VALUES ('stripe', '2020-01-01 12:00:12Z');
INSERT INTO tasktable.river_job (state, kind, args, max_attempts, metadata)
	VALUES ('available', 'CHARGE', '{}', 1, '{"key": "g:customer:42"}');`

func withLimits(t *testing.T) []string {
	t.Helper()
	url := storetest.URL(t)
	execute(t, url, someLimits)
	withNodesIn(t, url)
	return []string{"DATABASE_URL=" + url}
}

func TestLimitsAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	goldenCommands(t, "limits", withLimits, asItIs, []goldenCommand{
		{"list", exitOK, []string{"limits", "list"}},
		{"set", exitOK, []string{"limits", "set", "mails", "--queue=mail", "--rate=10/1s", "--burst=5",
			"--max-running=3"}},
		{"set_per_group", exitOK, []string{"limits", "set", "each", "--type=CHARGE", "--per=group", "--max-running=1"}},
		{"set_in_order", exitOK, []string{"limits", "set", "ledger", "--type=CHARGE", "--per=group", "--in-order"}},
		{"set_in_order_alone", exitUsage, []string{"limits", "set", "ledger", "--type=CHARGE", "--in-order"}},
		{"set_weights", exitOK, []string{"limits", "set", "fair", "--type=CHARGE", "--per=group", "--weight=a=3",
			"--weight=b=2"}},
		{"set_a_wrong_weight", exitUsage, []string{"limits", "set", "fair", "--all", "--per=group", "--weight=a"}},
		{"set_weights_alone", exitUsage, []string{"limits", "set", "fair", "--all", "--max-running=2", "--weight=a=3"}},
		{"set_a_wrong_per", exitUsage, []string{"limits", "set", "a", "--all", "--per=day"}},
		{"set_per_and_rate", exitOK, []string{"limits", "set", "each", "--type=CHARGE", "--per=group", "--rate=1/1s"}},
		{"set_per_tenant_too", exitUsage, []string{"limits", "set", "a", "--all", "--per=tenant"}},
		{"set_unknown", exitOK, []string{"limits", "set", "charges", "--type=CHARGES", "--max-running=2"}},
		{"set_both", exitUsage, []string{"limits", "set", "a", "--type=MAIL", "--all", "--max-running=2"}},
		{"set_nothing", exitUsage, []string{"limits", "set", "a", "--all"}},
		{"set_a_wrong_name", exitUsage, []string{"limits", "set", "A", "--all", "--max-running=2"}},
		{"set_a_wrong_rate", exitUsage, []string{"limits", "set", "a", "--all", "--rate=100"}},
		{"set_a_wrong_interval", exitUsage, []string{"limits", "set", "a", "--all", "--rate=100/1ms"}},
		{"remove", exitOK, []string{"limits", "remove", "stripe", "strip"}},
	})
}

func TestLimitsAreAsAsked(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	variables := []string{"DATABASE_URL=" + url}
	set := []string{"limits", "set", "a", "--all", "--max-running=7", "--rate=100/1m", "--burst=20"}
	runFixed(t, variables, set...).want(t, exitOK)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.limits WHERE name = 'a' AND scope = 'all' AND max_running = 7
		AND rate = 100 AND rate_interval = '1 minute' AND burst = 20 AND changed_by = 'tests'`)
	if got := runFixed(t, variables, set...); !strings.Contains(got.stdout, "unchanged") {
		t.Errorf("the same again: %s", got.stdout)
	}
	runFixed(t, variables, "limits", "remove", "a", "A").want(t, exitUsage)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.limits`) // nothing was removed
	runFixed(t, variables, "limits", "remove", "a").want(t, exitOK)
	execute(t, url, `SELECT 1 / (count(*) = 0)::int FROM tasktable.limits`)
}
