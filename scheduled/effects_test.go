package scheduled

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func again(h taskdb.Claim, at time.Time) taskdb.Settlement {
	s := completed(h)
	s.Effects = handlers.Effects{Again: &at}
	s.Message = new("see you")
	return s
}

func followedBy(h taskdb.Claim, tasks ...store.Task) taskdb.Settlement {
	s := completed(h)
	s.Effects = handlers.Effects{FollowUps: tasks}
	return s
}

func TestAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.takeOne(store.Task{Payload: job{"a"}})
	done := b.end(noon.Add(time.Second), again(h, noon.Add(24*time.Hour)))
	if len(done) != 1 || !done[0].Settled || !done[0].Current || done[0].DueSoon || done[0].Status != "QUEUED" {
		t.Errorf("settled %+v", done)
	}
	after := `
		QUEUED rev=2 attempt=0 scheduled=24h0m0s next=24h0m0s started=noon message="see you"
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 again rescheduled by node 7`
	b.expect("again", "a", after)
	// The fence is gone: a second settle of the same claim neither completes the task nor moves it.
	if done := b.end(noon.Add(time.Hour), again(h, noon.Add(time.Hour))); len(done) != 1 || done[0].Settled ||
		done[0].Held {
		t.Errorf("settled again: %+v", done)
	}
	b.expect("again twice", "a", after)
	// The next run has all its attempts.
	if h := b.take(noon.Add(24 * time.Hour))["a"]; h.Attempt != 1 {
		t.Errorf("claimed %+v", h)
	}
}

// The "now" of a run_now is over once the task runs again, also where that is at the very time it had before.
func TestAgainAfterRunNow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for id, test := range map[string]struct {
		at   time.Duration
		want string
	}{"another time": {time.Hour, "1h0m0s"}, "the same time": {0, "noon"}} {
		b.schedule(store.Task{Payload: job{id}, At: noon})
		b.exec(`UPDATE tasktable.scheduled_tasks SET run_now_at = $1 WHERE id = $2`, noon.Add(-time.Hour), id)
		h := b.take(noon.Add(-time.Hour))[id]
		done := b.end(noon.Add(-time.Hour), again(h, noon.Add(test.at)))
		if len(done) != 1 || !done[0].Current {
			t.Errorf("settled %+v", done)
		}
		b.expect("again", id, `
			QUEUED rev=3 attempt=0 scheduled=`+test.want+` next=`+test.want+` started=-1h0m0s message="see you"
			COMPLETED rev=2 attempt=1 scheduled=noon due=-1h0m0s started=-1h0m0s finished=-1h0m0s node=7
			1 schedule created by test
			2 sql rescheduled by tester
			3 again rescheduled by node 7`)
	}
}

// A user's edit, made while the handler ran, wins over what the handler asked for.
func TestAgainAgainstAnEdit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.takeOne(store.Task{Payload: job{"a"}})
	if _, err := tasks.Reschedule(t.Context(), b.pool, "a", noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	done := b.end(noon.Add(time.Second), again(h, noon.Add(24*time.Hour)))
	if len(done) != 1 || !done[0].Settled || done[0].Current {
		t.Errorf("settled %+v", done)
	}
	b.expect("rescheduled", "a", `
		QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s
		SUPERSEDED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 reschedule rescheduled by test`)

	h = b.takeOne(store.Task{Payload: job{"b"}})
	if _, err := tasks.Cancel(t.Context(), b.pool, "b"); err != nil {
		t.Fatal(err)
	}
	b.end(noon.Add(time.Second), again(h, noon.Add(24*time.Hour)))
	b.expect("cancelled", "b", `
		CANCELLED rev=2 attempt=1 scheduled=noon finished=real
		SUPERSEDED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 cancel cancelled by test`)
}

// A row that an application has locked is not settled as simply completed: its Again would be forgotten.
func TestAgainOnALockedRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"locked", "free", "plain"} {
		b.schedule(store.Task{Payload: job{id}, At: noon})
	}
	holds := b.take(noon)
	unlock := lock(t, b.pool, "locked")
	b.inTx(func(tx pgx.Tx) {
		done, edited, err := b.SettleAgains(t.Context(), tx, &noon, nil, []taskdb.Settlement{
			again(holds["locked"], noon),
		})
		if err != nil || len(done) != 1 || !done[0].Held || done[0].Settled || len(edited) != 0 {
			t.Errorf("settled %+v, to be settled otherwise %+v, %v", done, edited, err)
		}
	})
	all := []taskdb.Settlement{
		again(holds["locked"], noon.Add(time.Hour)), again(holds["free"], noon.Add(time.Hour)),
		completed(holds["plain"]),
	}
	states := taskdb.ByFence(b.end(noon, all...))
	if state := states[holds["locked"].Fence]; state.Settled || !state.Held {
		t.Errorf("the locked one: %+v", state)
	}
	for _, id := range []string{"free", "plain"} {
		if state := states[holds[id].Fence]; !state.Settled {
			t.Errorf("%s: %+v", id, state)
		}
	}
	unlock()
	if states := taskdb.ByFence(b.end(noon, all...)); !states[holds["locked"].Fence].Settled {
		t.Errorf("unlocked: %+v", states)
	}
	b.expect("unlocked", "locked", `
		QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s started=noon message="see you"
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=noon node=7
		1 schedule created by test
		2 again rescheduled by node 7`)
}

func TestFollowUps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.takeOne(store.Task{Payload: job{"a"}})
	done := b.end(noon.Add(time.Second), followedBy(h,
		store.Task{Payload: job{"x"}, At: noon.Add(time.Hour)},
		store.Task{ID: "y", Payload: job{"y"}, At: noon.Add(time.Hour), Priority: 1},
		store.Task{Payload: job{"x"}, At: noon.Add(2 * time.Hour)}, // the last of two with one id wins
	))
	if len(done) != 1 || !done[0].Current {
		t.Errorf("settled %+v", done)
	}
	b.expect("completed", "a", `
		COMPLETED rev=1 attempt=1 scheduled=noon started=noon finished=1s
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test`)
	b.expect("the last duplicate", "task-JOB-x", `
		QUEUED rev=2 attempt=0 scheduled=2h0m0s next=2h0m0s
		1 schedule created by task a
		2 schedule rescheduled by task a`)
	b.expect("another", "y", `
		QUEUED rev=1 attempt=0 scheduled=1h0m0s next=1h0m0s
		1 schedule created by task a`)
}

// A follow-up that was written to knows the task that asked for it. A new one belongs to that task's service.
func TestFollowUpsKnowTheTaskThatAskedForThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	later := noon.Add(time.Hour)
	b.schedule(store.Task{Payload: job{"edited"}, At: later}, store.Task{Payload: job{"as it is"}, At: later})
	b.exec(`UPDATE tasktable.scheduled_tasks SET scheduled_by = 'another'`)
	h := b.takeOne(store.Task{Payload: job{"a"}})
	b.end(noon, followedBy(h,
		store.Task{ID: "at once", Payload: job{"x"}, At: noon},
		store.Task{ID: "later", Payload: job{"x"}, At: later},
		store.Task{ID: "recurring", Payload: job{"x"}, Recurrence: &store.Recurrence{Cron: "@daily"}},
		store.Task{ID: "edited", Payload: job{"otherwise"}, At: later},
		store.Task{ID: "as it is", Payload: job{"as it is"}, At: later},
		store.Task{ID: "a", Payload: job{"a"}, At: later},
	))
	for id, want := range map[string][2]string{
		"at once": {"a", "test"}, "later": {"a", "test"}, "recurring": {"a", "test"},
		"edited": {"a", "another"}, "as it is": {"", "another"}, "a": {"", "test"},
	} {
		row, err := tasks.Get(t.Context(), b.pool, id)
		if err != nil || taskdb.TextOf(row.SpawnedBy) != want[0] || taskdb.TextOf(row.ScheduledBy) != want[1] {
			t.Errorf(
				"%s: spawned by %q and scheduled by %q, %v; want %q", id, taskdb.TextOf(row.SpawnedBy),
				taskdb.TextOf(row.ScheduledBy), err, want,
			)
		}
	}
}

// The follow-ups of an attempt that was superseded are applied, of one whose fence is lost they are not.
func TestFollowUpsOfASupersededAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.takeOne(store.Task{Payload: job{"a"}})
	if _, err := tasks.Cancel(t.Context(), b.pool, "a"); err != nil {
		t.Fatal(err)
	}
	settlement := followedBy(h, store.Task{ID: "x", Payload: job{"x"}, At: noon})
	b.end(noon, settlement)
	b.expect("its follow-up", "x", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 schedule created by task a`)
	b.forget("x")
	b.end(noon, settlement) // the fence is lost by now
	b.expect("the follow-up of a lost fence", "x", `absent`)
}

// A follow-up into a row that an application has locked holds up the task that asked for it, and no other.
func TestFollowUpIntoALockedRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"target"}, At: noon.Add(time.Hour)},
		store.Task{Payload: job{"own row locked"}, At: noon}, store.Task{Payload: job{"asks"}, At: noon},
		store.Task{Payload: job{"asks for another"}, At: noon}, store.Task{Payload: job{"plain"}, At: noon})
	holds := b.take(noon)
	unlock := []func(){lock(t, b.pool, "target"), lock(t, b.pool, "own row locked")}
	other := store.Task{ID: "other", Payload: job{"other"}, At: noon}
	all := []taskdb.Settlement{
		followedBy(holds["asks"], other, store.Task{ID: "target", Payload: job{"moved"}, At: noon}),
		followedBy(holds["own row locked"], other),
		followedBy(holds["asks for another"], store.Task{ID: "another", Payload: job{"another"}, At: noon}),
		completed(holds["plain"]),
	}
	states := taskdb.ByFence(b.end(noon, all...))
	for id, h := range holds {
		state := states[h.Fence]
		if waits := id == "asks" || id == "own row locked"; state.Held != waits || state.Settled == waits {
			t.Errorf("%s: %+v", id, state)
		}
	}
	if got := stateOf(t, b.pool, "other"); got != "absent" {
		t.Errorf("a follow-up of what was not settled: %s", got)
	}
	for _, unlock := range unlock {
		unlock()
	}
	b.end(noon, all...)
	b.expect("unlocked", "target", `
		QUEUED rev=2 attempt=0 scheduled=noon next=noon
		1 schedule created by test
		2 schedule rescheduled by task asks`)
	for _, id := range []string{"asks", "own row locked", "asks for another", "plain"} {
		if got := outcomes(t, b.pool, id); fmt.Sprint(got) != "[COMPLETED]" {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// A follow-up with the task's own id schedules the task anew, as Schedule would after it; a newer edit wins over it.
func TestFollowUpOfTheTaskItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.takeOne(store.Task{Payload: job{"a"}})
	self := store.Task{ID: "a", Payload: job{"next"}, At: noon.Add(time.Hour)}
	b.end(noon.Add(time.Second), followedBy(h, self, store.Task{ID: "x", Payload: job{"x"}, At: noon}))
	b.expect("current", "a", `
		QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 schedule rearmed by task a`)

	h = b.take(noon.Add(time.Hour))["a"]
	if _, err := tasks.Reschedule(t.Context(), b.pool, "a", noon.Add(9*time.Hour)); err != nil {
		t.Fatal(err)
	}
	self.At = noon.Add(2 * time.Hour)
	b.end(noon.Add(time.Hour), followedBy(h, self, store.Task{ID: "y", Payload: job{"y"}, At: noon}))
	b.expect("superseded", "a", `
		QUEUED rev=3 attempt=0 scheduled=9h0m0s next=9h0m0s
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		SUPERSEDED rev=2 attempt=1 scheduled=noon due=1h0m0s started=1h0m0s finished=1h0m0s node=7
		1 schedule created by test
		2 schedule rearmed by task a
		3 reschedule rescheduled by test`)
	b.expect("its other follow-up, since a task that asks for itself is no other task's follow-up", "y", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 schedule created by task a`)
}

// A follows up B while B follows up A, each in a transaction of its own, at once, again and again: no deadlock, and
// none of the follow-ups is lost.
func TestCrossedFollowUps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const rounds = 30
	for round := range rounds {
		at := noon.Add(time.Duration(round) * time.Minute)
		ids := []string{fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)}
		b.schedule(store.Task{Payload: job{ids[0]}, At: at}, store.Task{Payload: job{ids[1]}, At: at})
		holds := b.take(at)
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, id := range ids {
			wg.Go(func() {
				other := ids[1-i]
				// As the settler does with what another transaction has locked.
				for held := true; held && errs[i] == nil; {
					errs[i] = pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
						done, err := b.SettleAll(t.Context(), tx, &at, nil, "test", []taskdb.Settlement{
							followedBy(holds[id], store.Task{
								ID: other, Payload: job{other}, At: noon.Add(500 * time.Hour),
							}),
						})
						held = err == nil && done[0].Held
						return err
					})
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			row, err := tasks.Get(t.Context(), b.pool, id)
			if err != nil {
				t.Fatal(err)
			}
			if row.Status != store.StatusQueued || row.NextAttemptAt == nil ||
				!row.NextAttemptAt.Equal(noon.Add(500*time.Hour)) {
				t.Errorf("task %s is %s for %v", id, row.Status, row.NextAttemptAt)
			}
		}
		// Who settled first was followed up when it had completed, the other while it was held.
		if got := fmt.Sprint(
			outcomes(t, b.pool, ids[0]), outcomes(t, b.pool, ids[1]),
		); got != "[COMPLETED] [SUPERSEDED]" && got != "[SUPERSEDED] [COMPLETED]" {
			t.Errorf("outcomes %s", got)
		}
	}
}

// What the database refuses fails the whole transaction and leaves all as it was; the settler then finds the culprit.
func TestFollowUpThatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(`ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT "no such names" CHECK (payload ->> 'name' <> 'bad')`)
	h := b.takeOne(store.Task{Payload: job{"a"}})
	before := stateOf(t, b.pool, "a")
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := b.SettleAll(context.WithoutCancel(t.Context()), tx, &noon, nil, "test", []taskdb.Settlement{
			followedBy(h, store.Task{Payload: job{"bad"}}),
		})
		return err
	})
	if !taskdb.IsDataError(err) {
		t.Errorf("error %v", err)
	}
	b.expect("refused", "a", before)
}
