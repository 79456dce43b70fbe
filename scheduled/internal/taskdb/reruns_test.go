package taskdb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func snoozed(h taskdb.Claim, in time.Duration) taskdb.Settlement {
	s := enginetest.Retried(h, in, "snoozed")
	s.Outcome, s.Refund = taskdb.OutcomeSnoozed, true
	return s
}

// waits has a task, and those that follow it, run as soon as each is due. It returns how long after the attempt before
// it each was due, as runs of equal waits.
func (b *bench) waits(n int, next func(h taskdb.Claim, now time.Time) taskdb.Settlement) (waits string) {
	b.T.Helper()
	b.Schedule(store.Task{ID: "a", Payload: job{Name: "a"}, At: noon})
	now, wait, run := noon, time.Duration(-1), 0
	flush := func() {
		if run > 0 {
			waits += fmt.Sprintf("%d × %s ", run, wait)
		}
	}
	for i := range n {
		holds := b.Take(now)
		if len(holds) != 1 {
			b.T.Fatalf("run %d: claimed %v at %s", i, holds, enginetest.Offset(now))
		}
		for _, h := range holds {
			if done := b.End(now, next(h, now)); len(done) != 1 || !done[0].Settled {
				b.T.Fatalf("settled %+v", done)
			}
		}
		var due time.Time
		err := b.Pool.QueryRow(b.T.Context(), `SELECT min(next_attempt_at) FROM tasktable.scheduled_tasks`).Scan(&due)
		b.OK(err)
		if due.Sub(now) != wait {
			flush()
			wait, run = due.Sub(now), 0
		}
		run++
		now = due
	}
	flush()
	return waits
}

// However its handler or another one asks to run it again at once for ever, a task runs once a second. New tasks do not
// wait.
func TestEndlessRerunsWait(t *testing.T) {
	t.Parallel()
	ring := map[string]string{"a": "b", "b": "a"}
	n := 0
	for name, test := range map[string]struct {
		next  func(h taskdb.Claim, now time.Time) taskdb.Settlement
		waits string
	}{
		"Again": {enginetest.Again, "20 × 1s "},
		"Again, in the past": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			return enginetest.Again(h, now.Add(-time.Hour))
		}, "20 × 1s "},
		"Snooze": {func(h taskdb.Claim, _ time.Time) taskdb.Settlement { return snoozed(h, 0) }, "20 × 1s "},
		"Snooze, for a moment": {func(h taskdb.Claim, _ time.Time) taskdb.Settlement {
			return snoozed(h, time.Millisecond)
		}, "20 × 1s "},
		"a follow-up with its own id": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			// At the very time it had it would be finished.
			return enginetest.FollowedBy(h, store.Task{
				ID: h.ID, Payload: job{Name: "itself"}, At: now.Add(time.Millisecond),
			})
		}, "20 × 1s "},
		"follow-ups with new ids": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			n++
			return enginetest.FollowedBy(h, store.Task{ID: fmt.Sprint(n), Payload: job{Name: "next"}, At: now})
		}, "20 × 0s "},
		"a ring of follow-ups": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			return enginetest.FollowedBy(h, store.Task{
				ID: ring[h.ID], Payload: job{Name: "ring"}, At: now.Add(time.Millisecond),
			})
		}, strings.Repeat("1 × 1ms 1 × 999ms ", 10)},
		"later": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			return enginetest.Again(h, now.Add(2*time.Second))
		}, "20 × 2s "},
	} {
		t.Run(name, func(t *testing.T) {
			if waits := benchOf(t).waits(20, test.next); waits != test.waits {
				t.Errorf("waits %s, want %s", waits, test.waits)
			}
		})
	}
}

// The second counts from the start of the attempt. An attempt that takes longer is followed without a pause.
func TestRerunAfterALongAttempt(t *testing.T) {
	t.Parallel()
	const took = 3 * time.Second
	for name, test := range map[string]struct {
		next func(h taskdb.Claim) taskdb.Settlement
		want string
	}{
		"Again": {func(h taskdb.Claim) taskdb.Settlement { return enginetest.Again(h, noon) }, `
			QUEUED rev=2 attempt=0 scheduled=1s next=1s started=noon message="see you"
			COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=3s node=7
			1 schedule created by test
			2 again rescheduled by node 7`},
		"Snooze": {func(h taskdb.Claim) taskdb.Settlement { return snoozed(h, 0) }, `
			QUEUED rev=1 attempt=0 scheduled=noon next=3s started=noon message="snoozed"
			SNOOZED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=3s error="snoozed" node=7
			1 schedule created by test`},
		"a follow-up with its own id": {func(h taskdb.Claim) taskdb.Settlement {
			return enginetest.FollowedBy(h, store.Task{ID: "a", Payload: job{Name: "itself"}, At: noon.Add(took)})
		}, `
			QUEUED rev=2 attempt=0 scheduled=3s next=3s
			COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=3s node=7
			1 schedule created by test
			2 schedule rearmed by task a`},
	} {
		b := benchOf(t)
		done := b.End(noon.Add(took), test.next(b.TakeOne(store.Task{Payload: job{Name: "a"}})))
		if len(done) != 1 || !done[0].Settled {
			t.Errorf("%s: settled %+v", name, done)
		}
		b.Expect(name, "a", test.want)
	}
}

// A follow-up is due as asked. If it has run within the last second, it waits for the rest of that second, unless it is
// asked for later or is paused.
func TestFollowUpThatHasJustRun(t *testing.T) {
	b := newBench(t)
	task := func(id string, in time.Duration) store.Task {
		return store.Task{ID: id, Payload: job{Name: "x"}, At: noon.Add(in)}
	}
	b.Schedule(task("now", 0), task("later", 0), task("paused", 0))
	for _, h := range b.Take(noon) {
		b.End(noon, enginetest.Completed(h))
	}
	b.Schedule(task("paused", time.Hour), task("asks", 300*time.Millisecond))
	b.Exec(`SELECT tasktable.pause('paused')`)
	now := noon.Add(300 * time.Millisecond)
	b.End(now, enginetest.FollowedBy(b.Take(now)["asks"], task("now", 300*time.Millisecond),
		task("new", 300*time.Millisecond), task("later", 2*time.Second), task("paused", time.Millisecond)))
	for id, want := range map[string]time.Duration{
		"now": time.Second, "new": 300 * time.Millisecond, "later": 2 * time.Second,
	} {
		row, err := enginetest.Tasks.Get(t.Context(), b.Pool, id)
		if err != nil || row.NextAttemptAt == nil || !row.NextAttemptAt.Equal(noon.Add(want)) {
			t.Errorf("%s is due at %v, %v, want noon + %s", id, row.NextAttemptAt, err, want)
		}
	}
	if row := enginetest.Await(t, b.Pool, "paused", 0, store.StatusPaused); row.NextAttemptAt != nil {
		t.Errorf("the paused task is due at %s", row.NextAttemptAt)
	}
}

// A follow-up that changes nothing writes nothing, also where it would wait.
func TestFollowUpsThatChangeNothing(t *testing.T) {
	b := newBench(t)
	b.Due("finished")
	b.End(noon, enginetest.Completed(b.Take(noon)["finished"]))
	b.Schedule(store.Task{Payload: job{Name: "waits"}, At: noon.Add(24 * time.Hour)},
		store.Task{Payload: job{Name: "first"}, At: noon})
	before := map[string]string{
		"finished": enginetest.StateOf(t, b.Pool, "finished"), "waits": enginetest.StateOf(t, b.Pool, "waits"),
	}
	b.End(noon, enginetest.FollowedBy(b.Take(noon)["first"], store.Task{Payload: job{Name: "second"}, At: noon}))
	done := b.End(noon, enginetest.FollowedBy(b.Take(noon)["task-JOB-second"],
		store.Task{ID: "finished", Payload: job{Name: "finished"}, At: noon}, store.Task{
			ID: "waits", Payload: job{Name: "waits"},
		}))
	if len(done) != 1 || !done[0].Settled {
		t.Errorf("settled %+v", done)
	}
	for id, state := range before {
		b.Expect("as it was", id, state)
	}
}
