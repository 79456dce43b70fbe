package taskdb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestAgain(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	done := b.End(noon.Add(time.Second), enginetest.Again(h, noon.Add(24*time.Hour)))
	if len(done) != 1 || !done[0].Settled || !done[0].Current || done[0].DueSoon || done[0].Status != "QUEUED" {
		t.Errorf("settled %+v", done)
	}
	after := `
		QUEUED rev=2 attempt=0 scheduled=24h0m0s next=24h0m0s started=noon message="see you"
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 again rescheduled by node 7`
	b.Expect("again", "a", after)
	// The fence is gone: a second settle of the same claim neither completes the task nor moves it.
	if done := b.End(
		noon.Add(time.Hour), enginetest.Again(h, noon.Add(time.Hour)),
	); len(done) != 1 || done[0].Settled ||
		done[0].Held {
		t.Errorf("settled again: %+v", done)
	}
	b.Expect("again twice", "a", after)
	// The next run has all its attempts.
	if h := b.Take(noon.Add(24 * time.Hour))["a"]; h.Attempt != 1 {
		t.Errorf("claimed %+v", h)
	}
}

// The "now" of a run_now is over once the task runs again, also where that is at the very time it had before.
func TestAgainAfterRunNow(t *testing.T) {
	b := newBench(t)
	for id, test := range map[string]struct {
		at   time.Duration
		want string
	}{"another time": {time.Hour, "1h0m0s"}, "the same time": {0, "noon"}} {
		b.Due(id)
		b.Exec(
			`UPDATE tasktable.scheduled_tasks SET run_now_at = $1 WHERE id = $2`, noon.Add(-time.Hour), id,
		)
		h := b.Take(noon.Add(-time.Hour))[id]
		done := b.End(noon.Add(-time.Hour), enginetest.Again(h, noon.Add(test.at)))
		if len(done) != 1 || !done[0].Current {
			t.Errorf("settled %+v", done)
		}
		b.Expect("again", id, `
			QUEUED rev=3 attempt=0 scheduled=`+test.want+` next=`+test.want+` started=-1h0m0s message="see you"
			COMPLETED rev=2 attempt=1 scheduled=noon due=-1h0m0s started=-1h0m0s finished=-1h0m0s node=7
			1 schedule created by test
			2 sql rescheduled by tester
			3 again rescheduled by node 7`)
	}
}

// A user's edit, made while the handler ran, wins over what the handler asked for.
func TestAgainAgainstAnEdit(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	b.Did(enginetest.Tasks.Reschedule(t.Context(), b.Pool, "a", noon.Add(time.Hour)))
	done := b.End(noon.Add(time.Second), enginetest.Again(h, noon.Add(24*time.Hour)))
	if len(done) != 1 || !done[0].Settled || done[0].Current {
		t.Errorf("settled %+v", done)
	}
	b.Expect("rescheduled", "a", `
		QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s
		SUPERSEDED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 reschedule rescheduled by test`)

	h = b.TakeOne(store.Task{Payload: job{Name: "b"}})
	b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, "b"))
	b.End(noon.Add(time.Second), enginetest.Again(h, noon.Add(24*time.Hour)))
	b.Expect("cancelled", "b", `
		CANCELLED rev=2 attempt=1 scheduled=noon finished=real
		SUPERSEDED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 cancel cancelled by test`)
}

// A row that an application has locked is not settled as simply completed: its Again would be forgotten.
func TestAgainOnALockedRow(t *testing.T) {
	b := newBench(t)
	b.Due("locked", "free", "plain")
	holds := b.Take(noon)
	unlock := enginetest.Lock(t, b.Pool, "locked")
	b.InTx(func(tx pgx.Tx) {
		done, err := b.Again(t.Context(), tx, &noon, nil, []taskdb.Settlement{
			enginetest.Again(holds["locked"], noon),
		})
		if err != nil || len(done) != 1 || !done[0].Held || !done[0].Current || done[0].Settled {
			t.Errorf("settled %+v, %v", done, err)
		}
	})
	all := []taskdb.Settlement{
		enginetest.Again(holds["locked"], noon.Add(time.Hour)),
		enginetest.Again(holds["free"], noon.Add(time.Hour)), enginetest.Completed(holds["plain"]),
	}
	states := taskdb.ByFence(b.End(noon, all...))
	if state := states[holds["locked"].Fence]; state.Settled || !state.Held {
		t.Errorf("the locked one: %+v", state)
	}
	for _, id := range []string{"free", "plain"} {
		if state := states[holds[id].Fence]; !state.Settled {
			t.Errorf("%s: %+v", id, state)
		}
	}
	unlock()
	if states := taskdb.ByFence(b.End(noon, all...)); !states[holds["locked"].Fence].Settled {
		t.Errorf("unlocked: %+v", states)
	}
	b.Expect("unlocked", "locked", `
		QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s started=noon message="see you"
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=noon node=7
		1 schedule created by test
		2 again rescheduled by node 7`)
}

func TestFollowUps(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	done := b.End(noon.Add(time.Second), enginetest.FollowedBy(h,
		store.Task{Payload: job{Name: "x"}, At: noon.Add(time.Hour)},
		store.Task{ID: "y", Payload: job{Name: "y"}, At: noon.Add(time.Hour), Priority: 1},
		// The last of two with one id wins.
		store.Task{Payload: job{Name: "x"}, At: noon.Add(2 * time.Hour)},
	))
	if len(done) != 1 || !done[0].Current {
		t.Errorf("settled %+v", done)
	}
	b.Expect("completed", "a", `
		COMPLETED rev=1 attempt=1 scheduled=noon started=noon finished=1s
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test`)
	b.Expect("the last duplicate", "task-JOB-x", `
		QUEUED rev=2 attempt=0 scheduled=2h0m0s next=2h0m0s
		1 schedule created by task a
		2 schedule rescheduled by task a`)
	b.Expect("another", "y", `
		QUEUED rev=1 attempt=0 scheduled=1h0m0s next=1h0m0s
		1 schedule created by task a`)
}

// A follow-up that was written to knows the task that asked for it. A new one belongs to that task's service.
func TestFollowUpsKnowTheTaskThatAskedForThem(t *testing.T) {
	b := newBench(t)
	later := noon.Add(time.Hour)
	b.Schedule(store.Task{Payload: job{Name: "edited"}, At: later}, store.Task{
		Payload: job{Name: "as it is"}, At: later,
	})
	b.Exec(`UPDATE tasktable.scheduled_tasks SET scheduled_by = 'another'`)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	b.End(noon, enginetest.FollowedBy(h,
		store.Task{ID: "at once", Payload: job{Name: "x"}, At: noon},
		store.Task{ID: "later", Payload: job{Name: "x"}, At: later},
		store.Task{ID: "recurring", Payload: job{Name: "x"}, Recurrence: &store.Recurrence{Cron: "@daily"}},
		store.Task{ID: "edited", Payload: job{Name: "otherwise"}, At: later},
		store.Task{ID: "as it is", Payload: job{Name: "as it is"}, At: later},
		store.Task{ID: "a", Payload: job{Name: "a"}, At: later},
	))
	for id, want := range map[string][2]string{
		"at once": {"a", "test"}, "later": {"a", "test"}, "recurring": {"a", "test"},
		"edited": {"a", "another"}, "as it is": {"", "another"}, "a": {"", "test"},
	} {
		row, err := enginetest.Tasks.Get(t.Context(), b.Pool, id)
		if err != nil || taskdb.TextOf(row.SpawnedBy) != want[0] || taskdb.TextOf(row.ScheduledBy) != want[1] {
			t.Errorf(
				"%s: spawned by %q and scheduled by %q, %v; want %q", id, taskdb.TextOf(row.SpawnedBy),
				taskdb.TextOf(row.ScheduledBy), err, want,
			)
		}
	}
}

// The follow-ups of an attempt whose task was edited are applied. Those of a cancelled one are applied only where they
// commit with the handler's writes, and those of one whose fence is lost never.
func TestFollowUpsOfASupersededAttempt(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]struct{ cancelled, inTx, applied bool }{
		"edited": {false, false, true}, "cancelled": {true, false, false}, "cancelled, in its transaction": {true, true, true},
	} {
		b.Schedule(store.Task{ID: name, Payload: job{Name: name}, At: noon})
		h := b.Take(noon)[name]
		if test.cancelled {
			b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, name))
		} else {
			b.Schedule(store.Task{ID: name, Payload: job{Name: "edited"}, At: noon.Add(time.Hour)})
		}
		settlement := enginetest.FollowedBy(h, store.Task{ID: "x", Payload: job{Name: "x"}, At: noon.Add(time.Hour)})
		settlement.InTx = test.inTx
		b.End(noon, settlement)
		want := `absent`
		if test.applied {
			want = fmt.Sprintf(`
				QUEUED rev=1 attempt=0 scheduled=1h0m0s next=1h0m0s
				1 schedule created by task %s`, name)
		}
		b.Expect(name+": its follow-up", "x", want)
		b.Forget("x")
		b.End(noon, settlement) // the fence is lost by now
		b.Expect(name+": the follow-up of a lost fence", "x", `absent`)
	}
}

// A follow-up into a row that an application has locked holds up the task that asked for it, and no other.
func TestFollowUpIntoALockedRow(t *testing.T) {
	b := newBench(t)
	b.Schedule(store.Task{Payload: job{Name: "target"}, At: noon.Add(time.Hour)},
		store.Task{Payload: job{Name: "own row locked"}, At: noon},
		store.Task{Payload: job{Name: "asks"}, At: noon},
		store.Task{Payload: job{Name: "asks for another"}, At: noon},
		store.Task{Payload: job{Name: "plain"}, At: noon})
	holds := b.Take(noon)
	unlock := []func(){enginetest.Lock(t, b.Pool, "target"), enginetest.Lock(t, b.Pool, "own row locked")}
	other := store.Task{ID: "other", Payload: job{Name: "other"}, At: noon}
	all := []taskdb.Settlement{
		enginetest.FollowedBy(holds["asks"], other, store.Task{ID: "target", Payload: job{Name: "moved"}, At: noon}),
		enginetest.FollowedBy(holds["own row locked"], other),
		enginetest.FollowedBy(holds["asks for another"], store.Task{
			ID: "another", Payload: job{Name: "another"}, At: noon,
		}),
		enginetest.Completed(holds["plain"]),
	}
	states := taskdb.ByFence(b.End(noon, all...))
	for id, h := range holds {
		state := states[h.Fence]
		if waits := id == "asks" || id == "own row locked"; state.Held != waits || state.Settled == waits {
			t.Errorf("%s: %+v", id, state)
		}
	}
	if got := enginetest.StateOf(t, b.Pool, "other"); got != "absent" {
		t.Errorf("a follow-up of what was not settled: %s", got)
	}
	for _, unlock := range unlock {
		unlock()
	}
	b.End(noon, all...)
	b.Expect("unlocked", "target", `
		QUEUED rev=2 attempt=0 scheduled=noon next=noon
		1 schedule created by test
		2 schedule rescheduled by task asks`)
	for _, id := range []string{"asks", "own row locked", "asks for another", "plain"} {
		if got := enginetest.Outcomes(t, b.Pool, id); fmt.Sprint(got) != "[COMPLETED]" {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// A follow-up with the task's own id schedules the task anew, as Schedule would after it; a newer edit wins over it.
func TestFollowUpOfTheTaskItself(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	self := store.Task{ID: "a", Payload: job{Name: "next"}, At: noon.Add(time.Hour)}
	b.End(
		noon.Add(time.Second),
		enginetest.FollowedBy(h, self, store.Task{ID: "x", Payload: job{Name: "x"}, At: noon}),
	)
	b.Expect("current", "a", `
		QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 schedule rearmed by task a`)

	h = b.Take(noon.Add(time.Hour))["a"]
	b.Did(enginetest.Tasks.Reschedule(t.Context(), b.Pool, "a", noon.Add(9*time.Hour)))
	self.At = noon.Add(2 * time.Hour)
	b.End(noon.Add(time.Hour), enginetest.FollowedBy(h, self, store.Task{ID: "y", Payload: job{Name: "y"}, At: noon}))
	b.Expect("superseded", "a", `
		QUEUED rev=3 attempt=0 scheduled=9h0m0s next=9h0m0s
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		SUPERSEDED rev=2 attempt=1 scheduled=noon due=1h0m0s started=1h0m0s finished=1h0m0s node=7
		1 schedule created by test
		2 schedule rearmed by task a
		3 reschedule rescheduled by test`)
	b.Expect("its other follow-up, since a task that asks for itself is no other task's follow-up", "y", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 schedule created by task a`)
}

// A follows up B while B follows up A, each in a transaction of its own, at once, again and again: no deadlock, and
// none of the follow-ups is lost.
func TestCrossedFollowUps(t *testing.T) {
	b := newBench(t)
	const rounds = 30
	for round := range rounds {
		at := noon.Add(time.Duration(round) * time.Minute)
		ids := []string{fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)}
		b.Schedule(store.Task{Payload: job{Name: ids[0]}, At: at}, store.Task{Payload: job{Name: ids[1]}, At: at})
		holds := b.Take(at)
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, id := range ids {
			wg.Go(func() {
				other := ids[1-i]
				// As the settler does with what another transaction has locked.
				for held := true; held && errs[i] == nil; {
					errs[i] = pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
						done, err := b.SettleAll(t.Context(), tx, &at, nil, "test", []taskdb.Settlement{
							enginetest.FollowedBy(holds[id], store.Task{
								ID: other, Payload: job{Name: other},
								At: noon.Add(500 * time.Hour),
							}),
						})
						held = err == nil && done[0].Held
						return err
					})
				}
			})
		}
		wg.Wait()
		b.OK(errors.Join(errs...))
		for _, id := range ids {
			row, err := enginetest.Tasks.Get(t.Context(), b.Pool, id)
			b.OK(err)
			if row.Status != store.StatusQueued || row.NextAttemptAt == nil ||
				!row.NextAttemptAt.Equal(noon.Add(500*time.Hour)) {
				t.Errorf("task %s is %s for %v", id, row.Status, row.NextAttemptAt)
			}
		}
		// Who settled first was followed up when it had completed, the other while it was held.
		if got := fmt.Sprint(
			enginetest.Outcomes(t, b.Pool, ids[0]), enginetest.Outcomes(t, b.Pool, ids[1]),
		); got != "[COMPLETED] [SUPERSEDED]" && got != "[SUPERSEDED] [COMPLETED]" {
			t.Errorf("outcomes %s", got)
		}
	}
}

// What the database refuses fails the whole transaction and leaves all as it was; the settler then finds the culprit.
func TestFollowUpThatTheDatabaseRefuses(t *testing.T) {
	b := newBench(t)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT "no such names" CHECK (payload ->> 'name' <> 'bad')`)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	before := enginetest.StateOf(t, b.Pool, "a")
	err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
		_, err := b.SettleAll(
			context.WithoutCancel(t.Context()), tx, &noon, nil, "test", []taskdb.Settlement{
				enginetest.FollowedBy(h, store.Task{Payload: job{Name: "bad"}}),
			},
		)
		return err
	})
	if !pg.IsDataError(err) {
		t.Errorf("error %v", err)
	}
	b.Expect("refused", "a", before)
}
