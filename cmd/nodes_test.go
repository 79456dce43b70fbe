package cmd

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
)

// withNodesIn puts nodes into a database, of which the first leads and the second works until the test ends.
func withNodesIn(t *testing.T, url string) {
	t.Helper()
	execute(t, url, `INSERT INTO tasktable.nodes (service, version, host, queues, types, shares_slots, started_at,
		elected_at, last_seen_at, dead_at) VALUES
		('events-api', 'v1.2.3', 'web-1/42', '{"default": 20, "mail": 5}', '{MAIL,LOG}', false, '2026-11-21 06:00Z',
			'2026-11-21 07:00Z', NULL, NULL),
		('events-api', 'v1.2.4', 'web-2/7', '{"default": 20, "low": 2}', '{LOG}', true, '2026-11-21 17:59Z', NULL,
			NULL, NULL),
		('mailer', 'v0.9.0', 'mail-1/1', '{"mail": 50}', '{MAIL}', false, '2026-11-20 06:00Z', '2026-11-20 06:00Z',
			'2026-11-21 17:59:57Z', NULL),
		('events-api', 'v1.2.2', 'web-1/41', '{"default": 20}', '{LOG}', false, '2026-11-20 06:00Z', NULL, NULL,
			'2026-11-21 05:59Z'),
		('events-api', 'v1.2.2', 'web-2/6', '{"default": 20}', '{LOG}', false, '2026-11-20 06:00Z', NULL,
			'2026-11-21 17:58:55Z', '2026-11-21 17:59Z')`)
	const lock = `SELECT pg_advisory_lock((class - CASE WHEN class >= 2147483648 THEN 4294967296 ELSE 0 END)::int,
		$2::int) FROM tasktable.lock_class($1) AS class`
	for number, leads := range map[int]bool{1: true, 2: false} {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		keys := map[string]int{"node": number}
		if leads {
			keys["leader"] = 0
		}
		for kind, key := range keys {
			if _, err := conn.Exec(t.Context(), lock, kind, key); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestNodesAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	database := func(t *testing.T) []string {
		t.Helper()
		url := storetest.URL(t)
		withNodesIn(t, url)
		return []string{"DATABASE_URL=" + url}
	}
	// When those that live were last heard of is today, whenever that is. As wide as the heading, so that the columns
	// stay where they are.
	inJSON := replaced(`("state": "(?:leads|works)"(?s:.*?)"last_seen": )"[^"]*"`, `$1"…"`)
	inTable := replaced(`(?m)^( *\d+  (?:leads|works) .*? ago\)  )(?:now|in \w+|\w+ ago) *`, "$1…          ")
	goldenCommands(t, "nodes", database, func(text string) string { return inTable(inJSON(text)) }, []goldenCommand{
		{"nodes", exitOK, []string{"nodes"}},
		{"nodes_all", exitOK, []string{"nodes", "--all"}},
		{"nodes_last", exitOK, []string{"nodes", "--all", "--limit=4", "--of-service=events-api"}},
		{"nodes_none", exitOK, []string{"nodes", "--of-service=none"}},
	})
}

// A misspelt type is scheduled like any other, and runs nowhere: whoever schedules it is told.
func TestSchedulingATypeThatNoNodeHas(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	schedule := func(kind string) result {
		t.Helper()
		got := run(t, []string{"DATABASE_URL=" + url}, "tasks", "schedule", "--type="+kind, "--at=+1h")
		got.want(t, exitOK)
		if !strings.Contains(got.stdout, "created") || strings.Contains(got.stdout, "Warning") {
			t.Errorf("%s: %s", kind, got.stdout)
		}
		return got
	}
	if got := schedule("MAIL").stderr; got != "Warning: no node is running, so the task waits.\n" {
		t.Errorf("without a node: %q", got)
	}
	withNodesIn(t, url)
	for kind, want := range map[string]string{
		"MAIL":       "",
		"MAILL":      "Warning: no running node has a handler for type MAILL, so the task waits; did you mean MAIL?\n",
		"UNLIKE_ANY": "Warning: no running node has a handler for type UNLIKE_ANY, so the task waits.\n",
	} {
		if got := schedule(kind).stderr; got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// A command or a statement that no node has is told, too, and scheduled all the same.
func TestSchedulingANameThatNoNodeHas(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	withNodesIn(t, url)
	execute(t, url, `UPDATE tasktable.nodes SET types = types || '{EXEC,EXEC:backup,RUN_SQL,RUN_SQL:old-sessions}'`)
	for payload, want := range map[string]string{
		`{"type": "EXEC", "command": "backup"}`: "",
		`{"type": "EXEC:backup"}`:               "",
		`{"type": "EXEC", "command": "backpu"}`: "Warning: no running node has command backpu, so the task will fail; did " +
			"you mean backup?\n",
		`{"type": "RUN_SQL", "statement": "refresh-all"}`: "Warning: no running node has statement refresh-all, so the " +
			"task will fail.\n",
		`{"type": "EXEC", "command": 7}`: "",
	} {
		got := run(t, []string{"DATABASE_URL=" + url}, "tasks", "schedule", "--payload="+payload, "--at=+1h")
		got.want(t, exitOK)
		if got.stderr != want {
			t.Errorf("%s: %q, want %q", payload, got.stderr, want)
		}
	}
}
