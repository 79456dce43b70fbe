package cmd

import (
	"testing"

	"github.com/tasktable/tasktable/store/storetest"
)

// someAttempts ended some time before now, as what is looked at is bounded by the database's own clock.
const someAttempts = `
INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, due_at,
	started_at, finished_at, outcome)
SELECT 100000 + row_number() OVER (), 'task', kind, 1, 1, '2026-11-21Z', now.at - ago - took - delay,
	CASE WHEN outcome <> 'LOST' THEN now.at - ago - took END, now.at - ago, outcome
FROM (VALUES ('LOG', 'COMPLETED', 600, '30 minutes'::interval, '1.5 milliseconds'::interval,
	'20 milliseconds'::interval),
	('LOG', 'RETRIED', 3, '20 minutes', '5 seconds', '1 second'),
	('LOG', 'FAILED', 1, '20 minutes', '5 seconds', '1 second'),
	('MAIL', 'LOST', 1, '20 minutes', '1 second', '1 second'),
	('MAIL', 'SNOOZED', 2, '20 minutes', '1 second', '2 hours'),
	('OLD', 'COMPLETED', 7, '2 hours', '1 second', '1 second')) AS lines (kind, outcome, count, ago, delay, took)
CROSS JOIN LATERAL generate_series(1, count) CROSS JOIN (SELECT clock_timestamp() AS at) AS now ORDER BY ago DESC`

func TestStatsAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	database := func(t *testing.T) []string {
		t.Helper()
		variables := withDead(t)
		url := urlOf(variables)
		execute(t, url, someQueues)
		execute(t, url, someRecurring)
		execute(t, url, someAttempts)
		withNodesIn(t, url)
		return variables
	}
	empty := func(t *testing.T) []string {
		t.Helper()
		return []string{"DATABASE_URL=" + storetest.URL(t)}
	}
	inJSON, inTable := replaced(`"(since|until)": "[^"]*"`, `"$1": "…"`), replaced(`since 2.* \(.*\)`, "since …")
	tidy := func(text string) string { return inTable(inJSON(text)) }
	goldenCommands(t, "stats", database, tidy, []goldenCommand{
		{"stats", exitOK, []string{"stats"}},
		{"stats_longer", exitOK, []string{"stats", "--since=1d", "--exact"}},
		{"stats_of_a_type", exitOK, []string{"stats", "--type=MAIL"}},
	})
	goldenCommands(t, "stats", empty, tidy, []goldenCommand{{"stats_of_nothing", exitOK, []string{"stats"}}})
}
