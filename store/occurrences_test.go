package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// occurrences are the ids of a task's occurrences, by their time.
func (b *bench) occurrences(parent string) []string {
	b.Helper()
	rows, err := b.Pool.Query(b.Ctx, `SELECT id::text FROM tasktable.scheduled_tasks WHERE parent_id = $1
		ORDER BY scheduled_at, id`, parent)
	b.Check(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.Check(err)
	return ids
}

// rich is a recurring task with a value in every field.
func rich(id string) store.Task {
	task := full(id)
	task.Jitter, task.Retention = 90*time.Minute, 72*time.Hour
	task.Recurrence = &store.Recurrence{Cron: "0 9 * * *", TimeZone: "Europe/Berlin", Overlap: store.OverlapAllow,
		CatchUp: store.CatchUpAll, CatchUpLimit: 7, EndsAt: far(90), MaxOccurrences: 9}
	return task
}

// occurrence is the row that a fork of rich is, before its status.
func occurrence(found *store.Row, id, parent string, at time.Time) store.Row {
	task, by := full(parent), service
	return store.Row{
		ID: id, Payload: []byte(`{"n": 1, "type": "TEST"}`), Type: "TEST", Entity: &task.Entity,
		TenantID: &task.TenantID, Queue: task.Queue, Status: "QUEUED", Priority: task.Priority, ScheduledAt: at,
		Expiration: &task.Expiration, ExpectedExecutionTime: task.ExpectedExecutionTime, MaxAttempts: task.MaxAttempts,
		Revision: found.Revision, AskedRevision: found.Revision, ScheduledBy: &by, CreatedAt: found.CreatedAt,
		LastStatusUpdate: found.LastStatusUpdate, Jitter: pointerTo(90 * time.Minute),
		Retention: pointerTo(72 * time.Hour), ParentID: &parent,
		GroupKey: &task.Group, Backoff: &task.Backoff, Timeout: &task.Timeout,
	}
}

// dueOf is when the database says that a task is due.
func (b *bench) dueOf(id string, at time.Time, jitter time.Duration) time.Time {
	b.Helper()
	return one[time.Time](
		b, b.Pool, `SELECT tasktable.due_of($1, $2::text::timestamptz, NULL, $3::text::interval)`, id,
		at.Format(time.RFC3339Nano), clock(&jitter),
	).UTC()
}

// An occurrence has all of the recurring task's content, none of its recurrence, and says whose it is.
func TestForkCopiesTheContent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(rich("one"))
	parent := b.state("one")
	for fire, id := range map[string]string{
		"2100-01-01 09:00+01":         "one@2100-01-01T08:00:00Z",
		"2100-01-01 08:00:00.5Z":      "one@2100-01-01T08:00:00.500000Z",
		"2100-01-01 08:00:00.000001Z": "one@2100-01-01T08:00:00.000001Z",
		"0001-01-01 00:00Z":           "one@0001-01-01T00:00:00Z",
		"9999-12-30 23:59:59.999999Z": "one@9999-12-30T23:59:59.999999Z",
	} {
		at := one[time.Time](b, b.Pool, `SELECT $1::text::timestamptz`, fire).UTC()
		if got := b.fork("one", fire); got != id {
			t.Errorf("the occurrence of %s is %s", fire, got)
		}
		got := b.state(id)
		row := occurrence(got.Row, id, "one", at)
		if row.NextAttemptAt = pointerTo(b.dueOf(id, at, 90*time.Minute)); at.Before(got.Row.CreatedAt) {
			row.NextAttemptAt = got.Row.NextAttemptAt
		}
		b.checkWhole(state{}, got, &row, "fork", "created", "leader")

		again := one[*string](b, b.Pool, `SELECT tasktable.fork_occurrence('one', $1::text::timestamptz)`, fire)
		skipped := one[*string](b, b.Pool, `SELECT tasktable.fork_occurrence('one',
			$1::text::timestamptz, 'late')`, fire)
		if again != nil || skipped != nil {
			t.Errorf("twice: %v, %v", text(again), text(skipped))
		}
		same(b, "after a second fork", b.state(id), got)
	}
	same(b, "the recurring task", b.state("one"), parent)
}

// With the id of an occurrence a task would keep the occurrence of that fire from being made, and nobody would see it.
func TestNoTaskTakesTheIDOfAnOccurrence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(rich("one"))
	const rule = "id must not end in @ and a time, as those of occurrences do"
	for _, id := range []string{
		"one@2100-01-01T08:00:00Z", "one@2100-01-01T08:00:00.000001Z", "other@2100-01-01T08:00:00Z",
		"one@2100-01-01T08:00:00Z@2100-01-01T08:00:00Z",
	} {
		_, single := b.Tasks.Schedule(b.Ctx, b.Pool, base(id))
		_, several := b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{base("two"), base(id)})
		for _, err := range []error{single, several} {
			if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), rule) {
				t.Errorf("%s: %v", id, err)
			}
		}
		b.refused(`INSERT INTO tasktable.scheduled_tasks (id, payload) VALUES ($1, '{"type": "TEST"}')`, rule, id)
	}
	for _, id := range []string{
		"one@2100-01-01T08:00Z", "one@x", "one@2100-01-01T08:00:00Zx", "@2100-01-01", "2100-01-01T08:00:00Z",
	} {
		b.Schedule(base(id))
	}
	same(b, "tasks", one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks`), 6)
	occurrence := b.fork("one", "2100-01-01 08:00Z")
	same(b, "an edit", b.Schedule(base(occurrence)).Outcome, store.Rescheduled)
}

func TestForkOfWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(rich("one"))
	from := b.Now()
	id := b.fork("one", "2100-01-01 08:00Z", "an earlier one has not ended")
	got := b.state(id)
	row := occurrence(got.Row, id, "one", far(8*60))
	row.Status, row.Message, row.FinishedAt = "SKIPPED", pointerTo("an earlier one has not ended"), got.Row.FinishedAt
	if row.FinishedAt == nil || row.FinishedAt.Before(from) || row.FinishedAt.After(b.Now()) {
		t.Errorf("finished_at %v", row.FinishedAt)
	}
	b.checkWhole(state{}, got, &row, "fork", "created", "leader")
	if again := one[*string](b, b.Pool, `SELECT tasktable.fork_occurrence('one', '2100-01-01 08:00Z')`); again != nil {
		t.Errorf("what was skipped is forked: %s", *again)
	}
}

// Forked is whatever recurs, in any status: who asks for it knows. What does not recur is not.
func TestForkOfEachRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range recurringKinds[1:] {
		b.MakeRecurring(kind, kind)
		before := b.state(kind)
		if got := b.fork(kind, "2100-01-01 08:00Z"); got != kind+"@2100-01-01T08:00:00Z" {
			t.Errorf("%s: %s", kind, got)
		}
		same(b, kind, b.state(kind), before)
	}
	for _, kind := range rowKinds {
		b.Make("plain "+kind, kind)
		if got := one[*string](b, b.Pool, `SELECT tasktable.fork_occurrence($1, now())`, "plain "+kind); got != nil {
			t.Errorf("a plain %s: %s", kind, *got)
		}
	}
	if left := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.scheduled_tasks
		WHERE parent_id LIKE 'plain%'`); left != 0 {
		t.Errorf("%d occurrences of plain tasks", left)
	}
}

// An extra occurrence is due at once, without jitter; its expiration counts from then. The task itself is not
// touched, whatever its status, and its planned fires come as they would.
func TestRunNowForksAnExtraOccurrence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range recurringKinds[1:] {
		b.each(kind, func(b *bench) {
			b.MakeRecurring(kind, kind)
			b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET jitter = '24 hours' WHERE id = $1`, kind)
			before, from := b.state(kind), b.Now()
			for range 2 {
				receipt, err := b.Tasks.RunNow(b.Ctx, b.Pool, kind)
				b.Check(err)
				same(b, "receipt", receipt, store.Receipt{
					ID: kind, Revision: before.Row.Revision, Outcome: store.Queued,
				})
			}
			until := b.Now()
			same(b, "the recurring task", b.state(kind), before)
			ids := b.occurrences(kind)
			if len(ids) != 2 {
				b.Fatalf("%d occurrences: %v", len(ids), ids)
			}
			for _, id := range ids {
				row := b.Get(id)
				at := row.ScheduledAt.UTC()
				if id != kind+"@"+at.Format("2006-01-02T15:04:05.000000Z") && id != kind+"@"+at.Format(time.RFC3339) {
					b.Errorf("%s is of %v", id, at)
				}
				if at.Before(from) || at.After(until) || row.Status != "QUEUED" || row.RunNowAt == nil ||
					row.RunNowAt.Before(at) || row.RunNowAt.After(until) ||
					!row.NextAttemptAt.Equal(*row.RunNowAt) || *row.Expiration != time.Hour || *row.ParentID != kind ||
					*row.Jitter != 24*time.Hour {
					b.Errorf("asked from %v to %v: %s", from, until, pretty(row))
				}
				same(b, "lines", b.Lines(id), []string{"fork created " + service})
			}
		})
	}
}

// Who asked is on the line, as of any other verb; without a name that is the role, and for the leader's own
// forks the leader.
func TestWhoForked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(recurs("one"))
	nobody := store.New(store.Config{})
	role := b.Role()
	b.succeeds(nobody.RunNow(b.Ctx, b.Pool, "one"))
	b.Exec(b.Pool, `SELECT tasktable.run_now('one', 'ann')`)
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `SET LOCAL tasktable_change.by = 'bob'`)
		b.Exec(tx, `SELECT tasktable.run_now('one')`)
		// What follows is not the fork's.
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = 'one'`)
	})
	b.AsEngine(func(tx pgx.Tx) { b.Exec(tx, `SELECT tasktable.fork_occurrence('one', clock_timestamp())`) })
	var lines []string
	for _, id := range b.occurrences("one") {
		lines = append(lines, b.Lines(id)...)
	}
	same(b, "lines", lines, []string{
		"fork created " + role, "fork created ann", "fork created bob", "fork created leader",
	})
	same(b, "of the task", b.Lines("one"), []string{"schedule created " + service, "sql rescheduled bob"})
}

// An occurrence that waits moves the recurring task's open_occurrences_from back to its time, so that an
// overlap is seen.
func TestAnOccurrenceThatWaitsAgainIsLookedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	early, late := far(8*60), far(10*60)
	for name, c := range map[string]struct {
		status string // of the occurrence of early
		do     step
		want   time.Time
	}{
		"retried":              {"FAILED", does("retry"), early},
		"run now":              {"COMPLETED", does("run_now"), early},
		"skipped, and run now": {"SKIPPED", does("run_now"), early},
		"moved, having ended": {"COMPLETED", func(b *bench, id string) {
			b.succeeds(b.Tasks.Reschedule(b.Ctx, b.Pool, id, early.Add(time.Second)))
		}, early.Add(time.Second)},
		"queued by hand":       {"CANCELLED", sets(`status = 'QUEUED'`), early},
		"paused by hand":       {"FAILED", sets(`status = 'PAUSED'`), early},
		"edited, having ended": {"COMPLETED", sets(`priority = 3`), late},
		"cancelled by hand":    {"FAILED", sets(`status = 'CANCELLED'`), late},
		"moved by hand":        {"waits", sets(`scheduled_at = '2100-01-01 08:30Z'`), far(8*60 + 30)},
		"moved to later":       {"waits", sets(`scheduled_at = '2100-01-01 12:00Z'`), late},
		"another's":            {"FAILED", sets(`parent_id = NULL, status = 'QUEUED'`), late},
	} {
		b.each(name, func(b *bench) {
			b.MakeRecurring(name, "planned")
			fire := "2100-01-01 08:00Z"
			if c.status == "waits" {
				fire = "2100-01-01 11:00Z"
			}
			id := b.fork(name, fire)
			b.AsEngine(func(tx pgx.Tx) {
				if c.status != "waits" {
					b.Exec(tx, `UPDATE tasktable.scheduled_tasks
						SET status = $2, next_attempt_at = NULL, finished_at = clock_timestamp()
						WHERE id = $1`, id, c.status)
				}
				b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET open_occurrences_from = '2100-01-01 10:00Z'
					WHERE id = $1`, name)
			})
			before := b.state(name)
			c.do(b, id)
			if got := b.liveFrom(name); !got.Equal(c.want) {
				b.Errorf("open_occurrences_from is %v instead of %v", got.UTC(), c.want)
			}
			after := b.state(name)
			after.Version = before.Version
			same(b, "the rest of the task", after, before)
		})
	}
	b.each("made for a time that has passed", func(b *bench) {
		b.MakeRecurring("made", "planned")
		for _, step := range []struct {
			fire string
			want time.Time
		}{{"2100-01-01 12:00Z", late}, {"2100-01-01 08:00Z", early}, {"2100-01-01 09:00Z", early}} {
			b.AsEngine(func(tx pgx.Tx) {
				if step.fire == "2100-01-01 12:00Z" {
					b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET open_occurrences_from = '2100-01-01 10:00Z'
						WHERE id = 'made'`)
				}
			})
			b.fork("made", step.fire)
			if got := b.liveFrom("made"); !got.Equal(step.want) {
				b.Errorf("after %s: open_occurrences_from is %v", step.fire, got.UTC())
			}
		}
		b.fork("made", "2100-01-01 07:00Z", "skipped")
		if got := b.liveFrom("made"); !got.Equal(early) {
			b.Errorf("after a skipped one: open_occurrences_from is %v", got.UTC())
		}
	})
}

// The engine's own moves of an occurrence, which has not ended between them, leave the recurring task's row alone.
func TestRetriesOfAnOccurrenceDoNotWriteToItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.MakeRecurring("one", "planned")
	id := b.fork("one", "1999-01-01 08:00Z")
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET open_occurrences_from = '2000-01-01Z' WHERE id = 'one'`)
	})
	before := b.state("one")
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET status = 'EXECUTING', fence = nextval('tasktable.task_numbers'),
			lease_expires_at = clock_timestamp() + interval '1 hour',
			next_attempt_at = NULL, attempt = attempt + 1 WHERE id = $1`, id)
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET status = 'QUEUED', fence = NULL, lease_expires_at = NULL, next_attempt_at = clock_timestamp()
			WHERE id = $1`, id)
	})
	same(b, "task", b.state("one"), before)
	if row := b.Get(id); row.Attempt != 1 || fmt.Sprint(row.Status) != "QUEUED" {
		t.Errorf("got %s", pretty(row))
	}
}
