package cmd

import (
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
)

// documentedRowsSQL is an application's database: what the documents speak of is in it.
const documentedRowsSQL = `
CREATE TABLE public.events (id text PRIMARY KEY, starts_at timestamptz NOT NULL, published_at timestamptz,
    reminded_at timestamptz);
CREATE TABLE public.river_job (kind text, args jsonb, state text, scheduled_at timestamptz, finalized_at timestamptz);
INSERT INTO public.river_job VALUES ('remind', '{"event_id": "77"}', 'scheduled', now() + interval '1 hour');
INSERT INTO public.events (id, starts_at) SELECT n::text, now() + n * interval '1 hour'
    FROM generate_series(40, 60) AS n;
SELECT tasktable.schedule(jsonb_build_object('type', 'SEND_EVENT_REMINDER', 'event_id', id),
    starts_at - interval '1 hour',
    'task-SEND_EVENT_REMINDER-' || id, entity => 'event:' || id) FROM events WHERE id < '55';
SELECT tasktable.schedule('{"type":"SEND_EMAIL","email":"a@example.org","subject":"s","body":"b"}', id => 'mail');
SELECT tasktable.schedule_recurring('{"type":"LOG","message":"tick"}', '*/15 * * * *', 'quarterly');
SELECT tasktable.schedule_recurring('{"type":"TOKEN_CLEANUP"}', '0 3 * * *', 'nightly', time_zone => 'Europe/Berlin');
UPDATE tasktable.scheduled_tasks SET status = 'FAILED', message = '421 try again later', finished_at = now()
    WHERE id = 'mail';`

// documentedDatabase is a migrated database with some rows.
func documentedDatabase(t *testing.T) (url string) {
	t.Helper()
	url = storetest.URL(t)
	execute(t, url, documentedRowsSQL)
	return url
}

// patience is what a reader waits for, and a test need not.
var patience = regexp.MustCompile(`pg_sleep\(\d+\)`)

// Each block of SQL is run in a transaction of its own, on a database with some rows.
func TestSQLBlocks(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), documentedDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, b := range allBlocks(t, "sql") {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), patience.ReplaceAllString(b.text, "pg_sleep(0)"),
			pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Errorf("%s: %v\n%s", b.where, err, b.text)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The autoscaler's query counts the due and the running tasks of a queue. It counts no later and no paused tasks.
func TestAutoscalerQuery(t *testing.T) {
	t.Parallel()
	query := regexp.MustCompile(`(?m)^ +query: (SELECT .*)$`).FindStringSubmatch(readFile(t, "scheduled/DEPLOYING.md"))
	if query == nil {
		t.Fatal("DEPLOYING.md has no query")
	}
	url := storetest.URL(t)
	for _, step := range []struct{ sql, want string }{
		{"SELECT 1", "0"},
		{`SELECT tasktable.schedule('{"type":"LOG"}', now() - interval '1 minute', 'log' || i, priority => i % 3)
			FROM generate_series(1, 7) AS i`, "7"},
		{`SELECT tasktable.schedule('{"type":"LOG"}', now() + interval '1 hour', 'later')`, "7"},
		{`SELECT tasktable.schedule('{"type":"LOG"}', now(), 'other', queue => 'mail')`, "7"},
		{`SELECT tasktable.schedule_recurring('{"type":"LOG"}', '@daily', 'daily')`, "7"},
		{`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = nextval('tasktable.task_numbers'),
			lease_expires_at = now() + interval '1 hour', next_attempt_at = NULL WHERE id IN ('log1', 'log2')`, "7"},
		{`SELECT tasktable.pause_scope('type', 'LOG')`, "2"},
	} {
		execute(t, url, step.sql)
		ask(t, url, query[1], step.want)
	}
}
