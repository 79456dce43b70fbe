package taskdb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// Of the pauses in the table, those that held at a fire count, of the task's queue, its type, or everything.
func TestForkAfterAPause(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "@hourly", noon, nil)
	b.Recur("all", "@hourly", noon, func(task *store.Task) { task.Recurrence.CatchUpPaused = store.CatchUpAll })
	for _, pause := range []struct {
		scope, name string
		from, until time.Duration
	}{
		{"queue", "default", -time.Hour, 30 * time.Minute},                   // noon
		{"type", "JOB", 90 * time.Minute, 150 * time.Minute},                 // two
		{"all", "", 3 * time.Hour, 3*time.Hour + time.Second},                // three
		{"queue", "bulk", -time.Hour, 9 * time.Hour},                         // not theirs
		{"type", "OTHER", -time.Hour, 9 * time.Hour},                         // nor this
		{"all", "", -10 * time.Hour, -time.Microsecond},                      // over before
		{"all", "", 4*time.Hour + time.Minute, 4*time.Hour + 10*time.Minute}, // between fires
	} {
		b.Exec(
			`INSERT INTO tasktable.pauses (scope, name, paused_at, ends_at) VALUES ($1, $2, $3, $4)`, pause.scope,
			pause.name, noon.Add(pause.from), noon.Add(pause.until),
		)
	}
	b.Fires(noon.Add(4*time.Hour + 30*time.Minute))
	b.Recurs("none", "tick", `
		QUEUED count=1 next=5h0m0s last=4h0m0s
		noon SKIPPED missed while paused, and catch_up_paused is none
		1h0m0s SKIPPED missed, and catch_up runs only the latest
		2h0m0s to 3h0m0s (2) SKIPPED missed while paused, and catch_up_paused is none
		4h0m0s QUEUED`)
	b.Recurs("all", "all", `
		QUEUED count=4 next=5h0m0s last=4h0m0s
		noon QUEUED
		1h0m0s SKIPPED missed, and catch_up runs only the latest
		2h0m0s to 4h0m0s (3) QUEUED`)
}

// A task that was paused by itself, and resumed, is told from one that was edited.
func TestForkAfterAResume(t *testing.T) {
	b := newBench(t)
	resume := func(id string, edit func()) {
		t.Helper()
		for _, verb := range []func() (store.Receipt, error){
			func() (store.Receipt, error) { return enginetest.Tasks.Pause(t.Context(), b.Pool, id) },
			func() (store.Receipt, error) { edit(); return store.Receipt{}, nil },
			func() (store.Receipt, error) { return enginetest.Tasks.Resume(t.Context(), b.Pool, id) },
		} {
			b.Did(verb())
		}
		// As of a time of the bench: ten past two.
		b.Exec(
			`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE id = $2`,
			noon.Add(130*time.Minute), id,
		)
	}
	nothing := func() {}
	for _, id := range []string{"none", "all", "all and edited meanwhile", "edited"} {
		b.Recur(id, "@hourly", noon, func(task *store.Task) {
			if id != "none" {
				task.Recurrence.CatchUpPaused = store.CatchUpAll
			}
		})
	}
	b.Fires(noon)
	for _, h := range b.Take(noon) {
		b.End(noon, enginetest.Completed(h))
	}
	resume("none", nothing)
	resume("all", nothing)
	resume("all and edited meanwhile", func() {
		b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = 'all and edited meanwhile'`)
	})
	b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = 'edited'`)
	b.Exec(
		`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE id = 'edited'`,
		noon.Add(130*time.Minute),
	)
	b.Fires(noon.Add(131 * time.Minute))
	b.Recurs("resumed", "none", `
		QUEUED count=1 next=3h0m0s last=2h0m0s
		noon COMPLETED
		1h0m0s to 2h0m0s (2) SKIPPED missed while paused, and catch_up_paused is none`)
	b.Recurs("edited", "edited", `
		QUEUED count=1 next=3h0m0s last=noon
		noon COMPLETED`)
	for _, id := range []string{"all", "all and edited meanwhile"} {
		b.Recurs("resumed", id, `
			QUEUED count=3 next=3h0m0s last=2h0m0s
			noon COMPLETED
			1h0m0s to 2h0m0s (2) QUEUED`)
	}
}

// What a task did not fire before it was paused, because it was not there yet or was another then, it has not
// missed while paused.
func TestForkAfterAResumeMissedNothing(t *testing.T) {
	b := newBench(t)
	now := time.Now()
	enginetest.Schedule(
		t, b.Pool, store.Task{ID: "began long ago", Payload: job{Name: "a"}, At: now.Add(-1000 * time.Hour),
			Recurrence: &store.Recurrence{Cron: "@every 5h", CatchUpPaused: store.CatchUpAll}},
	)
	enginetest.Schedule(
		t, b.Pool, store.Task{ID: "was rarer", Payload: job{Name: "b"}, At: now.Add(-1000 * time.Hour),
			Recurrence: &store.Recurrence{Cron: "@every 1500h", CatchUpPaused: store.CatchUpAll}},
	)
	b.Fires(time.Now())
	b.Exec(`UPDATE tasktable.scheduled_tasks SET started_at = $1 WHERE id = 'was rarer'`, now.Add(-900*time.Hour))
	enginetest.Schedule(t, b.Pool, store.Task{
		ID: "was rarer", Payload: job{Name: "b"},
		Recurrence: &store.Recurrence{Cron: "@every 5h", CatchUpPaused: store.CatchUpAll},
	})
	b.Fires(time.Now())
	for _, id := range []string{"began long ago", "was rarer"} {
		for _, verb := range []func() (store.Receipt, error){
			func() (store.Receipt, error) { return enginetest.Tasks.Pause(t.Context(), b.Pool, id) },
			func() (store.Receipt, error) { return enginetest.Tasks.Resume(t.Context(), b.Pool, id) },
		} {
			b.Did(verb())
		}
	}
	b.Fires(time.Now())
	for _, id := range []string{"began long ago", "was rarer"} {
		row, err := enginetest.Tasks.Get(t.Context(), b.Pool, id)
		if err != nil || row.NextAttemptAt == nil || !row.NextAttemptAt.After(now.Add(4*time.Hour)) ||
			*row.PlannedRevision != row.Revision {
			t.Errorf("%s: %+v, %v", id, row, err)
		}
		if got := b.Family(id); strings.Contains(got, "\n") {
			t.Errorf("%s has fired: %s", id, got)
		}
	}
}
