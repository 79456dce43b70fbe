package store_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// pointerTo is what a nullable column that is not null is read as.
func pointerTo[T any](value T) *T { return &value }

// fullRows have a value in every column, and the last one in none that may be null. List returns them in this order.
func fullRows() []store.Row {
	at := func(second int) time.Time { return time.Date(2031, 2, 3, 4, 5, second, 123456000, time.UTC) }
	full := store.Row{
		ID: "full — «ü» 😀", Payload: json.RawMessage(`{"n": 1.50, "s": "«ü»", "type": "TEST"}`), Type: "TEST",
		Entity: pointerTo("event:1"), TenantID: pointerTo("acme"), Queue: "mail", Status: store.StatusExecuting,
		Priority: -100, ScheduledAt: at(0), RunNowAt: pointerTo(at(1)), Expiration: pointerTo(store.MaxExpiration),
		ExpectedExecutionTime: store.MaxExpectedExecutionTime - time.Microsecond, MaxAttempts: 1000, Attempt: 7,
		Revision: 1 << 40, Fence: pointerTo(int64(1<<40 + 1)), LeaseExpiresAt: pointerTo(at(2)),
		Message: pointerTo("line\nline"), Result: json.RawMessage(`{"r": [1, null]}`), ScheduledBy: pointerTo(service),
		CreatedAt: at(3), LastStatusUpdate: at(4), StartedAt: pointerTo(at(5)),
		StartedFence: pointerTo(int64(1<<40 + 1)), Node: pointerTo(int64(1 << 40)),
	}
	occurrence := store.Row{
		ID: "full, an occurrence", Payload: json.RawMessage(`{"type": "TEST"}`), Type: "TEST", Queue: "default",
		Status: store.StatusExpired, ScheduledAt: at(0), ExpectedExecutionTime: time.Hour, MaxAttempts: 1, Revision: 1,
		CreatedAt: at(1), LastStatusUpdate: at(2), FinishedAt: pointerTo(at(4)),
		ParentID: pointerTo("recurring «ü» 😀"), ArchivedAt: pointerTo(at(3)), ArchivedNote: pointerTo("two\nlines"),
		SpawnedBy: pointerTo("a «ü» task"),
	}
	recurring := store.Row{
		ID: "full, recurring", Payload: json.RawMessage(`{"type": "TEST"}`), Type: "TEST", Queue: "default",
		Status: store.StatusPaused, ScheduledAt: at(0), ExpectedExecutionTime: time.Hour, MaxAttempts: 1, Revision: 1,
		CreatedAt: at(1), LastStatusUpdate: at(2), Cron: pointerTo("*/5 * * * *"), TimeZone: pointerTo("Asia/Beirut"),
		Overlap: pointerTo(store.OverlapCancelRunning), CatchUp: pointerTo(store.CatchUpNone),
		CatchUpPaused: pointerTo(store.CatchUpAll), CatchUpLimit: pointerTo(10000),
		Jitter: pointerTo(24*time.Hour - time.Microsecond), EndsAt: pointerTo(at(1)),
		MaxOccurrences: pointerTo(1000000), OccurrenceCount: 2147483647, PlannedRevision: pointerTo(int64(1 << 40)),
		PausedUntil: pointerTo(at(2)), Retention: pointerTo(876600 * time.Hour),
	}
	least := store.Row{
		ID: "least", Payload: json.RawMessage(`{"type": "TEST"}`), Type: "TEST", Queue: "default",
		Status: store.StatusCompleted, ScheduledAt: at(6), ExpectedExecutionTime: time.Microsecond, MaxAttempts: 1,
		Revision: 1<<40 + 2, CreatedAt: at(7), LastStatusUpdate: at(8), FinishedAt: pointerTo(at(9)),
	}
	return []store.Row{full, occurrence, recurring, least}
}

// insert puts a row into the table as it is, past the triggers' corrections.
func (b *bench) insert(row store.Row) {
	b.Helper()
	body, err := json.Marshal(row)
	b.Check(err)
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
		b.Exec(tx, `INSERT INTO tasktable.scheduled_tasks
			SELECT (jsonb_populate_record(NULL::tasktable.scheduled_tasks, '{"limit_key": ""}' || body || (
				SELECT jsonb_object_agg(name, (body ->> name)::bigint / 1000 || ' microseconds')
				FROM unnest(ARRAY['expiration', 'expected_execution_time', 'jitter', 'retention']) AS name
				WHERE body ? name))).*
			FROM (SELECT $1::text::jsonb AS body) AS r`, string(body))
		b.Exec(tx, `ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	})
}

// utc makes rows comparable: a driver gives times in the zone of its machine.
func utc(row store.Row) store.Row {
	for _, at := range []*time.Time{&row.ScheduledAt, &row.CreatedAt, &row.LastStatusUpdate} {
		*at = at.UTC()
	}
	for _, at := range []**time.Time{
		&row.RunNowAt, &row.NextAttemptAt, &row.LeaseExpiresAt, &row.StartedAt, &row.FinishedAt, &row.EndsAt,
		&row.PausedUntil, &row.ArchivedAt,
	} {
		if *at != nil {
			*at = pointerTo((*at).UTC())
		}
	}
	return row
}

func TestEveryColumnIsReadByEveryDriver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := fullRows()
	for _, row := range all {
		b.insert(row)
	}
	for name, db := range b.Readers() {
		for _, want := range all {
			got, err := b.Tasks.Get(b.Ctx, db, want.ID)
			b.Check(err)
			same(b, name+": "+want.ID, utc(got), want)
			if got.Result == nil != (want.Result == nil) {
				t.Errorf("%s: result of %s is %q", name, want.ID, got.Result)
			}
		}
		rows, err := b.Inspector.List(b.Ctx, db, inspect.Filter{})
		b.Check(err)
		for i, row := range rows {
			rows[i] = utc(row)
		}
		same(b, name+": list", rows, all)
		if _, err := b.Tasks.Get(b.Ctx, db, "nobody"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: get of none: %v", name, err)
		}
	}
}

func TestHistoryIsReadByEveryDriver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := func(second int) time.Time { return time.Date(2031, 2, 3, 4, 5, second, 123456000, time.UTC) }
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_executions VALUES
		(12, 'one', 'TEST', 11, 1, '2031-02-03 04:05:00.123456Z', '2031-02-03 04:05:01.123456Z',
			'2031-02-03 04:05:02.123456Z', '2031-02-03 04:05:03.123456Z',
			'FAILED', 'oh', 7), (10, 'one', 'TEST', 9, 2, '2031-02-03 04:05:00.123456Z', NULL, NULL,
			'2031-02-03 04:05:03.123456Z', 'LOST', NULL, NULL)`)
	b.Exec(b.Pool, `INSERT INTO tasktable.scheduled_task_changes
			(revision, task_id, verb, outcome, changed_at, changed_by, old, new)
		VALUES (11, 'one', 'sql', 'rescheduled', '2031-02-03 04:05:05.123456Z', 'ann', '{"a": 1}', '{"a": 2}'),
		(9, 'one', 'schedule', 'created', '2031-02-03 04:05:04.123456Z', 'ann', NULL, NULL)`)
	want := store.History{
		Changes: []store.Change{
			{Revision: 9, TaskID: "one", Verb: "schedule", Outcome: "created", ChangedAt: at(4), ChangedBy: "ann"},
			{
				Revision: 11, TaskID: "one", Verb: "sql", Outcome: "rescheduled", ChangedAt: at(5), ChangedBy: "ann",
				Old: []byte(`{"a": 1}`), New: []byte(`{"a": 2}`),
			},
		},
		Executions: []store.Execution{
			{
				Fence: 10, TaskID: "one", Type: "TEST", Revision: 9, Attempt: 2, ScheduledAt: at(0), FinishedAt: at(3),
				Outcome: "LOST",
			},
			{Fence: 12, TaskID: "one", Type: "TEST", Revision: 11, Attempt: 1, ScheduledAt: at(0),
				DueAt: pointerTo(at(1)), StartedAt: pointerTo(at(2)), FinishedAt: at(3), Outcome: "FAILED",
				Error: pointerTo("oh"), Node: pointerTo(int64(7))},
		},
	}
	for name, db := range b.Readers() {
		got, err := b.Tasks.History(b.Ctx, db, "one")
		b.Check(err)
		for i := range got.Changes {
			got.Changes[i].ChangedAt = got.Changes[i].ChangedAt.UTC()
		}
		for i, line := range got.Executions {
			row := utc(store.Row{
				ScheduledAt: line.ScheduledAt, CreatedAt: line.FinishedAt, RunNowAt: line.DueAt,
				StartedAt: line.StartedAt,
			})
			got.Executions[i].ScheduledAt, got.Executions[i].FinishedAt = row.ScheduledAt, row.CreatedAt
			got.Executions[i].DueAt, got.Executions[i].StartedAt = row.RunNowAt, row.StartedAt
		}
		same(b, name, got, want)
		empty, err := b.Tasks.History(b.Ctx, db, "nobody")
		if err != nil || len(empty.Changes)+len(empty.Executions) != 0 {
			t.Errorf("%s: history of none: %v, %v", name, empty, err)
		}
	}
}
