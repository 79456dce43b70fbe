package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// An application computes a time with nanoseconds, and stores it in a column of its own. What comes back from there
// differs by less than a microsecond: pgx cuts the nanoseconds off, and Postgres rounds a text such as lib/pq sends.
func TestTimesLessThanAMicrosecondApartAreTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	given := far(0).Add(123456789 * time.Nanosecond)
	cut, rounded := far(0).Add(123456*time.Microsecond), far(0).Add(123457*time.Microsecond)
	for _, kind := range []string{"COMPLETED", "QUEUED"} {
		want := map[string]store.Outcome{"COMPLETED": store.Finished, "QUEUED": store.Unchanged}[kind]
		for name, pair := range map[string][2]time.Time{
			"given, then cut": {given, cut}, "cut, then given": {cut, given},
			"given, then rounded": {given, rounded}, "rounded, then given": {rounded, given},
		} {
			b.each(kind+" "+name, func(b *bench) {
				id := kind + " " + name
				task := store.Task{ID: id, Payload: payload(1), At: pair[0], Entity: id}
				b.Schedule(task)
				if kind == "COMPLETED" {
					b.finish(id)
				}
				before := b.state(id)
				task.At = pair[1]
				b.wantOutcome("Schedule", want, b.Schedule(task))
				many, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{task})
				b.Check(err)
				b.wantOutcome("ScheduleMany", want, many[0])
				synced, err := b.Tasks.Sync(b.Ctx, b.Pool, id, task)
				b.Check(err)
				b.wantOutcome("Sync", want, synced[0])
				moved, err := b.Tasks.Reschedule(b.Ctx, b.Pool, id, pair[1])
				b.Check(err)
				b.wantOutcome("Reschedule", want, moved)
				report, err := b.reconcile(store.ReconcileConfig{Query: fmt.Sprintf(
					`SELECT '%s' AS id, timestamptz '%s' AS scheduled_at,
						jsonb '{"n": 1}' AS payload`, id, pair[1].Format(time.RFC3339Nano))})
				b.Check(err)
				if drift := report.Ended.Count + report.WrongTime.Count; drift != 0 {
					b.Errorf("Reconcile: %s", counts(report))
				}
				same(b, "task", b.state(id), before)
			})
		}
	}
}

// A change of another field leaves the time as it is; two microseconds are another time.
func TestTimesOfMoreThanAMicrosecondDiffer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for micros, want := range map[int]store.Outcome{
		-2: store.Rearmed, -1: store.Finished, 1: store.Finished, 2: store.Rearmed,
	} {
		id := fmt.Sprint(micros)
		b.Schedule(store.Task{ID: id, Payload: payload(1), At: far(0)})
		b.finish(id)
		at := far(0).Add(time.Duration(micros) * time.Microsecond)
		b.wantOutcome(id, want, b.Schedule(store.Task{ID: id, Payload: payload(1), At: at}))
	}
	b.Schedule(store.Task{ID: "edited", Payload: payload(1), At: far(0)})
	b.wantOutcome(
		"edited", store.Rescheduled,
		b.Schedule(store.Task{ID: "edited", Payload: payload(2), At: far(0).Add(time.Microsecond)}),
	)
	if row := b.Get("edited"); !row.ScheduledAt.Equal(far(0)) {
		t.Errorf("an edit of the payload moved the task to %s", row.ScheduledAt)
	}
}

// Ends and pauses are times, too.
func TestOtherTimesLessThanAMicrosecondApartAreTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	daily := func(nanos time.Duration) store.Task {
		return store.Task{
			ID: "daily", Payload: payload(1), At: far(0),
			Recurrence: &store.Recurrence{Cron: "@daily", EndsAt: far(9).Add(nanos)},
		}
	}
	b.Schedule(daily(789))
	b.wantOutcome("ends_at", store.Unchanged, b.Schedule(daily(0)))
	b.Schedule(base("one"))
	b.succeeds(b.Tasks.PauseUntil(b.Ctx, b.Pool, "one", far(9).Add(789)))
	again, err := b.Tasks.PauseUntil(b.Ctx, b.Pool, "one", far(9).Add(time.Microsecond))
	b.Check(err)
	b.wantOutcome("paused_until", store.Unchanged, again)
}

// finish ends a task as the engine does.
func (b *bench) finish(id string) {
	b.Helper()
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id = $1`, id)
}
