package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// reconcile is Reconcile in a transaction of its own, committed if there was no error.
func (b *bench) reconcile(config store.ReconcileConfig) (report store.ReconcileReport, err error) {
	b.Helper()
	config.Type = "TEST"
	err = pgx.BeginTxFunc(b.Ctx, b.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) (err error) {
		report, err = b.Tasks.Reconcile(b.Ctx, tx, config)
		return err
	})
	return report, err
}

// counts are a report in one line.
func counts(r store.ReconcileReport) string {
	return fmt.Sprintf("agree %d, finished %d, missing %d, cancelled %d, ended %d, time %d, content %d, orphaned %d",
		r.Agree, r.Finished, r.Missing.Count, r.Cancelled.Count, r.Ended.Count, r.WrongTime.Count, r.OtherContent.Count,
		r.Orphaned.Count)
}

func (b *bench) wantCounts(r store.ReconcileReport, want string) {
	b.Helper()
	if got := counts(r); got != want {
		b.Errorf("got  %s\nwant %s", got, want)
	}
}

// found says what Reconcile makes of each of rowKinds, by what the query says of it.
const found = `
same      missing agree   agree   agree   cancelled finished finished finished finished agree   agree   cancelled
time      missing time    time    time    cancelled ended    ended    ended    ended    time    time    cancelled
content   missing content content content cancelled finished finished finished finished content content cancelled
unyielded nothing orphan  orphan  orphan  nothing   nothing  nothing  nothing  nothing  orphan  orphan  nothing`

func TestReconcileFindsAndMendsEachKindOfRow(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(strings.TrimSpace(found)) {
		cells := strings.Fields(line)
		for name, codec := range map[string]store.Codec{"": nil, ", encoded": secret(t, 1)} {
			t.Run(cells[0]+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.Tasks = store.New(store.Config{Service: service, Codec: codec})
				for i, kind := range rowKinds {
					b.Make(kind, kind)
					b.checkFound(cells[0], kind, cells[1+i])
					b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks
						SET fence = NULL, lease_expires_at = NULL, status = 'COMPLETED', finished_at = now()
						WHERE fence IS NOT NULL`)
					b.Exec(b.Pool, `DELETE FROM tasktable.scheduled_tasks`)
				}
			})
		}
	}
}

func (b *bench) checkFound(verb, kind, want string) {
	at, n := far(0), 1
	switch verb {
	case "time":
		at = far(5)
	case "content":
		n = 2
	}
	query := fmt.Sprintf(`SELECT '%s' AS id, timestamptz '%s' AS scheduled_at, jsonb '{"n": %d}' AS payload WHERE %t`,
		kind, at.Format(time.RFC3339), n, verb != "unyielded")
	before := b.state(kind)
	report, err := b.reconcile(store.ReconcileConfig{Query: query})
	b.Check(err)
	same(b, verb+" "+kind+", not applied", b.state(kind), before)
	all := map[string]int{
		"agree": report.Agree, "finished": report.Finished, "missing": report.Missing.Count,
		"cancelled": report.Cancelled.Count, "ended": report.Ended.Count, "time": report.WrongTime.Count,
		"content": report.OtherContent.Count, "orphan": report.Orphaned.Count,
	}
	for name, count := range all {
		if count != map[bool]int{true: 1, false: 0}[name == want] {
			b.Errorf("%s %s: want %s, got %s", verb, kind, want, counts(report))
		}
	}
	config := store.ReconcileConfig{Query: query, Apply: true}
	if want == "ended" {
		report, err = b.reconcile(config)
		b.Check(err)
		same(b, verb+" "+kind+", applied", b.state(kind), before)
		if report.Left != 1 || len(report.Done) != 0 {
			b.Errorf("%s %s: left %d, did %v", verb, kind, report.Left, report.Done)
		}
		config.Rearm = true
	}
	report, err = b.reconcile(config)
	b.Check(err)
	if drifted := all["agree"]+all["finished"] == 0 && want != "nothing"; drifted != (len(report.Done) == 1) ||
		report.Left != 0 {
		b.Errorf("%s %s: left %d, did %v", verb, kind, report.Left, report.Done)
	}
	again, err := b.reconcile(config)
	b.Check(err)
	if again.Drift() != 0 || len(again.Done) != 0 {
		b.Errorf("%s %s: a second time: %s, did %v", verb, kind, counts(again), again.Done)
	}
}

func TestReconcileComparesEachColumn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	query := func(column, value string) string {
		columns := map[string]string{
			"payload": `jsonb '{"n": 1}'`, "scheduled_at": `timestamptz '2100-01-01 00:00Z'`, "entity": `'event:1'`,
			"tenant_id": `'acme'`, "queue": `'mail'`, "priority": `7`, "expiration": `interval '1 hour'`,
			"expected_execution_time": `interval '1 minute'`, "max_attempts": `3`,
		}
		columns[column] = value
		text := "SELECT 'a' AS id"
		for name, value := range columns {
			text += ", " + value + " AS " + name
		}
		return text
	}
	for _, test := range []struct{ column, value string }{
		{"payload", `jsonb '{"n": 2}'`}, {"payload", `NULL::jsonb`}, {"payload", `json '{"type": "TEST"}'`},
		{"entity", `7::bigint`}, {"entity", `NULL`}, {"tenant_id", `''`}, {"queue", `'other'`}, {"queue", `NULL`},
		{"priority", `-3::smallint`}, {"priority", `NULL::bigint`}, {"expiration", `interval '2 hours'`},
		{"expiration", `NULL::interval`}, {"expected_execution_time", `interval '2 s'`},
		{"expected_execution_time", `NULL::interval`}, {"max_attempts", `4`}, {"max_attempts", `NULL::int`},
	} {
		b.Schedule(full("a"))
		report, err := b.reconcile(store.ReconcileConfig{Query: query("payload", `jsonb '{"n": 1}'`)})
		b.Check(err)
		b.wantCounts(report, "agree 1, finished 0, missing 0, cancelled 0, ended 0, time 0, content 0, orphaned 0")

		report, err = b.reconcile(store.ReconcileConfig{Query: query(test.column, test.value), Apply: true})
		b.Check(err)
		if len(report.OtherContent.Examples) != 1 || report.OtherContent.Examples[0].Fields != test.column {
			b.Errorf("%s %s: found %+v", test.column, test.value, report)
		}
		report, err = b.reconcile(store.ReconcileConfig{Query: query(test.column, test.value)})
		b.Check(err)
		b.wantCounts(report, "agree 1, finished 0, missing 0, cancelled 0, ended 0, time 0, content 0, orphaned 0")
	}
}

// What the query says nothing about stays as it is, the jitter and the retention among it.
func TestReconcileKeepsWhatTheQueryHasNoColumnFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task := full("task-TEST-1")
	task.Jitter, task.Retention = time.Minute, time.Hour
	b.Schedule(task)
	before := b.Get(task.ID)
	query :=
		`SELECT n AS key, timestamptz '2100-01-01 00:05Z' AS scheduled_at FROM generate_series(1, 2) AS n; ` +
			`-- the reminders`
	report, err := b.reconcile(store.ReconcileConfig{Query: query, Apply: true})
	b.Check(err)
	b.wantCounts(report, "agree 0, finished 0, missing 1, cancelled 0, ended 0, time 1, content 0, orphaned 0")
	after := b.Get(task.ID)
	before.ScheduledAt, before.Revision, before.AskedRevision, before.NextAttemptAt = far(5), after.Revision,
		after.Revision, after.NextAttemptAt
	same(b, "the one that there was", after, before)
	made := b.Get("task-TEST-2")
	if string(made.Payload) != `{"type": "TEST"}` || made.Queue != "default" || made.MaxAttempts != 10 ||
		made.Entity != nil || !made.ScheduledAt.Equal(far(5)) {
		b.Errorf("the new one is %s", pretty(made))
	}
	same(b, "change lines", b.Lines(made.ID), []string{"reconcile created " + service})
}

func TestReconcileTakesTheEntityFromAnotherColumn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	query := `SELECT 1 AS key, 'event:1' AS "The event", timestamptz '2100-01-01 00:00Z' AS scheduled_at`
	b.succeeds(b.reconcile(store.ReconcileConfig{Query: query, EntityColumn: "The event", Apply: true}))
	if made := b.Get("task-TEST-1"); made == nil || *made.Entity != "event:1" {
		b.Errorf("the task is %s", pretty(made))
	}
}

// A batch has 1,000: each kind has some more.
func TestReconcileMendsInBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Exec(b.Pool, `SELECT tasktable.schedule('{"type": "TEST"}', '2100-01-01 00:00Z', 'task-TEST-' || n)
		FROM generate_series(1, 3300) AS n`)
	b.Exec(b.Pool, `SELECT tasktable.schedule('{"type": "OTHER"}', '2100-01-01 00:00Z', 'other')`)
	query := `SELECT n AS key, CASE WHEN n % 3 = 0 THEN timestamptz '2100-01-01 00:00Z'
		ELSE timestamptz '2100-01-01 00:01Z' END AS scheduled_at
		FROM generate_series(1, 4900) AS n WHERE n % 3 < 2`
	report, err := b.reconcile(store.ReconcileConfig{Query: query, Apply: true, Examples: 2})
	b.Check(err)
	b.wantCounts(
		report, "agree 1100, finished 0, missing 1067, cancelled 0, ended 0, time 1100, content 0, orphaned 1100",
	)
	same(b, "done", report.Done, map[store.Outcome]int{
		store.Created: 1067, store.Rescheduled: 1100, store.Cancelled: 1100,
	})
	queued := store.StatusQueued
	at, wanted := far(0), far(1)
	same(b, "examples", []store.ReconcileFinding{report.WrongTime, report.Orphaned}, []store.ReconcileFinding{
		{Count: 1100, Examples: []store.ReconcileExample{
			{ID: "task-TEST-1", Status: queued, At: &at, Wanted: &wanted},
			{ID: "task-TEST-10", Status: queued, At: &at, Wanted: &wanted}}},
		{Count: 1100, Examples: []store.ReconcileExample{
			{ID: "task-TEST-1001", Status: queued, At: &at}, {ID: "task-TEST-1004", Status: queued, At: &at}}},
	})
	report, err = b.reconcile(store.ReconcileConfig{Query: query, Apply: true, Examples: -1})
	b.Check(err)
	b.wantCounts(report, "agree 3267, finished 0, missing 0, cancelled 0, ended 0, time 0, content 0, orphaned 0")
	if other := b.Get("other"); other.Status != queued {
		b.Errorf("a task of another type is %s", other.Status)
	}
}

func TestReconcileLeavesRecurringTasksAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{ID: "daily", Payload: payload(1), At: far(0), Recurrence: &store.Recurrence{Cron: "@daily"}})
	if one[string](b, b.Pool, `SELECT tasktable.fork_occurrence('daily', '2100-01-01 00:00Z')`) == "" {
		b.Fatal("no occurrence was forked")
	}
	report, err := b.reconcile(store.ReconcileConfig{
		Query: `SELECT 1 AS key, now() AS scheduled_at WHERE false`, Apply: true,
	})
	b.Check(err)
	b.wantCounts(report, "agree 0, finished 0, missing 0, cancelled 0, ended 0, time 0, content 0, orphaned 0")
	_, err = b.reconcile(store.ReconcileConfig{Query: `SELECT 'daily' AS id, now() AS scheduled_at`})
	b.wantInvalid(err, `row "daily": invalid: id must not be a recurring task's`)
}

// What others change between the comparison and the mending is never overwritten, in any isolation.
func TestReconcileOverwritesNothingNewer(t *testing.T) {
	t.Parallel()
	const late = `SELECT 'a' AS id, timestamptz '2100-01-01 00:05Z' AS scheduled_at`
	for name, test := range map[string]struct {
		query  string
		exists bool
		newer  string
	}{
		"rescheduled": {late, true, `SELECT tasktable.reschedule('a', '2100-01-01 00:09Z')`},
		"created":     {late, false, `SELECT tasktable.schedule('{"type": "TEST"}', '2100-01-01 00:09Z', 'a')`},
		"deleted":     {late, true, `SELECT tasktable.delete('a')`},
		"orphan":      {late + ` WHERE false`, true, `SELECT tasktable.reschedule('a', '2100-01-01 00:09Z')`},
	} {
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			t.Run(name+" "+string(level), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				if test.exists {
					b.Schedule(base("a"))
				}
				other, tx := b.Begin(pgx.TxOptions{}), b.Begin(pgx.TxOptions{IsoLevel: level})
				b.Exec(other, test.newer)
				ended := make(chan error, 1)
				go func() {
					_, err := b.Tasks.Reconcile(b.Ctx, tx, store.ReconcileConfig{
						Type: "TEST", Query: test.query, Apply: true,
					})
					ended <- err
				}()
				b.waitForLock(ended)
				b.Check(other.Commit(b.Ctx))
				if err := <-ended; !errors.Is(err, store.ErrConflict) {
					b.Errorf("the error is %v", err)
				}
				b.Exec(tx, `SELECT 1`) // still usable
				if row := b.Get("a"); name != "deleted" && !row.ScheduledAt.Equal(far(9)) {
					b.Errorf("the task is at %s", row.ScheduledAt)
				}
			})
		}
	}
}

// waitForLock waits until some statement waits for a lock, or the one that ought to has ended.
func (b *bench) waitForLock(ended chan error) {
	b.Helper()
	for waits := false; !waits && len(ended) == 0; {
		waits = one[bool](b, b.Pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock') FROM pg_sleep(0.01)`)
	}
}

type MendReminders struct{}

func (MendReminders) TaskType() string { return "MEND_REMINDERS" }

// Reconcile in a recurring task: each hour the reminders are made what the events say. The comparison, the mending
// and the task's completion are one transaction; after ErrConflict the task's next attempt compares anew.
func ExampleStore_Reconcile() {
	tasks := store.New(store.Config{Service: "events-api"})
	mend := func(ctx context.Context, tx pgx.Tx, t *handlers.Task[MendReminders]) error {
		report, err := tasks.Reconcile(ctx, tx, store.ReconcileConfig{
			Type: "SEND_EVENT_REMINDER",
			Query: `SELECT id AS key, jsonb_build_object('event_id', id) AS payload,
				starts_at - interval '1 hour' AS scheduled_at
				FROM events WHERE status = 'published' AND starts_at > now()`,
			Apply:   true,
			Timeout: time.Minute,
		})
		if err != nil {
			return err
		}
		t.Note("%d of %d were not as they ought to be", report.Drift(), report.Drift()+report.Agree+report.Finished)
		return nil
	}
	registry, err := handlers.NewRegistry(handlers.HandleTx(mend))
	fmt.Println(registry.Types(), err)

	hourly := store.Task{ID: "mend-reminders", Payload: MendReminders{}, Recurrence: &store.Recurrence{Cron: "@hourly"}}
	fmt.Println(hourly.Check()) // tasks.Schedule(ctx, db, hourly)
	// Output:
	// [MEND_REMINDERS] <nil>
	// <nil>
}
