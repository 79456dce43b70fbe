package week

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

const schema = "tasktable_demo"

// filled is a database with a week.
func filled(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := migrations.Up(t.Context(), pool, schema); err != nil {
		t.Fatal(err)
	}
	if err := community.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	fill(t, pool)
	return pool
}

func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if err := Fill(t.Context(), pool, schema, one[time.Time](t, pool, "SELECT clock_timestamp()"), 7); err != nil {
		t.Fatal(err)
	}
}

func one[T any](t *testing.T, pool *pgxpool.Pool, sql string) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// The rows are those that the engine and the verbs would have left. Each query counts what they would not have.
var impossible = map[string]string{
	"tasks without the change of their revision": `
SELECT count(*) FROM tasktable_demo.scheduled_tasks AS t
WHERE t.revision IS DISTINCT FROM (
    SELECT max(c.revision) FROM tasktable_demo.scheduled_task_changes AS c WHERE c.task_id = t.id)`,
	"changes after now": `
SELECT count(*) FROM tasktable_demo.scheduled_task_changes WHERE changed_at > clock_timestamp()`,
	"attempts that ended after now": `
SELECT count(*) FROM tasktable_demo.scheduled_task_executions WHERE finished_at > clock_timestamp()`,
	"revisions that are not in the order of their times": `
SELECT count(*) FROM (SELECT changed_at < lag(changed_at) OVER (ORDER BY revision) AS back
    FROM tasktable_demo.scheduled_task_changes) AS c WHERE c.back`,
	"numbers used twice": `
SELECT count(*) FROM tasktable_demo.scheduled_task_changes AS c
JOIN tasktable_demo.scheduled_task_executions AS e ON e.fence = c.revision`,
	"numbers that the sequence has not drawn": `
SELECT count(*) FROM tasktable_demo.scheduled_task_executions
WHERE fence > (SELECT last_value FROM tasktable_demo.task_numbers)`,
	"attempts of no revision, or before their revision": `
SELECT count(*) FROM tasktable_demo.scheduled_task_executions AS e
LEFT JOIN tasktable_demo.scheduled_task_changes AS c ON c.revision = e.revision AND c.task_id = e.task_id
WHERE (e.fence > c.revision AND coalesce(e.started_at, e.finished_at) >= c.changed_at) IS NOT TRUE`,
	"attempts that began before they were due": `
SELECT count(*) FROM tasktable_demo.scheduled_task_executions WHERE started_at < due_at`,
	"attempts that began after the task expired": `
SELECT count(*) FROM tasktable_demo.scheduled_task_executions AS e
JOIN tasktable_demo.scheduled_tasks AS t ON t.id = e.task_id AND t.revision = e.revision
WHERE e.started_at >= t.scheduled_at + t.expiration AND t.run_now_at IS NULL`,
	"attempts that overlap with an earlier one of their task": `
SELECT count(*) FROM (SELECT started_at < lag(finished_at) OVER (PARTITION BY task_id ORDER BY fence) AS overlaps
    FROM tasktable_demo.scheduled_task_executions) AS e WHERE e.overlaps`,
	"attempts on a node that was not there": `
SELECT count(*) FROM tasktable_demo.scheduled_task_executions AS e
LEFT JOIN tasktable_demo.nodes AS n ON n.number = e.node
WHERE e.started_at IS NOT NULL AND (e.started_at >= n.started_at AND e.finished_at <= n.dead_at) IS NOT TRUE`,
	"finished tasks whose last attempt ended otherwise": `
SELECT count(*) FROM tasktable_demo.scheduled_tasks AS t
WHERE t.status IN ('COMPLETED', 'FAILED', 'EXPIRED') AND (
    SELECT (e.outcome, e.finished_at) FROM tasktable_demo.scheduled_task_executions AS e
    WHERE e.task_id = t.id ORDER BY e.fence DESC LIMIT 1)
    IS DISTINCT FROM (t.status::text, t.finished_at)`,
	"tasks with another number of attempts": `
SELECT count(*) FROM tasktable_demo.scheduled_tasks AS t
WHERE t.cron IS NULL AND t.attempt <> (SELECT count(*) FROM tasktable_demo.scheduled_task_executions AS e
    WHERE e.task_id = t.id AND e.revision = t.revision AND e.outcome NOT IN ('SNOOZED', 'INTERRUPTED', 'EXPIRED'))
    AND t.status <> 'FAILED'`,
	"waiting tasks that are due at another time": `
SELECT count(*) FROM tasktable_demo.scheduled_tasks AS t
WHERE t.status = 'QUEUED' AND t.cron IS NULL AND t.attempt = 0 AND NOT EXISTS (
    SELECT FROM tasktable_demo.scheduled_task_executions AS e WHERE e.task_id = t.id AND e.revision = t.revision)
    AND t.next_attempt_at <> tasktable_demo.due_of(t.id, t.scheduled_at, t.run_now_at, t.jitter)`,
	"occurrences without their recurring task, or with another name": `
SELECT count(*) FROM tasktable_demo.scheduled_tasks AS t
LEFT JOIN tasktable_demo.scheduled_tasks AS p ON p.id = t.parent_id AND p.cron IS NOT NULL
WHERE t.parent_id IS NOT NULL
    AND (t.id = p.id || to_char(t.scheduled_at AT TIME ZONE 'UTC', '"@"YYYY-MM-DD"T"HH24:MI:SS"Z"')) IS NOT TRUE`,
	"follow-ups of no task": `
SELECT count(*) FROM tasktable_demo.scheduled_tasks AS t
WHERE t.spawned_by IS NOT NULL AND NOT EXISTS (SELECT FROM tasktable_demo.scheduled_tasks AS p
    WHERE p.id = t.spawned_by AND p.finished_at = t.created_at AND p.scheduled_by = t.scheduled_by)`,
	"dead letters of a rule that nobody was told of": `
SELECT count(*) FROM tasktable_demo.scheduled_task_executions AS e
WHERE e.outcome = 'FAILED' AND e.type IN ('SEND_EMAIL', 'PUBLISH_SCHEDULED_POST') AND NOT EXISTS (
    SELECT FROM tasktable_demo.notice_causes AS c JOIN tasktable_demo.scheduled_tasks AS n ON n.id = c.notice_id
    WHERE c.number = e.fence AND c.task_id = e.task_id AND c.at = e.finished_at AND n.scheduled_at > c.at)`,
	"triggers that are off": `
SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'tasktable_demo.%' AND tgenabled <> 'O'`,
}

// Two weeks one after the other leave one week.
func TestFill(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	const newestSQL = "SELECT max(fence) FROM tasktable_demo.scheduled_task_executions"
	const nodesSQL = "SELECT min(number) FROM tasktable_demo.nodes"
	const countSQL = "SELECT count(*)::int FROM tasktable_demo.scheduled_tasks"
	newest, nodes, tasks := one[int64](t, pool, newestSQL), one[int64](t, pool, nodesSQL), one[int](t, pool, countSQL)
	fill(t, pool)
	if again := one[int](t, pool, countSQL); tasks < 20000 || again < tasks-100 || again > tasks+100 {
		t.Errorf("%d tasks, and %d after the second time", tasks, again)
	}
	if one[int64](t, pool, "SELECT min(fence) FROM tasktable_demo.scheduled_task_executions") <= newest ||
		one[int64](t, pool, nodesSQL) <= nodes {
		t.Error("numbers are used again")
	}
	for what, sql := range impossible {
		if count := one[int64](t, pool, sql); count > 0 {
			t.Errorf("%s: %d", what, count)
		}
	}
}

func TestWeek(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	t.Run("kinds", func(t *testing.T) { checkKinds(t, pool) })
	t.Run("why", func(t *testing.T) { checkWhy(t, pool) })
	t.Run("health", func(t *testing.T) { checkHealth(t, pool) })
}

// Each page of a dashboard has something to show.
func checkKinds(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for what, sql := range map[string]string{
		"statuses": `SELECT string_agg(DISTINCT status::text, ' ' ORDER BY status::text) =
    'CANCELLED COMPLETED EXPIRED FAILED PAUSED QUEUED SKIPPED' FROM tasktable_demo.scheduled_tasks`,
		"outcomes": `SELECT string_agg(DISTINCT outcome, ' ' ORDER BY outcome) = 'COMPLETED EXPIRED FAILED INTERRUPTED ' ||
    'LOST RETRIED SNOOZED SUPERSEDED' FROM tasktable_demo.scheduled_task_executions`,
		"verbs": `SELECT count(DISTINCT verb) = 8 FROM tasktable_demo.scheduled_task_changes
WHERE verb IN ('schedule', 'sync', 'fork', 'cancel', 'pause', 'resume', 'retry', 'archive', 'delete') AND verb <> 'fork'`,
		"health": `SELECT string_agg(DISTINCT health, ' ' ORDER BY health) = 'failing ok paused'
FROM tasktable_demo.recurring_tasks`,
		"dead letters that are archived": `SELECT count(*) > 3 FROM tasktable_demo.dead_letters WHERE archived_note <> ''`,
		"a long error with markup": `SELECT count(*) = 1 FROM tasktable_demo.dead_letters
WHERE message LIKE '%<script>alert(1)</script>%' AND length(message) > 3000`,
		"a large payload": `SELECT max(octet_length(payload::text)) > 40000 FROM tasktable_demo.scheduled_tasks`,
		"versions":        `SELECT count(DISTINCT version) = 3 FROM tasktable_demo.node_states WHERE state = 'ended'`,
		"a paused queue": `SELECT count(*) = 1 FROM tasktable_demo.pauses
WHERE ends_at > clock_timestamp() AND scope = 'queue' AND reason <> ''`,
		"late starts after the downtime": `SELECT max(delay_max) > interval '30 minutes'
FROM tasktable_demo.delay_by_type_and_hour WHERE type = 'SEND_EVENT_REMINDER'`,
		"more by day than by night": `
SELECT sum(executions) FILTER (WHERE extract(hour FROM hour AT TIME ZONE 'UTC') = 18) >
    5 * sum(executions) FILTER (WHERE extract(hour FROM hour AT TIME ZONE 'UTC') = 3)
FROM tasktable_demo.throughput_by_hour WHERE type = 'SEND_EVENT_REMINDER'`,
		"keys":       `SELECT count(*) = 3 AND count(revoked_at) = 1 FROM tasktable_demo.api_keys`,
		"follow-ups": `SELECT count(*) > 1000 FROM tasktable_demo.follow_ups`,
		"tasks of the next days": `SELECT count(*) > 500 FROM tasktable_demo.scheduled_tasks
WHERE next_attempt_at > clock_timestamp() + interval '1 hour'`,
	} {
		if !one[bool](t, pool, sql) {
			t.Errorf("%s: not as they should be", what)
		}
	}
}

// Each question about a task has a sensible answer.
func checkWhy(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	inspector := inspect.New(store.Config{Schema: schema})
	ask := func(sql string) string {
		return one[string](t, pool, "SELECT task_id FROM tasktable_demo.scheduled_task_executions WHERE "+sql+" LIMIT 1")
	}
	changed := func(sql string) string {
		return one[string](t, pool, "SELECT task_id FROM tasktable_demo.scheduled_task_changes WHERE "+sql+" LIMIT 1")
	}
	for _, test := range []struct{ id, code, says string }{
		{pausedTask, "paused", "it is paused by ops"},
		{untilTask, "paused", "it is paused by events-api"},
		{retryTask, "retry", "attempt 3 of 10 failed, and the next waits for its time"},
		{poisonID, "failed", "failed for good at attempt 1 of 10"},
		{largeID, "completed", "completed by attempt 1 of 10"},
		{overdueID, "no_node", "it is overdue"},
		{stuckID, "recurring", "occurrences in a row failed"},
		{failingID, "recurring", "failed"},
		{pausedID, "paused", "it is paused by ops"},
		{"task-SEND_EMAIL-autumn-0000", "paused_scope", "queue newsletter is paused by ops"},
		{longMailID + "-00", "completed", "completed by attempt 2 of 10"},
		{ask("outcome = 'EXPIRED'"), "expired", "expired before it could start"},
		{ask("outcome = 'SUPERSEDED'"), "completed", ""},
		{ask("outcome = 'INTERRUPTED'"), "completed", "completed by attempt 1 of 10"},
		{changed("verb = 'delete'"), "deleted", "deleted by ops"},
		{changed("verb = 'cancel'"), "cancelled", "cancelled by accounts-api"},
		{changed("verb = 'archive'"), "failed", "archived by ops"},
		{changed("verb = 'fork' AND new ->> 'status' = 'SKIPPED'"), "skipped", missedText},
	} {
		answer, err := inspector.Why(t.Context(), pool, test.id)
		if err != nil {
			t.Errorf("%s: %v", test.id, err)
			continue
		}
		if answer.Reason.Code != test.code || !strings.Contains(answer.Sentence, test.says) {
			t.Errorf("%s: %s: %s; want %s: %s", test.id, answer.Reason.Code, answer.Sentence, test.code, test.says)
		}
	}
}

func checkHealth(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	inspector := inspect.New(store.Config{Schema: schema})
	recurring, err := inspector.ListRecurring(t.Context(), pool, inspect.RecurringFilter{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]inspect.Health{overdueID: inspect.HealthOverdue, stuckID: inspect.HealthOverdue,
		failingID: inspect.HealthFailing, pausedID: inspect.HealthPaused}
	for _, task := range recurring {
		expected, special := want[task.ID]
		if !special {
			expected = inspect.HealthOK
		}
		if task.Health != expected {
			t.Errorf("%s is %s, want %s", task.ID, task.Health, expected)
		}
	}
}

// While a node works in the schema nothing changes.
func TestFillWhileANodeWorks(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	const countSQL = "SELECT count(*) FROM tasktable_demo.nodes"
	node, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer node.Release()
	if _, err := node.Exec(t.Context(), `
WITH node AS (INSERT INTO tasktable_demo.nodes (service, version, host, queues, types)
    VALUES ('demo', '3', 'h/1', '{"default": 1}', '{LOG}') RETURNING number)
SELECT pg_advisory_lock((tasktable_demo.lock_class('node')::bit(32))::int, number::int) FROM node`); err != nil {
		t.Fatal(err)
	}
	before := one[int64](t, pool, countSQL)
	if err := Fill(t.Context(), pool, schema, time.Now(), 7); !errors.Is(err, ErrBusy) {
		t.Errorf("%v", err)
	}
	if after := one[int64](t, pool, countSQL); after != before {
		t.Errorf("%d nodes, before %d", after, before)
	}
}
