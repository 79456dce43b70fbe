package scheduled

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const elevenOClock = "tick@2030-01-01T11:00:00Z"

// What a fire at noon comes to while the occurrence of an hour before is in some state.
func TestOverlapWithEachState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := func(t *testing.T) taskdb.Claim {
		t.Helper()
		h, ok := b.take(noon.Add(-59 * time.Minute))[elevenOClock]
		if !ok {
			t.Fatal("not claimed")
		}
		return h
	}
	end := func(t *testing.T, change func(*taskdb.Settlement)) {
		t.Helper()
		s := completed(start(t))
		change(&s)
		b.end(noon.Add(-58*time.Minute), s)
	}
	verb := func(t *testing.T, do func(context.Context, store.DB, string) (store.Receipt, error)) {
		t.Helper()
		if _, err := do(t.Context(), b.pool, elevenOClock); err != nil {
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
			end(t, func(s *taskdb.Settlement) {
				*s = retried(s.Claim, time.Hour, "not today")
			})
		}, skipped, "QUEUED not today", "CANCELLED not today"},
		{"paused", func(t *testing.T) { verb(t, tasks.Pause) }, skipped, "PAUSED", "CANCELLED"},
		{
			"cancelled, and its handler still runs", func(t *testing.T) { start(t); verb(t, tasks.Cancel) }, skipped,
			"CANCELLED held", "CANCELLED held",
		},
		{"edited while it runs", func(t *testing.T) {
			start(t)
			b.exec(`UPDATE tasktable.scheduled_tasks SET priority = 1 WHERE id = $1`, elevenOClock)
		}, skipped, "QUEUED held", "CANCELLED held"},
		{"put off while it runs", func(t *testing.T) {
			start(t)
			schedule(t, b.pool, store.Task{ID: elevenOClock, Payload: job{"tick"}, At: noon.Add(48 * time.Hour)})
		}, skipped, "QUEUED held", "CANCELLED held"},
		{"cancelled", func(t *testing.T) { verb(t, tasks.Cancel) }, "QUEUED", "CANCELLED", "CANCELLED"},
		{"failed", func(t *testing.T) {
			end(t, func(s *taskdb.Settlement) { s.Outcome, s.To = taskdb.OutcomeFailed, store.StatusFailed })
		}, "QUEUED", "FAILED", "FAILED"},
		{"expired", func(t *testing.T) { end(t, func(s *taskdb.Settlement) { *s = taskdb.Expired(s.Claim) }) },
			"QUEUED", "EXPIRED expired before it could start", "EXPIRED expired before it could start"},
		{"completed", func(t *testing.T) { end(t, func(*taskdb.Settlement) {}) }, "QUEUED", "COMPLETED", "COMPLETED"},
		{"failed and retried by hand", func(t *testing.T) {
			end(t, func(s *taskdb.Settlement) { s.Outcome, s.To = taskdb.OutcomeFailed, store.StatusFailed })
			verb(t, tasks.Retry)
		}, skipped, "QUEUED", "CANCELLED"},
		{"cancelled and scheduled again", func(t *testing.T) {
			verb(t, tasks.Cancel)
			schedule(t, b.pool, store.Task{ID: elevenOClock, Payload: job{"tick"}})
		}, skipped, "QUEUED", "CANCELLED"},
	} {
		for policy, want := range map[store.Overlap]string{
			store.OverlapSkip:          test.skip + "\n" + test.before,
			store.OverlapAllow:         "QUEUED\n" + test.before,
			store.OverlapCancelRunning: "QUEUED\n" + test.cancelled,
		} {
			b.recur("tick", "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
				task.Recurrence.Overlap = policy
			})
			b.fires(noon.Add(-time.Hour))
			test.earlier(t)
			b.fires(noon)
			var fire, before string
			read := func(id string, into *string) {
				if err := b.pool.QueryRow(t.Context(), `SELECT concat_ws(' ', status, CASE WHEN fence IS NOT NULL
					THEN 'held' END, message)
					FROM tasktable.scheduled_tasks WHERE id = $1`, id).Scan(into); err != nil {
					t.Fatal(err)
				}
			}
			read("tick@2030-01-01T12:00:00Z", &fire)
			read(elevenOClock, &before)
			if got := fire + "\n" + before; got != want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", test.name, policy, got, want)
			}
			b.exec(`UPDATE tasktable.scheduled_tasks
				SET status = 'CANCELLED', fence = NULL, lease_expires_at = NULL, next_attempt_at = NULL,
				finished_at = now() WHERE fence IS NOT NULL`)
			b.exec(`DELETE FROM tasktable.scheduled_tasks`)
		}
	}
}

// Who cancelled it can be read.
func TestOverlapCancelsInTheParentsName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("tick", "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
		task.Recurrence.Overlap = store.OverlapCancelRunning
	})
	b.fires(noon.Add(-time.Hour))
	b.fires(noon)
	b.expect("cancelled", elevenOClock, `
		CANCELLED rev=2 attempt=0 scheduled=-1h0m0s finished=real
		1 fork created by tester
		2 cancel cancelled by task tick`)
	b.recurs("its parent", "tick", `
		QUEUED count=2 next=1h0m0s last=noon
		-1h0m0s CANCELLED
		noon QUEUED`)
}

// An occurrence that runs for long keeps all later ones from running, however many were skipped since; then
// the next one runs.
func TestOverlapWithALongRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("tick", "* * * * *", noon, nil)
	b.fires(noon)
	h := b.take(noon)["tick@2030-01-01T12:00:00Z"]
	for minute := 1; minute <= 150; minute++ {
		b.fires(noon.Add(time.Duration(minute) * time.Minute))
	}
	const skipped = `
		noon EXECUTING held
		1m0s to 2h30m0s (150) SKIPPED an earlier occurrence has not ended: tick@2030-01-01T12:00:00Z`
	b.recurs("it still runs", "tick", `
		QUEUED count=1 next=2h31m0s last=2h30m0s`+skipped)
	if from := b.liveFrom("tick"); !from.Equal(noon) {
		t.Errorf("looks for what has not ended from %s", from)
	}
	b.end(noon.Add(150*time.Minute), completed(h))
	b.fires(noon.Add(151 * time.Minute))
	if got := b.family("tick"); got[len(got)-len("\n2h31m0s QUEUED"):] != "\n2h31m0s QUEUED" {
		t.Errorf("after it has ended: %s", got)
	}
	if from := b.liveFrom("tick"); !from.Equal(noon.Add(151 * time.Minute)) {
		t.Errorf("looks for what has not ended from %s", from)
	}
	// One that is queued again is in the way again.
	schedule(t, b.pool, store.Task{ID: "tick@2030-01-01T12:00:00Z", Payload: job{"tick"}, At: noon.Add(time.Minute)})
	if from := b.liveFrom("tick"); !from.Equal(noon.Add(time.Minute)) {
		t.Errorf("looks for what has not ended from %s", from)
	}
}

func (b *bench) liveFrom(id string) (from time.Time) {
	b.t.Helper()
	if err := b.pool.QueryRow(
		b.t.Context(), `SELECT open_occurrences_from FROM tasktable.scheduled_tasks WHERE id = $1`, id,
	).Scan(&from); err != nil {
		b.t.Fatal(err)
	}
	return from.UTC()
}

// With several missed fires that all run, one in the way keeps all of them from running, or is cancelled once.
func TestOverlapWithCatchUpAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for id, policy := range map[string]store.Overlap{
		"skip": store.OverlapSkip, "allow": store.OverlapAllow, "cancel": store.OverlapCancelRunning,
	} {
		b.recur(id, "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
			task.Recurrence.Overlap, task.Recurrence.CatchUp = policy, store.CatchUpAll
		})
	}
	b.fires(noon.Add(-time.Hour))
	b.fires(noon.Add(2 * time.Hour))
	b.recurs("skip", "skip", `
		QUEUED count=1 next=3h0m0s last=2h0m0s
		-1h0m0s QUEUED
		noon to 2h0m0s (3) SKIPPED an earlier occurrence has not ended: skip@2030-01-01T11:00:00Z`)
	b.recurs("allow", "allow", `
		QUEUED count=4 next=3h0m0s last=2h0m0s
		-1h0m0s to 2h0m0s (4) QUEUED`)
	b.recurs("cancel", "cancel", `
		QUEUED count=4 next=3h0m0s last=2h0m0s
		-1h0m0s CANCELLED
		noon to 2h0m0s (3) QUEUED`)
}

// A fire that does not run itself cancels nothing.
func TestOverlapCancelsOnlyForWhatRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("tick", "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
		task.Recurrence.Overlap, task.Recurrence.CatchUp = store.OverlapCancelRunning, store.CatchUpNone
	})
	b.fires(noon.Add(-time.Hour))
	b.fires(noon.Add(10 * time.Minute))
	b.recurs("late", "tick", `
		QUEUED count=1 next=1h0m0s last=noon
		-1h0m0s QUEUED
		noon SKIPPED missed, and catch_up is none`)
}

// What somebody has put off to a later time than a fire's is not an earlier occurrence.
func TestOverlapWithWhatWasPutOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("tick", "@hourly", noon.Add(-time.Hour), nil)
	b.fires(noon.Add(-time.Hour))
	if _, err := tasks.Reschedule(t.Context(), b.pool, elevenOClock, noon.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.fires(noon)
	b.recurs("put off", "tick", `
		QUEUED count=2 next=1h0m0s last=noon
		noon to 24h0m0s (2) QUEUED`)
	// Put back to a time that has passed, it is one.
	if _, err := tasks.Cancel(t.Context(), b.pool, "tick@2030-01-01T12:00:00Z"); err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.Reschedule(t.Context(), b.pool, elevenOClock, noon.Add(-10*time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.fires(noon.Add(time.Hour))
	b.recurs("put back", "tick", `
		QUEUED count=2 next=2h0m0s last=1h0m0s
		-10h0m0s QUEUED
		noon CANCELLED
		1h0m0s SKIPPED an earlier occurrence has not ended: `+elevenOClock)
}

// One that was put off while it runs is in the way as long as it runs, and hides no other that has not ended.
func TestOverlapWithWhatWasPutOffWhileItRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.recur("tick", "@hourly", noon.Add(-time.Hour), nil)
	b.fires(noon.Add(-time.Hour))
	h := b.take(noon.Add(-time.Hour))[elevenOClock]
	schedule(t, b.pool, store.Task{ID: elevenOClock, Payload: job{"tick"}, At: noon.Add(24 * time.Hour)})
	b.fires(noon)
	if from := b.liveFrom("tick"); from.After(noon) {
		t.Errorf("looks for what has not ended from %s", from)
	}
	b.end(noon, completed(h))
	b.fires(noon.Add(time.Hour))
	b.recurs("it has ended", "tick", `
		QUEUED count=2 next=2h0m0s last=1h0m0s
		noon SKIPPED an earlier occurrence has not ended: tick@2030-01-01T11:00:00Z
		1h0m0s to 24h0m0s (2) QUEUED`)
}

// An occurrence to be cancelled that an application's open transaction has locked holds up its own parent
// only, not the pass.
func TestOverlapWithALockedOccurrence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"tick", "other"} {
		b.recur(id, "@hourly", noon.Add(-time.Hour), func(task *store.Task) {
			task.Recurrence.Overlap = store.OverlapCancelRunning
		})
	}
	b.fires(noon.Add(-time.Hour))
	unlock := lock(t, b.pool, elevenOClock)
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '200ms'; "+taskdb.EnterSQL); err != nil {
			return err
		}
		looked, err := b.Fork(t.Context(), tx, &noon, []taskdb.Lane{forks}, taskdb.MaxForks)
		if err == nil && looked != 1 {
			err = errors.New(fmt.Sprint("looked at ", looked))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	b.recurs("the other", "other", `
		QUEUED count=2 next=1h0m0s last=noon
		-1h0m0s CANCELLED
		noon QUEUED`)
	unlock()
	b.fires(noon.Add(time.Second))
	b.recurs("unlocked", "tick", `
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
			t.Parallel()
			b := newBench(t)
			b.recur("tick", eachSecond, noon, func(task *store.Task) { task.Recurrence.Overlap = overlap })
			b.fires(noon)
			if _, err := tasks.Pause(t.Context(), b.pool, "tick@2030-01-01T12:00:00Z"); err != nil {
				t.Fatal(err)
			}
			b.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, status, scheduled_at, parent_id)
				SELECT 'ended ' || n, '{"type": "JOB"}', 'SKIPPED',
					$1::timestamptz + n * interval '1 millisecond', 'tick'
				FROM generate_series(1, $2::int) AS n`, noon, ended)
			b.fires(noon.Add(5 * time.Second))
			if from := b.liveFrom("tick"); !from.Equal(noon) {
				t.Errorf("looks for what has not ended from %s", from)
			}
			now := noon.Add(6 * time.Second)
			b.inTx(func(tx pgx.Tx) {
				if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
					t.Fatal(err)
				}
				if looked, err := b.Fork(t.Context(), tx, &now, []taskdb.Lane{forks}, taskdb.MaxForks); err != nil ||
					looked != 1 {
					t.Fatalf("looked at %d: %v", looked, err)
				}
				var read int
				if err := tx.QueryRow(t.Context(), `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
					WHERE schemaname = 'tasktable' AND relname = 'scheduled_tasks'`).Scan(&read); err != nil {
					t.Fatal(err)
				}
				if read == 0 || read > 100 {
					t.Errorf("%d rows were read", read)
				}
			})
		})
	}
}
