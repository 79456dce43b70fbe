package inspect_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// recurringSince makes a recurring task that was scheduled, and last edited, so long ago.
func (b *bench) recurringSince(id, cron string, ago time.Duration) {
	b.Helper()
	task := store.Cron("TEST", cron)
	task.ID, task.At = id, b.Now().Add(-ago)
	b.Schedule(task)
	b.asOwner(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_task_changes SET changed_at = changed_at - $2::interval
			WHERE task_id = $1`, id, ago)
	})
}

// occurrences makes occurrences an interval apart, the last one an interval ago, oldest first.
func (b *bench) occurrences(of string, every time.Duration, statuses ...string) {
	b.Helper()
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, parent_id, status,
		scheduled_at, finished_at, message, next_attempt_at)
		SELECT $1 || '@' || i, '{"type": "TEST"}', 'TEST', i, $1, s, f.at,
			CASE WHEN s <> 'QUEUED' THEN f.at END, E'error ' || i || E'\nin detail', CASE WHEN s = 'QUEUED' THEN f.at END
		FROM unnest($2::text[]) WITH ORDINALITY AS o (s, i) CROSS JOIN LATERAL (
			SELECT clock_timestamp() - (cardinality($2::text[]) - i + 1) * $3::interval AS at) AS f`,
		of, statuses, every)
}

func TestRecurringHealth(t *testing.T) {
	t.Parallel()
	const planned = `UPDATE tasktable.scheduled_tasks SET planned_revision = revision, planned_zone_data = 'x',
		started_at = now() - interval '62 minutes', next_attempt_at = now() + interval '58 minutes'
		WHERE cron IS NOT NULL`
	for name, c := range map[string]struct {
		statuses string // oldest first, an hour apart
		change   string // SQL afterwards
		want     string // health, failures in a row, hours since the last success and failure, last error
		view     string // the view's health, if it is another
	}{
		"never fired":        {"", "", "overdue 0 - - -", "new"}, // its fires of five hours are nowhere
		"succeeds":           {"COMPLETED COMPLETED", "", "ok 0 1 - -", ""},
		"has failed before":  {"FAILED COMPLETED", "", "ok 0 1 2 error 1", ""},
		"fails once":         {"COMPLETED COMPLETED FAILED", "", "failing 1 2 1 error 3", ""},
		"fails twice":        {"COMPLETED FAILED EXPIRED", "", "overdue 2 3 1 error 3", "failing"},
		"never succeeded":    {"FAILED FAILED FAILED", "", "overdue 3 - 1 error 3", "failing"},
		"skipped is neither": {"COMPLETED FAILED SKIPPED CANCELLED QUEUED", "", "overdue 1 5 4 error 2", "failing"},
		"paused":             {"COMPLETED FAILED FAILED", `SELECT tasktable.pause('r')`, "paused 2 3 1 error 3", ""},
		"everything is paused": {"COMPLETED FAILED", `SELECT tasktable.pause_scope('all', '')`,
			"paused 1 2 1 error 2", ""},
		"another queue is paused": {"COMPLETED", `SELECT tasktable.pause_scope('queue', 'mail')`, "ok 0 1 - -", ""},
		"was resumed just now": {"COMPLETED FAILED FAILED",
			`SELECT tasktable.pause('r'), tasktable.resume('r')`, "failing 2 3 1 error 3", ""},
		"its queue was resumed just now": {"COMPLETED FAILED FAILED", `SELECT tasktable.pause_scope('queue', 'default'),
			tasktable.resume_scope('queue', 'default')`, "failing 2 3 1 error 3", ""},
		"ended": {"COMPLETED FAILED", `SELECT tasktable.cancel('r')`, "ended 1 2 1 error 2", ""},
		"takes long": {"COMPLETED FAILED FAILED", `UPDATE tasktable.scheduled_tasks
			SET expected_execution_time = '3 hours' WHERE parent_id IS NULL;
			UPDATE tasktable.scheduled_task_changes SET changed_at = changed_at - interval '5 hours'
			WHERE revision = (SELECT max(revision) FROM tasktable.scheduled_task_changes)`,
			"failing 2 3 1 error 3", ""},
		"succeeds, and its next fire is planned":   {"FAILED COMPLETED", planned, "ok 0 1 2 error 1", ""},
		"fails, and its next fire is planned":      {"COMPLETED FAILED", planned, "failing 1 2 1 error 2", ""},
		"is skipped, and its next fire is planned": {"COMPLETED SKIPPED SKIPPED", planned, "overdue 0 3 - -", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.recurringSince("r", "@every 1h", 5*time.Hour+2*time.Minute)
			b.occurrences("r", time.Hour, strings.Fields(c.statuses)...)
			if c.change != "" {
				b.asOwner(func(tx pgx.Tx) { b.Exec(tx, c.change) })
			}
			task, err := b.Inspector.GetRecurring(b.Ctx, b.Pool, "r")
			b.Check(err)
			hours := func(at *time.Time) string {
				if at == nil {
					return "-"
				}
				return strconv.Itoa(int(b.Now().Sub(*at).Round(time.Hour).Hours()))
			}
			text := "-"
			if task.LastError != nil {
				text = *task.LastError
			}
			got := strings.Join([]string{string(task.Health), strconv.Itoa(task.FailuresInARow), hours(task.LastSuccess),
				hours(task.LastFailure), text}, " ")
			same(b, "health", got, c.want)
			all, err := b.Inspector.ListRecurring(b.Ctx, b.Pool, inspect.RecurringFilter{})
			b.Check(err)
			same(b, "in the list", all[0].Health, task.Health)
			trouble, err := b.Inspector.RecurringTrouble(b.Ctx, b.Pool)
			b.Check(err)
			told := ""
			for _, task := range trouble {
				told += task.ID + string(task.Health)
			}
			wantTold := ""
			if task.Health == inspect.HealthFailing || task.Health == inspect.HealthOverdue {
				wantTold = "r" + string(task.Health)
			}
			same(b, "in trouble", told, wantTold)
			if c.view == "" {
				c.view = string(task.Health)
			}
			same(b, "in the view", one[string](b, b.Pool, `SELECT health FROM tasktable.recurring_tasks`), c.view)
			same(b, "failures in the view", one[string](b, b.Pool, `SELECT concat_ws(' ', failures_in_a_row::text,
				coalesce(last_error, '-')) FROM tasktable.recurring_tasks`), strconv.Itoa(task.FailuresInARow)+" "+text)
		})
	}
}

// A recurring task of each second has many occurrences. What is read of it are the newest by the index, back to the one
// that is looked for, and at most 1000, also while most recurring tasks have few.
func TestRecurringHealthReadsNewestOccurrences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, parent_id, status,
		scheduled_at, finished_at)
		SELECT p || '@' || i, '{"type": "TEST"}', 'TEST', i, p, CASE WHEN p = 'skips' THEN 'SKIPPED'
			ELSE 'COMPLETED' END, f.at, f.at
		FROM generate_series(1, 5000) AS i CROSS JOIN LATERAL (SELECT 'runs' AS p UNION ALL SELECT 'skips'
			UNION ALL SELECT 'other' || i % 2000) AS p CROSS JOIN LATERAL (
			SELECT clock_timestamp() - i * interval '1 second' AS at) AS f`)
	for _, statistics := range []string{"never taken", "taken"} {
		if statistics == "taken" {
			b.Exec(b.Pool, `ANALYZE tasktable.scheduled_tasks`)
		}
		for _, c := range []struct {
			of          string
			onlySuccess bool
			most        int64 // rows of occurrences; Postgres reads 10 at first, and then 50 at a time
		}{{"runs", true, 10}, {"runs", false, 1000}, {"skips", true, 1000}, {"skips", false, 1000}, {"none", false, 0}} {
			b.InTx(func(tx pgx.Tx) {
				const seen = `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
					WHERE relid = 'tasktable.scheduled_tasks'::regclass`
				before := one[int64](b, tx, seen)
				b.Exec(tx, `SELECT tasktable.recurring_health($1, 1, 'default', 'TEST', $2)`, c.of, c.onlySuccess)
				if read := one[int64](b, tx, seen) - before; read != c.most {
					t.Errorf("statistics %s: of %s it reads %d rows, not %d", statistics, c.of, read, c.most)
				}
			})
		}
	}
}

func TestWhyOfRecurringTasksInTrouble(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for id, c := range map[string]struct {
		statuses string
		want     string
	}{
		"well": {"FAILED COMPLETED", ""},
		"once": {"COMPLETED FAILED", "its last occurrence failed at T: error 2; it last succeeded at T"},
		"twice": {"COMPLETED FAILED FAILED", "2 occurrences in a row failed, the last one at T: error 3; " +
			"it is overdue, and it last succeeded at T"},
		"never": {"FAILED", "its last occurrence failed at T: error 1; " +
			"it is overdue, and it is not known ever to have succeeded"},
		"skipped": {"COMPLETED SKIPPED SKIPPED SKIPPED", "it is overdue, and it last succeeded at T"},
	} {
		b.recurringSince(id, "@every 1h", 5*time.Hour+2*time.Minute)
		b.occurrences(id, time.Hour, strings.Fields(c.statuses)...)
		_, got, _ := strings.Cut(b.why(id).Reason.Sentence(timeless), "; ") // before it stands that no node runs
		same(b, id, got, c.want)
	}
}
