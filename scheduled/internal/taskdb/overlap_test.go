package taskdb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const elevenOClock = "tick@2030-01-01T11:00:00Z"

// What a fire at noon comes to while the occurrence of an hour before is in some state.
func TestOverlapWithEachState(t *testing.T) {
	b := newBench(t)
	start := func(t *testing.T) taskdb.Claim {
		t.Helper()
		h, ok := b.Take(noon.Add(-59 * time.Minute))[elevenOClock]
		if !ok {
			t.Fatal("not claimed")
		}
		return h
	}
	end := func(t *testing.T, change func(*taskdb.Settlement)) {
		t.Helper()
		s := enginetest.Completed(start(t))
		change(&s)
		b.End(noon.Add(-58*time.Minute), s)
	}
	verb := func(t *testing.T, do func(context.Context, store.DB, string) (store.Receipt, error)) {
		t.Helper()
		if _, err := do(t.Context(), b.Pool, elevenOClock); err != nil {
			t.Fatal(err)
		}
	}
	const skipped = "SKIPPED an earlier occurrence has not ended: " + elevenOClock
	for _, test := range []struct {
		name      string
		earlier   func(t *testing.T)
		skip      string // the fire's row with overlap = skip; with the others it is QUEUED
		before    string // the earlier one's then
		cancelled string // and with cancel_running
	}{
		{"queued", func(*testing.T) {}, skipped, "QUEUED", "CANCELLED"},
		{"executing", func(t *testing.T) { start(t) }, skipped, "EXECUTING held", "CANCELLED held"},
		{"to be retried", func(t *testing.T) {
			end(t, func(s *taskdb.Settlement) { *s = enginetest.Retried(s.Claim, time.Hour, "not today") })
		}, skipped, "QUEUED not today", "CANCELLED not today"},
		{"paused", func(t *testing.T) { verb(t, enginetest.Tasks.Pause) }, skipped, "PAUSED", "CANCELLED"},
		{
			"cancelled, and its handler still runs", func(t *testing.T) { start(t); verb(t, enginetest.Tasks.Cancel) },
			skipped, "CANCELLED held", "CANCELLED held",
		},
		{"edited while it runs", func(t *testing.T) {
			start(t)
			b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = $1`, elevenOClock)
		}, skipped, "QUEUED held", "CANCELLED held"},
		{"put off while it runs", func(t *testing.T) {
			start(t)
			enginetest.Schedule(t, b.Pool, store.Task{
				ID: elevenOClock, Payload: job{Name: "tick"}, At: noon.Add(48 * time.Hour),
			})
		}, skipped, "QUEUED held", "CANCELLED held"},
		{"cancelled", func(t *testing.T) { verb(t, enginetest.Tasks.Cancel) }, "QUEUED", "CANCELLED", "CANCELLED"},
		{"failed", func(t *testing.T) {
			end(t, func(s *taskdb.Settlement) { s.Outcome, s.To = taskdb.OutcomeFailed, store.StatusFailed })
		}, "QUEUED", "FAILED", "FAILED"},
		{"expired", func(t *testing.T) { end(t, func(s *taskdb.Settlement) { *s = taskdb.Expired(s.Claim) }) },
			"QUEUED", "EXPIRED expired before it could start", "EXPIRED expired before it could start"},
		{"completed", func(t *testing.T) { end(t, func(*taskdb.Settlement) {}) }, "QUEUED", "COMPLETED", "COMPLETED"},
		{"failed and retried by hand", func(t *testing.T) {
			end(t, func(s *taskdb.Settlement) { s.Outcome, s.To = taskdb.OutcomeFailed, store.StatusFailed })
			verb(t, enginetest.Tasks.Retry)
		}, skipped, "QUEUED", "CANCELLED"},
		{"cancelled and scheduled again", func(t *testing.T) {
			verb(t, enginetest.Tasks.Cancel)
			enginetest.Schedule(t, b.Pool, store.Task{ID: elevenOClock, Payload: job{Name: "tick"}})
		}, skipped, "QUEUED", "CANCELLED"},
	} {
		for policy, want := range map[store.Overlap]string{
			store.OverlapSkip:          test.skip + "\n" + test.before,
			store.OverlapAllow:         "QUEUED\n" + test.before,
			store.OverlapCancelRunning: "QUEUED\n" + test.cancelled,
		} {
			b.Recur("tick", "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
				task.Recurrence.Overlap = policy
			})
			b.Fires(noon.Add(-time.Hour))
			test.earlier(t)
			b.Fires(noon)
			var fire, before string
			read := func(id string, into *string) {
				b.OK(b.Pool.QueryRow(t.Context(), `SELECT concat_ws(' ', status, CASE WHEN fence IS NOT NULL
					THEN 'held' END, message)
					FROM tasktable.scheduled_tasks WHERE id = $1`, id).Scan(into))
			}
			read("tick@2030-01-01T12:00:00Z", &fire)
			read(elevenOClock, &before)
			if got := fire + "\n" + before; got != want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", test.name, policy, got, want)
			}
			b.Exec(`UPDATE tasktable.scheduled_tasks
				SET status = 'CANCELLED', fence = NULL, lease_expires_at = NULL, next_attempt_at = NULL,
				finished_at = now() WHERE fence IS NOT NULL`)
			b.Exec(`DELETE FROM tasktable.scheduled_tasks`)
		}
	}
}

// Who cancelled it can be read.
func TestOverlapCancelsInTheParentsName(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
		task.Recurrence.Overlap = store.OverlapCancelRunning
	})
	b.Fires(noon.Add(-time.Hour))
	b.Fires(noon)
	b.Expect("cancelled", elevenOClock, `
		CANCELLED rev=2 attempt=0 scheduled=-1h0m0s finished=real
		1 fork created by tester
		2 cancel cancelled by task tick`)
	b.Recurs("its parent", "tick", `
		QUEUED count=2 next=1h0m0s last=noon
		-1h0m0s CANCELLED
		noon QUEUED`)
}

// An occurrence that runs for long keeps all later ones from running, however many were skipped since; then
// the next one runs.
func TestOverlapWithALongRun(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "* * * * *", noon, nil)
	b.Fires(noon)
	h := b.Take(noon)["tick@2030-01-01T12:00:00Z"]
	for minute := 1; minute <= 150; minute++ {
		b.Fires(noon.Add(time.Duration(minute) * time.Minute))
	}
	const skipped = `
		noon EXECUTING held
		1m0s to 2h30m0s (150) SKIPPED an earlier occurrence has not ended: tick@2030-01-01T12:00:00Z`
	b.Recurs("it still runs", "tick", `
		QUEUED count=1 next=2h31m0s last=2h30m0s`+skipped)
	if from := b.liveFrom("tick"); !from.Equal(noon) {
		t.Errorf("looks for what has not ended from %s", from)
	}
	b.End(noon.Add(150*time.Minute), enginetest.Completed(h))
	b.Fires(noon.Add(151 * time.Minute))
	if got := b.Family("tick"); got[len(got)-len("\n2h31m0s QUEUED"):] != "\n2h31m0s QUEUED" {
		t.Errorf("after it has ended: %s", got)
	}
	if from := b.liveFrom("tick"); !from.Equal(noon.Add(151 * time.Minute)) {
		t.Errorf("looks for what has not ended from %s", from)
	}
	// One that is queued again is in the way again.
	enginetest.Schedule(t, b.Pool, store.Task{
		ID: "tick@2030-01-01T12:00:00Z", Payload: job{Name: "tick"}, At: noon.Add(time.Minute),
	})
	if from := b.liveFrom("tick"); !from.Equal(noon.Add(time.Minute)) {
		t.Errorf("looks for what has not ended from %s", from)
	}
}

func (b *bench) liveFrom(id string) (from time.Time) {
	b.T.Helper()
	b.OK(b.Pool.QueryRow(
		b.T.Context(), `SELECT open_occurrences_from FROM tasktable.scheduled_tasks WHERE id = $1`, id,
	).Scan(&from))
	return from.UTC()
}

// With several missed fires that all run, one in the way keeps all of them from running, or is cancelled once.
func TestOverlapWithCatchUpAll(t *testing.T) {
	b := newBench(t)
	for id, policy := range map[string]store.Overlap{
		"skip": store.OverlapSkip, "allow": store.OverlapAllow, "cancel": store.OverlapCancelRunning,
	} {
		b.Recur(id, "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
			task.Recurrence.Overlap, task.Recurrence.CatchUp = policy, store.CatchUpAll
		})
	}
	b.Fires(noon.Add(-time.Hour))
	b.Fires(noon.Add(2 * time.Hour))
	b.Recurs("skip", "skip", `
		QUEUED count=1 next=3h0m0s last=2h0m0s
		-1h0m0s QUEUED
		noon to 2h0m0s (3) SKIPPED an earlier occurrence has not ended: skip@2030-01-01T11:00:00Z`)
	b.Recurs("allow", "allow", `
		QUEUED count=4 next=3h0m0s last=2h0m0s
		-1h0m0s to 2h0m0s (4) QUEUED`)
	b.Recurs("cancel", "cancel", `
		QUEUED count=4 next=3h0m0s last=2h0m0s
		-1h0m0s CANCELLED
		noon to 2h0m0s (3) QUEUED`)
}

// A fire that does not run itself cancels nothing.
func TestOverlapCancelsOnlyForWhatRuns(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
		task.Recurrence.Overlap, task.Recurrence.CatchUp = store.OverlapCancelRunning, store.CatchUpNone
	})
	b.Fires(noon.Add(-time.Hour))
	b.Fires(noon.Add(10 * time.Minute))
	b.Recurs("late", "tick", `
		QUEUED count=1 next=1h0m0s last=noon
		-1h0m0s QUEUED
		noon SKIPPED missed, and catch_up is none`)
}

// What somebody has put off to a later time than a fire's is not an earlier occurrence.
func TestOverlapWithWhatWasPutOff(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "@hourly", noon.Add(-time.Hour), nil)
	b.Fires(noon.Add(-time.Hour))
	b.Did(enginetest.Tasks.Reschedule(t.Context(), b.Pool, elevenOClock, noon.Add(24*time.Hour)))
	b.Fires(noon)
	b.Recurs("put off", "tick", `
		QUEUED count=2 next=1h0m0s last=noon
		noon to 24h0m0s (2) QUEUED`)
	// Put back to a time that has passed, it is one.
	b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, "tick@2030-01-01T12:00:00Z"))
	b.Did(enginetest.Tasks.Reschedule(t.Context(), b.Pool, elevenOClock, noon.Add(-10*time.Hour)))
	b.Fires(noon.Add(time.Hour))
	b.Recurs("put back", "tick", `
		QUEUED count=2 next=2h0m0s last=1h0m0s
		-10h0m0s QUEUED
		noon CANCELLED
		1h0m0s SKIPPED an earlier occurrence has not ended: `+elevenOClock)
}

// One that was put off while it runs is in the way as long as it runs, and hides no other that has not ended.
func TestOverlapWithWhatWasPutOffWhileItRuns(t *testing.T) {
	b := newBench(t)
	b.Recur("tick", "@hourly", noon.Add(-time.Hour), nil)
	b.Fires(noon.Add(-time.Hour))
	h := b.Take(noon.Add(-time.Hour))[elevenOClock]
	enginetest.Schedule(t, b.Pool, store.Task{
		ID: elevenOClock, Payload: job{Name: "tick"}, At: noon.Add(24 * time.Hour),
	})
	b.Fires(noon)
	if from := b.liveFrom("tick"); from.After(noon) {
		t.Errorf("looks for what has not ended from %s", from)
	}
	b.End(noon, enginetest.Completed(h))
	b.Fires(noon.Add(time.Hour))
	b.Recurs("it has ended", "tick", `
		QUEUED count=2 next=2h0m0s last=1h0m0s
		noon SKIPPED an earlier occurrence has not ended: tick@2030-01-01T11:00:00Z
		1h0m0s to 24h0m0s (2) QUEUED`)
}

// An occurrence to be cancelled that an application's open transaction has locked holds up its own parent
// only, not the pass.
func TestOverlapWithALockedOccurrence(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{"tick", "other"} {
		b.Recur(id, "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
			task.Recurrence.Overlap = store.OverlapCancelRunning
		})
	}
	b.Fires(noon.Add(-time.Hour))
	unlock := enginetest.Lock(t, b.Pool, elevenOClock)
	err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '200ms'; "+taskdb.EnterSQL); err != nil {
			return err
		}
		looked, err := b.Fork(t.Context(), tx, &noon, []taskdb.Lane{enginetest.Forks}, taskdb.MaxFires)
		if err == nil && looked != 1 {
			err = errors.New(fmt.Sprint("looked at ", looked))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	b.Recurs("the other", "other", `
		QUEUED count=2 next=1h0m0s last=noon
		-1h0m0s CANCELLED
		noon QUEUED`)
	unlock()
	b.Fires(noon.Add(time.Second))
	b.Recurs("unlocked", "tick", `
		QUEUED count=2 next=1h0m0s last=noon
		-1h0m0s CANCELLED
		noon QUEUED`)
}

// A task with an occurrence that somebody has paused reads that one at each fire, and not the thousands that
// have ended since.
func TestAForkReadsFewOccurrences(t *testing.T) {
	t.Parallel()
	const ended = 3000
	for _, overlap := range []store.Overlap{store.OverlapSkip, store.OverlapAllow} {
		t.Run(string(overlap), func(t *testing.T) {
			b := newBench(t)
			b.Recur("tick", "* * * * * *", noon, func(task *store.Task) { task.Recurrence.Overlap = overlap })
			b.Fires(noon)
			b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, "tick@2030-01-01T12:00:00Z"))
			b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, status, scheduled_at, parent_id)
				SELECT 'ended ' || n, '{"type": "JOB"}', 'SKIPPED',
					$1::timestamptz + n * interval '1 millisecond', 'tick'
				FROM generate_series(1, $2::int) AS n`, noon, ended)
			b.Fires(noon.Add(5 * time.Second))
			if from := b.liveFrom("tick"); !from.Equal(noon) {
				t.Errorf("looks for what has not ended from %s", from)
			}
			now := noon.Add(6 * time.Second)
			b.InTx(func(tx pgx.Tx) {
				b.Did(tx.Exec(t.Context(), taskdb.EnterSQL))
				if looked, err := b.Fork(
					t.Context(), tx, &now, []taskdb.Lane{enginetest.Forks}, taskdb.MaxFires,
				); err != nil ||
					looked != 1 {
					t.Fatalf("looked at %d: %v", looked, err)
				}
				var read int
				b.OK(tx.QueryRow(t.Context(), `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
					WHERE schemaname = 'tasktable' AND relname = 'scheduled_tasks'`).Scan(&read))
				if read == 0 || read > 100 {
					t.Errorf("%d rows were read", read)
				}
			})
		})
	}
}
