package worker

import (
	"fmt"
	"log/slog"
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
// it each was due, as runs of equal waits, and how many of the attempts were reported as put off.
func (b *bench) waits(
	first string, n int, next func(h taskdb.Claim, now time.Time) taskdb.Settlement,
) (waits string, putOff int) {
	b.T.Helper()
	b.Schedule(store.Task{ID: first, Payload: enginetest.Job{Name: first}, At: enginetest.Noon})
	now, wait, run := enginetest.Noon, time.Duration(-1), 0
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
			done := b.End(now, next(h, now))
			if len(done) != 1 || !done[0].Settled {
				b.T.Fatalf("settled %+v", done)
			}
			if done[0].PutOff {
				putOff++
			}
		}
		var due time.Time
		err := b.Pool.QueryRow(b.T.Context(), `SELECT min(next_attempt_at) FROM tasktable.scheduled_tasks`).Scan(&due)
		if err != nil {
			b.T.Fatal(err)
		}
		if due.Sub(now) != wait {
			flush()
			wait, run = due.Sub(now), 0
		}
		run++
		now = due
	}
	flush()
	return waits, putOff
}

// However a handler asks to run again at once for ever, it runs once a second from the second run on at the latest. A
// chain of new tasks takes ten steps in a second.
func TestEndlessRerunsWait(t *testing.T) {
	t.Parallel()
	ring := map[string]string{"a": "b", "b": "a"}
	n := 0
	for name, test := range map[string]struct {
		next   func(h taskdb.Claim, now time.Time) taskdb.Settlement
		waits  string
		putOff int
	}{
		"Again": {enginetest.Again, "20 × 1s ", 20},
		"Again, in the past": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			return enginetest.Again(h, now.Add(-time.Hour))
		}, "20 × 1s ", 20},
		"Snooze": {func(h taskdb.Claim, _ time.Time) taskdb.Settlement { return snoozed(h, 0) }, "20 × 1s ", 20},
		"Snooze, for a moment": {func(h taskdb.Claim, _ time.Time) taskdb.Settlement {
			return snoozed(h, time.Millisecond)
		}, "20 × 1s ", 20},
		"a follow-up with its own id": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			// At the very time it had it would be finished.
			return enginetest.FollowedBy(h, store.Task{
				ID: h.ID, Payload: enginetest.Job{Name: "itself"}, At: now.Add(time.Millisecond),
			})
		}, "20 × 1s ", 20},
		"follow-ups with new ids": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			n++
			return enginetest.FollowedBy(h, store.Task{
				ID: fmt.Sprint(n), Payload: enginetest.Job{Name: "next"}, At: now,
			})
		}, "9 × 0s 1 × 1s 9 × 0s 1 × 1s ", 2},
		"a ring of follow-ups": {func(h taskdb.Claim, now time.Time) taskdb.Settlement {
			return enginetest.FollowedBy(h, store.Task{
				ID: ring[h.ID], Payload: enginetest.Job{Name: "ring"}, At: now.Add(time.Millisecond),
			})
		}, "1 × 1ms 19 × 1s ", 19},
		"later": {
			func(h taskdb.Claim, now time.Time) taskdb.Settlement {
				return enginetest.Again(h, now.Add(time.Second))
			}, "20 × 1s ",
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if waits, putOff := newBench(t).waits("a", 20, test.next); waits != test.waits || putOff != test.putOff {
				t.Errorf("waits %s with %d put off, want %s with %d", waits, putOff, test.waits, test.putOff)
			}
		})
	}
}

// The second counts from the start of the attempt: what takes longer goes on without a pause, and is not reported.
func TestRerunAfterALongAttempt(t *testing.T) {
	t.Parallel()
	const took = 3 * time.Second
	for name, test := range map[string]struct {
		next func(h taskdb.Claim) taskdb.Settlement
		want string
	}{
		"Again": {func(h taskdb.Claim) taskdb.Settlement { return enginetest.Again(h, enginetest.Noon) }, `
			QUEUED rev=2 attempt=0 scheduled=1s next=1s started=noon message="see you"
			COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=3s node=7
			1 schedule created by test
			2 again rescheduled by node 7`},
		"Snooze": {func(h taskdb.Claim) taskdb.Settlement { return snoozed(h, 0) }, `
			QUEUED rev=1 attempt=0 scheduled=noon next=3s started=noon message="snoozed"
			SNOOZED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=3s error="snoozed" node=7
			1 schedule created by test`},
		"a follow-up with its own id": {func(h taskdb.Claim) taskdb.Settlement {
			return enginetest.FollowedBy(h, store.Task{
				ID: "a", Payload: enginetest.Job{Name: "itself"}, At: enginetest.Noon.Add(took),
			})
		}, `
			QUEUED rev=2 attempt=0 scheduled=3s next=3s
			COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=3s node=7
			1 schedule created by test
			2 schedule rearmed by task a`},
	} {
		b := newBench(t)
		done := b.End(enginetest.Noon.Add(took), test.next(b.TakeOne(store.Task{Payload: enginetest.Job{Name: "a"}})))
		if len(done) != 1 || !done[0].Settled || done[0].PutOff {
			t.Errorf("%s: settled %+v", name, done)
		}
		b.Expect(name, "a", test.want)
	}
}

// A follow-up is due as asked, however many there are, and whatever name the application's service has. Only the tenth
// task of a chain within a second waits, also after an edit, and only where it is due at once.
func TestChainOfFollowUpsWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asked := func(round string, by taskdb.Claim) taskdb.Settlement {
		at := func(name string, in time.Duration) store.Task {
			return store.Task{ID: name + round, Payload: enginetest.Job{Name: "x"}, At: by.Due.Add(in)}
		}
		noTime, recurring := at("no time", 0), at("recurring", 0)
		noTime.At, recurring.At = time.Time{}, time.Time{}
		recurring.Recurrence = &store.Recurrence{Cron: "@daily"}
		return enginetest.FollowedBy(by, at("now", 0), at("past", -time.Hour), at("soon", time.Millisecond),
			at("second", time.Second), at("later", time.Second+time.Microsecond), noTime, recurring)
	}
	check := func(what, round string, putOff bool, done []taskdb.SettleResult, dues map[string]time.Duration) {
		t.Helper()
		if len(done) != 1 || done[0].PutOff != putOff {
			t.Errorf("%s: settled %+v", what, done)
		}
		for name, want := range dues {
			row, err := enginetest.Tasks.Get(t.Context(), b.Pool, name+round)
			if err != nil || row.NextAttemptAt == nil || !row.NextAttemptAt.Equal(enginetest.Noon.Add(want)) {
				t.Errorf("%s: %s is due at %v, %v", what, name, row.NextAttemptAt, err)
			}
		}
	}
	asNow := map[string]time.Duration{
		"now": 0, "past": -time.Hour, "soon": time.Millisecond,
		"second": time.Second, "later": time.Second + time.Microsecond,
	}
	service := store.New(store.Config{Service: "task a"})
	if _, err := service.Schedule(t.Context(), b.Pool, store.Task{
		ID: "a", Payload: enginetest.Job{Name: "a"}, At: enginetest.Noon,
	}); err != nil {
		t.Fatal(err)
	}
	done := b.End(enginetest.Noon, asked("1", b.Take(enginetest.Noon)["a"]))
	check("of a task that the application scheduled", "1", false, done, asNow)

	waiting := map[string]time.Duration{
		"now": time.Second, "past": time.Second, "soon": time.Second,
		"second": time.Second, "later": time.Second + time.Microsecond,
	}
	for step := 2; step < taskdb.MaxSteps; step++ {
		h := b.Take(enginetest.Noon)[fmt.Sprint("now", step-1)]
		check("of a follow-up", fmt.Sprint(step), false, b.End(enginetest.Noon, asked(fmt.Sprint(step), h)), asNow)
	}
	b.Schedule(store.Task{ID: "soon9", Payload: enginetest.Job{Name: "edited"}, At: enginetest.Noon})
	tenth := b.Take(enginetest.Noon)
	check("of the tenth of a chain", "10", true, b.End(enginetest.Noon, asked("10", tenth["now9"])), waiting)
	b.Expect("it can be seen what was asked", "now10", `
		QUEUED rev=1 attempt=0 scheduled=noon next=1s
		1 schedule created by task now9`)
	check("of one that was edited since", "11", true, b.End(enginetest.Noon, asked("11", tenth["soon9"])), waiting)
}

// The change line of a follow-up has no room for the longest ids of the tasks that ask for it.
func TestRingOfFollowUpsWithLongIDsWaits(t *testing.T) {
	t.Parallel()
	ring := [2]string{strings.Repeat("a", store.MaxIDBytes), strings.Repeat("b", store.MaxIDBytes)}
	next := map[string]string{ring[0]: ring[1], ring[1]: ring[0]}
	waits, putOff := newBench(t).waits(ring[0], 5, func(h taskdb.Claim, now time.Time) taskdb.Settlement {
		return enginetest.FollowedBy(h, store.Task{
			ID: next[h.ID], Payload: enginetest.Job{Name: "ring"}, At: now.Add(time.Millisecond),
		})
	})
	if want := "1 × 1ms 4 × 1s "; waits != want || putOff != 4 {
		t.Errorf("waits %s with %d put off, want %s with 4", waits, putOff, want)
	}
}

// Tasks that ask for each other in one group are no follow-ups yet.
func TestTasksOfAGroupThatAskForEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "a"}, At: enginetest.Noon}, store.Task{
		Payload: enginetest.Job{Name: "b"}, At: enginetest.Noon,
	})
	holds := b.Take(enginetest.Noon)
	soon := enginetest.Noon.Add(time.Millisecond)
	done := b.End(enginetest.Noon,
		enginetest.FollowedBy(holds["a"], store.Task{ID: "b", Payload: enginetest.Job{Name: "b"}, At: soon}),
		enginetest.FollowedBy(holds["b"], store.Task{ID: "a", Payload: enginetest.Job{Name: "a"}, At: soon}))
	for _, one := range done {
		if !one.Settled || one.PutOff {
			t.Errorf("settled %+v", one)
		}
	}
	if len(done) != 2 {
		t.Errorf("settled %+v", done)
	}
}

// A follow-up that changes nothing writes nothing, also where it would wait.
func TestFollowUpsThatChangeNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "finished"}, At: enginetest.Noon})
	b.End(enginetest.Noon, enginetest.Completed(b.Take(enginetest.Noon)["finished"]))
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "waits"}, At: enginetest.Noon.Add(24 * time.Hour)},
		store.Task{Payload: enginetest.Job{Name: "first"}, At: enginetest.Noon})
	before := map[string]string{
		"finished": enginetest.StateOf(t, b.Pool, "finished"), "waits": enginetest.StateOf(t, b.Pool, "waits"),
	}
	b.End(
		enginetest.Noon,
		enginetest.FollowedBy(b.Take(enginetest.Noon)["first"], store.Task{
			Payload: enginetest.Job{Name: "second"}, At: enginetest.Noon,
		}),
	)
	done := b.End(enginetest.Noon, enginetest.FollowedBy(b.Take(enginetest.Noon)["task-JOB-second"],
		store.Task{ID: "finished", Payload: enginetest.Job{Name: "finished"}, At: enginetest.Noon}, store.Task{
			ID: "waits", Payload: enginetest.Job{Name: "waits"},
		}))
	if len(done) != 1 || !done[0].Settled || done[0].PutOff {
		t.Errorf("settled %+v", done)
	}
	for id, state := range before {
		b.Expect("as it was", id, state)
	}
}

// The log tells of a task, a ring or a chain that never ends, and not of many tasks that ask once each.
func TestRerunsAreCountedByChain(t *testing.T) {
	t.Parallel()
	begin := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	same := func(int) string { return "a" }
	each := func(i int) string { return fmt.Sprint(i) }
	for name, test := range map[string]struct {
		id          func(i int) string
		generations func(i int) int
		every       time.Duration
		n           int
		want        string // at which runs the log tells
	}{
		"one task":                  {same, func(int) int { return 0 }, time.Second, 65, "[29]"},
		"one task, for two minutes": {same, func(int) int { return 0 }, time.Second, 125, "[29 89]"},
		"one task, now and then":    {same, func(int) int { return 0 }, 3 * time.Second, 100, "[]"},
		"a ring of two": {
			func(i int) string { return fmt.Sprint(i % 2) }, func(int) int { return 2 }, time.Second, 60, "[28]",
		},
		"a chain": {
			each, func(i int) int { return min(i+1, taskdb.MaxGenerations) }, time.Second, 60, "[29]",
		},
		"a fan-out's follow-ups":   {each, func(int) int { return 2 }, time.Millisecond, 85, "[]"},
		"more tasks than are kept": {each, func(int) int { return 3 }, time.Millisecond, maxRerunIDs + 100, "[]"},
		"a chain behind a fan-out": {
			each, func(int) int { return taskdb.MaxGenerations - 1 }, time.Millisecond, 85, "[]",
		},
		"chains of a fan-out, endless": {
			each, func(int) int { return taskdb.MaxGenerations }, time.Millisecond, 85, "[0]",
		},
	} {
		var r reruns
		told := []int{}
		for i := range test.n {
			if r.count(test.id(i), "JOB", test.generations(i), begin.Add(time.Duration(i)*test.every)) {
				told = append(told, i)
			}
		}
		if got := fmt.Sprint(told); got != test.want {
			t.Errorf("%s: told at %s, want %s", name, got, test.want)
		}
	}
}

// Settling tells how often a chain was put off, up to the task whose follow-up was put off now.
func TestGenerationsOfPutOffs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next func(id int) int
		n    int
		want func(i int) int // at run i; 0: nothing was put off
	}{
		"a chain": {
			func(id int) int { return id + 1 }, 3*taskdb.MaxSteps + 3,
			func(i int) int {
				if (i+1)%taskdb.MaxSteps != 0 {
					return 0
				}
				return (i + 1) / taskdb.MaxSteps
			},
		},
		"a ring of two": {func(id int) int { return 1 - id }, 8, func(i int) int { return 2 * min(i, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Schedule(store.Task{ID: "0", Payload: enginetest.Job{Name: "0"}, At: enginetest.Noon})
			for i, id, now := 0, 0, enginetest.Noon; i < test.n; i, id = i+1, test.next(id) {
				next := store.Task{
					ID: fmt.Sprint(test.next(id)), Payload: enginetest.Job{Name: "next"}, At: now.Add(time.Millisecond),
				}
				asked := enginetest.FollowedBy(b.Take(now)[fmt.Sprint(id)], next)
				asked.StartedAt = &now
				done := b.End(now, asked)
				want := test.want(i)
				if len(done) != 1 || !done[0].Settled || done[0].PutOff != (want > 0) || done[0].Generations != want {
					t.Fatalf("run %d: settled %+v, want %d generations", i, done, want)
				}
				wait := time.Millisecond
				if want > 0 {
					wait = time.Second
				}
				now = now.Add(wait)
			}
		})
	}
}

// The log tells of an endless chain once a minute.
func TestEndlessRerunIsLogged(t *testing.T) {
	t.Parallel()
	var log enginetest.LogText
	s := newSettler(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		for i := range taskdb.MaxGenerations {
			s.putOff(fmt.Sprint(i), "FAN", 2)
			s.putOff("a", "JOB", 0)
		}
	}
	told := log.Lines("level=WARN", "again and again")
	if len(told) != 1 || !strings.Contains(told[0], "type=JOB put_off=30 window=1m0s task=a") {
		t.Errorf("the log tells %q", told)
	}
}
