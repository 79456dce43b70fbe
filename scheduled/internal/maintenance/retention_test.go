package maintenance

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const day = 24 * time.Hour

// retainerOf is one of a node that keeps finished tasks so long.
func (b *bench) retainerOf(period time.Duration, byType map[string]time.Duration) *Retention {
	return NewRetention(RetentionConfig{Config: b.onLeader(), Period: period, ByType: byType})
}

// retain goes through all tables at a time, and returns how many rows were removed and in how many batches.
func (b *bench) retain(r *Retention, now time.Time) (removed int64, batches int) {
	b.T.Helper()
	var at Place
	for {
		var gone Retained
		b.InTx(func(tx pgx.Tx) {
			var err error
			if at, gone, err = r.step(b.T.Context(), tx, &now, at); err != nil {
				b.T.Fatal(err)
			}
		})
		removed += gone.Rows
		if batches++; at == (Place{}) {
			return removed, batches
		}
	}
}

// old schedules a task that was completed so long before noon.
func (b *bench) old(id, kind string, age time.Duration, change func(*store.Task)) {
	b.T.Helper()
	task := store.Task{
		ID: id, Payload: store.JSON(`{"type":"` + kind + `"}`), At: noon.Add(-age - time.Hour),
	}
	if change != nil {
		change(&task)
	}
	enginetest.Schedule(b.T, b.Pool, task)
	lane := taskdb.Grant{Lane: taskdb.Lane{Queue: "default", Type: kind}, Tasks: 10}
	for _, c := range enginetest.ClaimsOf(b.ClaimFrom(task.At, 0, lane)) {
		s := enginetest.Completed(c)
		s.Type = kind
		b.End(noon.Add(-age), s)
	}
}

// left lists what there is: tasks, executions and changes, by task id.
func (b *bench) left() string {
	b.T.Helper()
	var text []string
	for _, table := range []string{
		"scheduled_tasks|id", "scheduled_task_executions|task_id", "scheduled_task_changes|task_id",
	} {
		name, column, _ := strings.Cut(table, "|")
		var ids []string
		b.OK(b.Pool.QueryRow(
			b.T.Context(),
			`SELECT coalesce(array_agg(`+column+`::text ORDER BY `+column+`::text COLLATE "C"), '{}') FROM tasktable.`+
				name,
		).Scan(&ids))
		text = append(text, strings.Join(ids, " "))
	}
	return strings.Join(text, "; ")
}

// The answers of the HTTP API are kept for 24 hours, however long tasks are.
func TestRetainAnswers(t *testing.T) {
	b := newBench(t)
	for key, age := range map[string]time.Duration{"old": day + time.Second, "new": day - time.Second} {
		_, err := b.Pool.Exec(b.T.Context(), `INSERT INTO tasktable.api_answers (caller, idempotency_key,
			request_hash, answer, created_at) VALUES ('me', $1, '', '{}', $2)`, key, noon.Add(-age))
		b.OK(err)
	}
	if removed, _ := b.retain(b.retainerOf(-1, nil), noon); removed != 0 {
		t.Errorf("%d tasks and lines of history were removed", removed)
	}
	var left string
	if err := b.Pool.QueryRow(b.T.Context(), `SELECT string_agg(idempotency_key, ' ') FROM tasktable.api_answers`).
		Scan(&left); err != nil || left != "new" {
		t.Errorf("left are %s, %v", left, err)
	}
}

// A session of the dashboard goes when it has expired, however long tasks are kept.
func TestRetainSessions(t *testing.T) {
	b := newBench(t)
	b.Exec(`INSERT INTO tasktable.api_keys (name, prefix, secret_hash, scopes, service)
		VALUES ('ann', 'tt_', sha256('ann'), '{read}', 'people')`)
	for name, left := range map[string]time.Duration{"expired": -time.Second, "lives": time.Second} {
		b.Did(b.Pool.Exec(t.Context(), `INSERT INTO tasktable.api_sessions (token_hash, key_number, created_at,
				expires_at, ends_at, idle_limit)
			SELECT sha256($1::text::bytea), number, $2::timestamptz - interval '1 hour', $2, $2, '1 hour'
			FROM tasktable.api_keys`, name, noon.Add(left)))
	}
	b.retain(b.retainerOf(-1, nil), noon)
	var expired, all int
	if err := b.Pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE expires_at < $1), count(*)
		FROM tasktable.api_sessions`, noon).Scan(&expired, &all); err != nil || expired != 0 || all != 1 {
		t.Errorf("%d of %d sessions have expired, %v", expired, all, err)
	}
}

// The bucket of a limit that was removed goes when it has been full for a day.
func TestRetainBuckets(t *testing.T) {
	b := newBench(t)
	b.Exec(`INSERT INTO tasktable.limits (name, scope, max_running) VALUES ('limit', 'all', 1)`)
	b.Did(b.Pool.Exec(t.Context(), `INSERT INTO tasktable.limit_buckets SELECT name, $1::timestamptz - age * interval '1 hour'
		FROM (VALUES ('limit', 25), ('removed', 25), ('removed today', 23)) AS of (name, age)`, noon))
	b.retain(b.retainerOf(-1, nil), noon)
	var left string
	if err := b.Pool.QueryRow(t.Context(), `SELECT string_agg(name, ', ' ORDER BY name) FROM tasktable.limit_buckets`).
		Scan(&left); err != nil || left != "limit, removed today" {
		t.Errorf("left are %s, %v", left, err)
	}
}

// The bucket of a group goes when it has been full for an hour, or when its limit is gone. A bucket that the leader
// writes stays.
func TestRetainBucketsOfGroups(t *testing.T) {
	b := newBench(t)
	b.Exec(`INSERT INTO tasktable.limits (name, scope, per) VALUES ('limit', 'all', 'group')`)
	b.Exec(`INSERT INTO tasktable.limit_buckets (name, limit_key, full_at)
		SELECT name, key, clock_timestamp() - age * interval '1 hour' FROM (VALUES ('limit', 'g:used', -1),
			('limit', 'g:full', 0.5), ('limit', 'g:old', 1.5), ('limit', 'g:held', 1.5), ('removed', 'g:used', -1),
			('removed', '', -1)) AS of (name, key, age)`)
	b.Exec(`INSERT INTO tasktable.limit_buckets (name, limit_key, full_at)
		SELECT 'limit', 'g:' || i, '2020-01-01' FROM generate_series(1, $1::int) AS i`, removedBuckets+1)
	tx := b.Begin()
	b.Did(tx.Exec(t.Context(), `SELECT FROM tasktable.limit_buckets WHERE limit_key = 'g:held' FOR UPDATE`))
	b.OK(b.retainerOf(-1, nil).endRound(t.Context(), Retained{}))
	if got, want := enginetest.Ask[string](b.Bench, `SELECT string_agg(name || ' ' || limit_key, ', ' ORDER BY name, limit_key)
		FROM tasktable.limit_buckets`), "limit g:full, limit g:held, limit g:used, removed "; got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
}

// Tasks are kept as long as their own period, their type's or the default says, from their end; their
// history goes with them.
func TestRetainTasks(t *testing.T) {
	t.Parallel()
	keep := func(d time.Duration) func(*store.Task) { return func(task *store.Task) { task.Retention = d } }
	for _, test := range []struct {
		name      string
		retention time.Duration
		byType    map[string]time.Duration
		left      string
	}{
		{"by default", 90 * day, nil, "job89 keeplong log89"},
		{"by type", 90 * day, map[string]time.Duration{"LOG": 10 * day}, "job89 keeplong"},
		{"by type, longer", 10 * day, map[string]time.Duration{"LOG": 1000 * day}, "keeplong log89 log91"},
		{"by type, for ever", 10 * day, map[string]time.Duration{"LOG": -1}, "keeplong log89 log91"},
		{"another type", 10 * day, map[string]time.Duration{"OTHER": -1}, "keeplong"},
		{"for ever", -1, nil, "job89 job91 keeplong log89 log91"},
		{"for ever, but for a type", -1, map[string]time.Duration{"LOG": time.Minute}, "job89 job91 keeplong"},
		{"a minute", time.Minute, nil, "keeplong"},
	} {
		b := benchOf(t)
		b.old("job89", "JOB", 89*day, nil)
		b.old("job91", "JOB", 91*day, nil)
		b.old("log89", "LOG", 89*day, nil)
		b.old("log91", "LOG", 91*day, nil)
		b.old("keeplong", "JOB", 500*day, keep(1000*day))
		b.old("keepshort", "LOG", 2*day, keep(day)) // its own period is shorter than all others
		removed, _ := b.retain(b.retainerOf(test.retention, test.byType), noon)
		want := strings.Repeat(test.left+"; ", 3)
		if got := b.left(); got+"; " != want {
			t.Errorf("%s: left are %s, want %s", test.name, got, want)
		}
		if gone := 3 * (6 - len(strings.Fields(test.left))); removed != int64(gone) {
			t.Errorf("%s: %d rows removed, want %d", test.name, removed, gone)
		}
	}
}

// A task of each month succeeds more rarely than tasks are kept. When it last did stays known.
func TestRetainTheLastSuccess(t *testing.T) {
	b := newBench(t)
	b.Recur("monthly", "@monthly", noon.AddDate(1, 0, 0), nil)
	b.Recur("over", "@monthly", noon.AddDate(1, 0, 0), nil)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER task_7_reopen`)
	for _, parent := range []string{"monthly", "over"} {
		for id, months := range map[string]int{"1": 5, "2 succeeded": 4, "3 failed": 3, "4 skipped": 2} {
			b.old(parent+id, "JOB", time.Duration(months)*30*day, nil)
			b.Exec(`UPDATE tasktable.scheduled_tasks SET parent_id = $1, status = CASE
				WHEN id LIKE '%failed' THEN 'FAILED'
				WHEN id LIKE '%skipped' THEN 'SKIPPED' ELSE 'COMPLETED' END WHERE id = $2`, parent, parent+id)
		}
	}
	b.Exec(`SELECT tasktable.cancel('over')`)
	b.retain(b.retainerOf(7*day, nil), noon)
	if got, _, _ := strings.Cut(b.left(), ";"); got != "monthly monthly2 succeeded" {
		t.Errorf("left are %s", got)
	}
	b.Exec(`SELECT tasktable.delete('monthly')`)
	b.retain(b.retainerOf(7*day, nil), noon)
	if got, _, _ := strings.Cut(b.left(), ";"); got != "" {
		t.Errorf("left are %s", got)
	}
}

// To the microsecond.
func TestRetainUntil(t *testing.T) {
	b := newBench(t)
	b.old("a", "JOB", 0, nil) // ends at noon
	r := b.retainerOf(time.Hour, nil)
	if n, _ := b.retain(r, noon.Add(time.Hour)); n != 0 {
		t.Errorf("%d removed in time", n)
	}
	if n, _ := b.retain(r, noon.Add(time.Hour+time.Microsecond)); n != 3 || b.left() != "; ; " {
		t.Errorf("%d removed: left are %s", n, b.left())
	}
}

// What may still run is never removed, whatever its status and age, nor what somebody could still resume.
func TestRetainNeverRemovesWhatMayRun(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{
		"executing", "cancelled and held", "edited and held", "waiting", "paused", "retrying", "dead",
	} {
		at := noon
		if id == "waiting" || id == "paused" {
			at = noon.Add(time.Hour)
		}
		b.Schedule(store.Task{Payload: job{Name: id}, At: at})
	}
	holds := b.Take(noon)
	b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, "paused"))
	b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, "cancelled and held"))
	b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = 'edited and held'`)
	b.End(noon, enginetest.Retried(holds["retrying"], time.Hour, "not today"))
	failed := enginetest.Completed(holds["dead"])
	failed.Outcome, failed.To = taskdb.OutcomeFailed, store.StatusFailed
	b.End(noon, failed)
	b.Recur("recurring", "@yearly", noon, nil)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET created_at = '2000-01-01', last_status_update = '2000-01-01'`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET finished_at = '2000-01-01' WHERE id = 'cancelled and held'`)
	b.retain(b.retainerOf(time.Minute, nil), noon.AddDate(50, 0, 0))
	const left = "cancelled and held edited and held executing paused recurring retrying waiting"
	if got := b.left(); !strings.HasPrefix(got, left+";") {
		t.Errorf("left are %s", got)
	}
	// The line of the current revision says how each came to be as it is; the history behind it goes.
	if got := b.left(); got != left+"; ; "+left {
		t.Errorf("left are %s", got)
	}
	h := holds["cancelled and held"]
	b.End(noon, enginetest.Completed(h))
	b.retain(b.retainerOf(time.Minute, nil), noon.AddDate(50, 0, 0))
	if got := b.left(); strings.Contains(got, "cancelled") {
		t.Errorf("left are %s after it has ended", got)
	}
}

// A declared task that has ended, or was cancelled by an operator, must be remembered, or it would begin anew.
func TestRetainKeepsWhatIsDeclared(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{"declared", "scheduled"} {
		b.Recur(id, "@hourly", noon, nil)
		b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, id))
	}
	b.Exec(`UPDATE tasktable.scheduled_tasks SET declared_by = 'events' WHERE id = 'declared'`)
	b.retain(b.retainerOf(time.Minute, nil), noon.AddDate(50, 0, 0))
	if got := b.left(); got != "declared; ; declared" {
		t.Errorf("left are %s", got)
	}
}

// Old answers of the API go with each batch, because a round of large tables takes hours.
func TestRetainRemovesAnswersInEachBatch(t *testing.T) {
	b := newBench(t)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		SELECT 'waits ' || i, '{"type": "JOB"}', '2100-01-01' FROM generate_series(1, 200) AS i`)
	b.Exec(`INSERT INTO tasktable.api_answers (caller, idempotency_key, request_hash, answer, created_at)
		SELECT 'c', i::text, '', '{}', clock_timestamp() - interval '25 hours' FROM generate_series(1, 6000) AS i`)
	r := b.retainerOf(day, nil)
	for _, want := range []int{1000, 0} {
		r.pages = pg.NewSize(1, 1)
		next, _, err := r.RunOnce(t.Context(), Place{})
		if err != nil || next == (Place{}) {
			t.Fatalf("the batch ends at %v, %v", next, err)
		}
		var left int
		if err := b.Pool.QueryRow(t.Context(), `SELECT count(*) FROM tasktable.api_answers`).Scan(&left); err != nil ||
			left != want {
			t.Errorf("%d answers are left, want %d; %v", left, want, err)
		}
	}
}
