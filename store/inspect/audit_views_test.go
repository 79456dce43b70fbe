package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ran records an attempt that ended at an hour and minute of a day.
func (b *bench) ran(kind, outcome, ended string, delay, took time.Duration) {
	b.Helper()
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
		scheduled_at, due_at, started_at, finished_at, outcome)
		SELECT nextval('tasktable.task_numbers'), 'any', $1, 1, 1, at - $4::interval - $3::interval,
			at - $4::interval - $3::interval, CASE WHEN $4::interval > interval '0' THEN at - $4::interval END, at, $2
		FROM (SELECT ('2030-01-01 ' || $5 || '+00')::timestamptz AS at) AS one`, kind, outcome, delay, took, ended)
}

func TestViewsByHour(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ran("MAIL", "COMPLETED", "10:59:59.999", time.Millisecond, time.Second)
	for i := 1; i <= 100; i++ {
		b.ran("MAIL", "COMPLETED", "11:00", time.Duration(i)*time.Millisecond, time.Duration(i)*time.Second)
	}
	b.ran("MAIL", "RETRIED", "11:30", time.Second, time.Minute)
	b.ran("MAIL", "FAILED", "11:31", 0, time.Minute)
	for _, outcome := range []string{"EXPIRED", "LOST", "LOST", "RELEASED", "SUPERSEDED"} {
		b.ran("MAIL", outcome, "11:59", 0, 0)
	}
	b.ran("POST", "COMPLETED", "11:00", 0, time.Second)
	const within = ` WHERE hour >= '2030-01-01 11:00Z' AND hour < '2030-01-01 12:00Z'`
	for query, want := range map[string]string{
		`SELECT string_agg(concat_ws(' ', extract(hour FROM hour AT TIME ZONE 'UTC'), type, executions, completed,
			retried, failed, expired, lost, others, busy), ', ' ORDER BY hour, type)
			FROM tasktable.throughput_by_hour`: "10 MAIL 1 1 0 0 0 0 0 00:00:01, 11 MAIL 107 100 1 1 1 2 2 01:26:10, " +
			"11 POST 1 1 0 0 0 0 0 00:00:01",
		`SELECT sum(executions)::text FROM tasktable.throughput_by_hour` + within: "108",
		`SELECT concat_ws(' ', starts, failures, delay_p50, delay_p95, delay_p99, delay_max)
			FROM tasktable.delay_by_type_and_hour` + within +
			` AND type = 'MAIL'`: "102 2 00:00:00.0505 00:00:00.09595 00:00:00.09999 00:00:01",
		`SELECT concat_ws(' ', took_p50, took_p95, took_max)
			FROM tasktable.delay_by_type_and_hour` + within + ` AND type = 'MAIL'`: "00:00:51.5 00:01:34.95 00:01:40",
	} {
		if got := one[string](b, b.Pool, query); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

// What is asked of one task, or of some hours, does not read the tables through.
func TestPlansOfTheAuditViews(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, priority, revision, status,
		scheduled_at, next_attempt_at, finished_at)
		SELECT 'task-' || i, jsonb_build_object('type', type), type, 'queue' || i % 3, i % 5, i, CASE i % 2
			WHEN 0 THEN 'COMPLETED' ELSE 'QUEUED' END,
			at, CASE i % 2 WHEN 1 THEN at END, CASE i % 2 WHEN 0 THEN at END
		FROM generate_series(1, 10000) AS i, concat('TYPE_', i % 10) AS type,
			timezone('UTC', now() AT TIME ZONE 'UTC' + (i - 5000) * interval '1 second') AS at`)
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt,
		scheduled_at, due_at, started_at, finished_at, outcome)
		SELECT i, 'task-' || i % 10000, concat('TYPE_', i % 10), i, 1, at, at, at, at, 'COMPLETED'
		FROM generate_series(1, 20000) AS i,
			timezone('UTC', now() AT TIME ZONE 'UTC' + (i - 20000) * interval '50 seconds') AS at`)
	b.Exec(b.Pool, `VACUUM ANALYZE tasktable.scheduled_tasks, tasktable.scheduled_task_executions`)
	b.Node(`{"queue0": 3, "queue1": 3, "queue2": 3}`, `{TYPE_1,TYPE_2,TYPE_3}`, true)
	const reason = ` FROM tasktable.task_reasons WHERE id = 'task-`
	for _, query := range []string{
		`SELECT *` + reason + `4001'`, // in line, behind many
		`SELECT *` + reason + `4005'`, // no_type
		`SELECT *` + reason + `9001'`, // not due
		`SELECT r.* FROM tasktable.task_reasons AS r
			JOIN unnest('{task-4001,task-9001}'::text[]) AS asked (id) ON r.id = asked.id`,
		`SELECT * FROM tasktable.next_fires`,
		`SELECT * FROM tasktable.throughput_by_hour WHERE hour >= now() - interval '5 hours'`,
		`SELECT * FROM tasktable.delay_by_type_and_hour WHERE hour >= now() - interval '5 hours' AND type = 'TYPE_1'`,
		`SELECT * FROM tasktable.scheduled_task_executions WHERE finished_at >= now() - interval '1 hour'`,
	} {
		b.InTx(func(tx pgx.Tx) {
			// Counted as they happen, also those within functions.
			const scans = `SELECT coalesce(sum(seq_scan), 0)::int FROM pg_stat_xact_user_tables
				WHERE relname LIKE 'scheduled_task%'`
			before := one[int](b, tx, scans)
			b.Exec(tx, query)
			if n := one[int](b, tx, scans) - before; n != 0 {
				plan, err := tx.Query(b.Ctx, `EXPLAIN `+query)
				b.Check(err)
				lines, err := pgx.CollectRows(plan, pgx.RowTo[string])
				b.Check(err)
				t.Errorf("%s: %d tables are read through:\n%s", query, n, strings.Join(lines, "\n"))
			}
		})
	}
	if e := b.why("task-4001"); e.Reason.Code != "in_line" || !strings.HasPrefix(e.Reason.Text, "waits behind ") {
		t.Errorf("task-4001: %+v", e.Reason)
	}
}

// A count that has no end in a long line.
func TestLongLinesAreCountedUpToABound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	b.due("last", nil)
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, priority, revision, next_attempt_at)
		SELECT 'task-' || i, '{"type": "TEST"}', 'TEST', i % 2, i, '2020-01-01Z' FROM generate_series(1, 20002) AS i`)
	b.because("last", "in_line", "waits behind at least 10000 tasks of higher priority, while 0 of its queue are "+
		"claimed for 3 slots, due since T")
}
