package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

var readsBench = Bench{
	Name: "reads", Short: "How long the reads of operators take in a table of five million tasks", Default: readsTasks,
	Long: `Makes a table as it is after a busy month: of 1,000 tasks 4 have failed, 40 wait for a later time, one
waits to be claimed, and most are COMPLETED. There are 50 types, 8 queues, 40 tenants, and 300 recurring tasks with
occurrences. Then it measures the reads that a page needs: lists with each filter, dead letters, recurring tasks,
queues, changes and series. At last it measures the pages of the dashboard, on the server. The figures are
milliseconds, the median and the 95th percentile of 20 calls. To make the table takes minutes, and about 1,300 bytes of
disk for each task.`,
	Verified: "each list has the tasks that a scan of the table finds, in their order", measure: measureReads,
}

const (
	readsTasks = 5000000
	readsTimes = 20
	readsPage  = 100
	readsChunk = 250000
)

// $1 and $2 are the first and the last number, $3 is the number of all tasks. Half of the tasks are of the last day.
const readsTasksSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, type, entity, tenant_id, queue, status, scheduled_at, revision,
    next_attempt_at, attempt, created_at, started_at, finished_at, archived_at, message, scheduled_by)
SELECT 'task-TYPE_' || k.type || '-' || to_hex(hashint8extended(n, 3)),
    jsonb_build_object('type', 'TYPE_' || k.type, 'n', n, 'note', 'a payload of the usual size'), 'TYPE_' || k.type,
    'entity:' || abs(hashint8extended(n, 4)) % ($3::bigint / 10 + 1),
    CASE WHEN n % 10 < 7 THEN 'tenant-' || abs(hashint8extended(n, 5)) % 40 END, 'queue-' || k.type % 8, s.status, t.at,
    10 * n, CASE WHEN s.status = 'QUEUED' THEN t.at END, CASE WHEN s.status IN ('QUEUED', 'PAUSED') THEN 0 ELSE 1 END,
    c.at, CASE WHEN f.final THEN t.at END, CASE WHEN f.final THEN t.at + n % 2000 * interval '1 millisecond' END,
    CASE WHEN k.chance BETWEEN 440 AND 449 THEN t.at + interval '1 hour' END,
    CASE WHEN s.status = 'FAILED' THEN 'error ' || n % 30 || ' of the mail server, for message ' || n END, 'bench'
FROM generate_series($1::bigint, $2::bigint) AS n
CROSS JOIN LATERAL (SELECT abs(hashint8extended(n, 1)) % 10000 AS chance, abs(hashint8extended(n, 2)) % 50 AS type) AS k
CROSS JOIN LATERAL (SELECT CASE WHEN k.chance < 410 THEN 'QUEUED' WHEN k.chance < 450 THEN 'FAILED'
    WHEN k.chance < 460 THEN 'EXPIRED' WHEN k.chance < 462 THEN 'PAUSED' WHEN k.chance < 480 THEN 'CANCELLED'
    ELSE 'COMPLETED' END AS status) AS s
CROSS JOIN LATERAL (SELECT s.status NOT IN ('QUEUED', 'PAUSED') AS final) AS f
CROSS JOIN LATERAL (SELECT now() - interval '30 days' * (1 - n::float8 / $3::bigint) ^ 5 AS at) AS c
CROSS JOIN LATERAL (SELECT CASE WHEN k.chance < 10 THEN now() - n % 3600 * interval '1 second'
    WHEN f.final THEN c.at - n % 60 * interval '1 second'
    ELSE now() + n % 2592000 * interval '1 second' END AS at) AS t`

const readsChangesSQL = `
INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_at, changed_by, new)
SELECT t.revision + e.edit, t.id, CASE e.edit WHEN 0 THEN 'schedule' ELSE 'reschedule' END,
    CASE e.edit WHEN 0 THEN 'created' ELSE 'rescheduled' END, t.created_at, 'admin-' || t.revision / 10 % 7, '{}'
FROM tasktable.scheduled_tasks AS t CROSS JOIN LATERAL generate_series(0, (t.revision % 250 = 0)::int) AS e (edit)
WHERE t.revision BETWEEN 10 * $1::bigint AND 10 * $2::bigint AND $3::bigint > 0`

const readsExecutionsSQL = `
INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, due_at,
    started_at, finished_at, outcome, node)
SELECT t.revision + 2, t.id, t.type, t.revision, 1, t.scheduled_at, t.scheduled_at,
    t.scheduled_at + t.revision % 90 * interval '1 millisecond', t.finished_at, t.status, 1
FROM tasktable.scheduled_tasks AS t
WHERE t.revision BETWEEN 10 * $1::bigint AND 10 * $2::bigint AND t.status IN ('COMPLETED', 'FAILED', 'EXPIRED')
    AND $3::bigint > 0
ORDER BY t.revision`

const readsRecurringSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, type, scheduled_at, revision, cron, time_zone, overlap, catch_up,
    catch_up_paused, catch_up_limit, next_attempt_at, planned_revision, planned_zone_data, parent_id, status,
    started_at, finished_at)
SELECT CASE WHEN o.hour = 0 THEN 'recurring-' || k ELSE 'recurring-' || k || '@' || o.hour END, '{"type": "CRON"}',
    'CRON', o.at, $1::bigint * 10 + k * 1000 + o.hour, CASE WHEN o.hour = 0 THEN '0 * * * *' END, 'UTC', 'skip',
    'latest', 'none', 100, CASE WHEN o.hour = 0 THEN now() + interval '1 hour' END,
    CASE WHEN o.hour = 0 THEN $1::bigint * 10 + k * 1000 END, CASE WHEN o.hour = 0 THEN 'x' END,
    CASE WHEN o.hour > 0 THEN 'recurring-' || k END, CASE WHEN o.hour = 0 THEN 'QUEUED' WHEN o.hour % 10 = 3
    THEN 'SKIPPED' ELSE 'COMPLETED' END, CASE WHEN o.hour = 0 THEN now() - interval '1 hour' END,
    CASE WHEN o.hour > 0 THEN o.at END
FROM generate_series(1, 300) AS k CROSS JOIN LATERAL (
    SELECT hour, now() - hour * interval '1 hour' AS at FROM generate_series(0, 100) AS hour) AS o`

// loadReads makes the table.
func (d *database) loadReads(ctx context.Context, config Config) error {
	err := d.exec(ctx, "ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER",
		"ALTER TABLE tasktable.scheduled_task_executions DISABLE TRIGGER USER")
	if err != nil {
		return err
	}
	for from := 1; from <= config.Tasks; from += readsChunk {
		to := min(from+readsChunk-1, config.Tasks)
		for _, statement := range []string{readsTasksSQL, readsChangesSQL, readsExecutionsSQL} {
			if _, err := d.Pool.Exec(ctx, statement, from, to, config.Tasks); err != nil {
				return fmt.Errorf("make tasks: %w", err)
			}
		}
		config.Say("%d of %d tasks", to, config.Tasks)
	}
	if _, err := d.Pool.Exec(ctx, readsRecurringSQL, config.Tasks); err != nil {
		return fmt.Errorf("make recurring tasks: %w", err)
	}
	return d.exec(ctx, "ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER",
		"ALTER TABLE tasktable.scheduled_task_executions ENABLE TRIGGER USER", "VACUUM ANALYZE", "CHECKPOINT")
}

// listRead is a list, with the condition in SQL by which its first page is verified.
type listRead struct {
	name   string
	filter inspect.Filter
	where  string
}

func readsLists() []listRead {
	failed, queued := []store.Status{store.StatusFailed}, []store.Status{store.StatusQueued}
	return []listRead{
		{"list", inspect.Filter{}, "true"},
		{"list_latest", inspect.Filter{LatestFirst: true}, "true"},
		{"list_type", inspect.Filter{Type: "TYPE_30", LatestFirst: true}, "type = 'TYPE_30'"},
		{"list_queue", inspect.Filter{Queue: "queue-3"}, "queue = 'queue-3'"},
		{"list_tenant", inspect.Filter{TenantID: "tenant-7", LatestFirst: true}, "tenant_id = 'tenant-7'"},
		{"list_entity", inspect.Filter{Entity: "entity:7"}, "entity = 'entity:7'"},
		{"list_prefix", inspect.Filter{IDPrefix: "task-TYPE_3-1"}, "starts_with(id, 'task-TYPE_3-1')"},
		{"list_id", inspect.Filter{Order: inspect.ByID, LatestFirst: true}, "true"},
		{"list_finished", inspect.Filter{Order: inspect.ByFinished, LatestFirst: true}, "finished_at IS NOT NULL"},
		{"list_archived", inspect.Filter{Archived: new(true)}, "archived_at IS NOT NULL"},
		{"list_dead", inspect.DeadLetters(), "status IN ('FAILED', 'EXPIRED') AND archived_at IS NULL"},
		{"list_failed", inspect.Filter{Statuses: failed, LatestFirst: true}, "status = 'FAILED'"},
		{"list_queued", inspect.Filter{Statuses: queued}, "status = 'QUEUED'"},
		{"list_queued_type", inspect.Filter{Statuses: queued, Type: "TYPE_7"}, "status = 'QUEUED' AND type = 'TYPE_7'"},
		{"list_failed_tenant", inspect.Filter{Statuses: failed, TenantID: "tenant-7"},
			"status = 'FAILED' AND tenant_id = 'tenant-7'"},
		{"list_message", inspect.Filter{Message: "nowhere", LatestFirst: true}, "message LIKE '%nowhere%'"},
	}
}

func measureReads(ctx context.Context, config Config, result *Result) error {
	return within(ctx, config, func(d *database) error {
		if err := d.loadReads(ctx, config); err != nil {
			return err
		}
		inspector := inspect.New(store.Config{})
		for _, one := range readsLists() {
			one.filter.Limit = readsPage
			if err := d.verifyRead(ctx, inspector, one); err != nil {
				return err
			}
			err := result.time(timesOf(config), one.name, func() error {
				_, err := inspector.Search(ctx, d.Pool, one.filter)
				return err //nolint:wrapcheck // it names the call
			})
			if err != nil {
				return err
			}
		}
		for _, one := range otherReads(ctx, d, inspector) {
			if err := result.time(timesOf(config), one.name, one.read); err != nil {
				return err
			}
		}
		return d.timePages(ctx, timesOf(config), result)
	})
}

// timesOf is how often each read is called. A small table is for a look at the bench itself.
func timesOf(config Config) int {
	if config.Tasks < readsTasks/50 {
		return 2
	}
	return readsTimes
}

// time calls a read again and again.
func (r *Result) time(times int, name string, read func() error) error {
	var took []float64
	for i := range times + 2 {
		began := time.Now()
		if err := read(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if i >= 2 { // the first ones fill caches
			took = append(took, float64(time.Since(began).Microseconds())/1000)
		}
	}
	slices.Sort(took)
	r.add(name+"_p50_ms", quantile(took, 0.5), "milliseconds, median")
	r.add(name+"_p95_ms", quantile(took, 0.95), "milliseconds, 95th percentile")
	return nil
}

type otherRead struct {
	name string
	read func() error
}

func otherReads(ctx context.Context, d *database, i *inspect.Inspector) []otherRead {
	now := time.Now()
	series := inspect.SeriesFilter{From: now.Add(-6 * time.Hour), To: now, Bucket: 6 * time.Minute}
	var parents []string
	for k := range 50 {
		parents = append(parents, fmt.Sprint("recurring-", k+1))
	}
	return []otherRead{
		{"count_up_to", func() error {
			_, _, err := i.CountUpTo(ctx, d.Pool, inspect.Filter{Queue: "queue-3"}, 1000)
			return err
		}},
		{"groups", func() error { _, err := i.Groups(ctx, d.Pool, inspect.DeadLetters(), ""); return err }},
		{"attention", func() error { _, err := i.Attention(ctx, d.Pool); return err }},
		{"series", func() error { _, err := i.Series(ctx, d.Pool, series); return err }},
		{"changes", func() error {
			_, err := i.Changes(ctx, d.Pool, inspect.ChangesFilter{By: "admin-3"})
			return err
		}},
		{"recurring", func() error { _, err := i.ListRecurring(ctx, d.Pool, inspect.RecurringFilter{}); return err }},
		{"occurrences", func() error { _, err := i.Occurrences(ctx, d.Pool, 20, parents...); return err }},
		{"queues", func() error { _, err := i.QueueStates(ctx, d.Pool, inspect.QueueFilter{}); return err }},
		{"throughput", func() error { _, err := i.Throughput(ctx, d.Pool, inspect.StatsFilter{}); return err }},
		{"task_counts", func() error { _, err := i.TaskCounts(ctx, d.Pool, "", false); return err }},
		{"why", func() error { _, err := i.Why(ctx, d.Pool, "recurring-7"); return err }},
	}
}

// verifyRead compares the first page of a list with a scan of the table. The sum keeps Postgres from using an index.
func (d *database) verifyRead(ctx context.Context, i *inspect.Inspector, one listRead) error {
	page, err := i.Search(ctx, d.Pool, one.filter)
	if err != nil {
		return fmt.Errorf("%s: %w", one.name, err)
	}
	column := "scheduled_at + interval '0'"
	switch one.filter.Order {
	case inspect.ByID:
		column = "''::text"
	case inspect.ByFinished:
		column = "finished_at + interval '0'"
	}
	direction := ""
	if one.filter.LatestFirst {
		direction = " DESC"
	}
	var want string
	sql := fmt.Sprintf(`SELECT coalesce(string_agg(id, ' ' ORDER BY place), '') FROM (
		SELECT id, row_number() OVER (ORDER BY %[1]s%[3]s, (id || '') COLLATE "C"%[3]s) AS place
		FROM tasktable.scheduled_tasks WHERE %[2]s) AS t WHERE place <= %[4]d`, column, one.where, direction, readsPage)
	if err := d.Scan(ctx, sql, nil, &want); err != nil {
		return fmt.Errorf("verify %s: %w", one.name, err)
	}
	ids := make([]string, len(page.Rows))
	for i, row := range page.Rows {
		ids[i] = row.ID
	}
	got := strings.Join(ids, " ")
	if got != want && (!page.Cut || !strings.HasPrefix(want, got)) {
		return failed("%s has\n%s\ninstead of\n%s", one.name, got, want)
	}
	return nil
}
