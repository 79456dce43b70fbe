package taskdb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Each way an attempt can end, on a row that is still the attempt's: the whole row and history, before and after.
func TestSettle(t *testing.T) {
	b := newBench(t)
	say := func(s taskdb.Settlement, outcome string, to store.Status, message string) taskdb.Settlement {
		s.Outcome, s.To, s.Error, s.Message = outcome, to, &message, &message
		return s
	}
	for _, test := range []struct {
		name    string
		settle  func(h taskdb.Claim) taskdb.Settlement
		dueSoon bool
		want    string
	}{
		{"completed", func(h taskdb.Claim) taskdb.Settlement {
			s := enginetest.Completed(h)
			s.Message, s.Result = new("a note"), new(`{"n": 12345678901234567890}`)
			return s
		}, false, `
			COMPLETED rev=1 attempt=1 scheduled=noon started=noon finished=1s message="a note" ` +
			`result={"n": 12345678901234567890}
			COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7`},
		{"completed without a word", enginetest.Completed, false, `
			COMPLETED rev=1 attempt=1 scheduled=noon started=noon finished=1s
			COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7`},
		{"retried", func(h taskdb.Claim) taskdb.Settlement { return enginetest.Retried(h, time.Minute, "oh") }, false, `
			QUEUED rev=1 attempt=1 scheduled=noon next=1m1s started=noon message="oh"
			RETRIED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="oh" node=7`},
		{"retried at once", func(h taskdb.Claim) taskdb.Settlement { return enginetest.Retried(h, 0, "oh") }, true, `
			QUEUED rev=1 attempt=1 scheduled=noon next=1s started=noon message="oh"
			RETRIED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="oh" node=7`},
		{
			"failed", func(h taskdb.Claim) taskdb.Settlement {
				return say(enginetest.Completed(h), taskdb.OutcomeFailed, store.StatusFailed, "never")
			},
			false, `
			FAILED rev=1 attempt=1 scheduled=noon started=noon finished=1s message="never"
			FAILED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="never" node=7`,
		},
		{"snoozed", func(h taskdb.Claim) taskdb.Settlement {
			s := enginetest.Retried(h, time.Hour, "snoozed for 1h")
			s.Outcome, s.Refund = taskdb.OutcomeSnoozed, true
			return s
		}, false, `
			QUEUED rev=1 attempt=0 scheduled=noon next=1h0m1s started=noon message="snoozed for 1h"
			SNOOZED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="snoozed for 1h" node=7`},
		{"interrupted", func(h taskdb.Claim) taskdb.Settlement {
			s := enginetest.Retried(h, 0, "shutdown")
			s.Outcome, s.Refund = taskdb.OutcomeInterrupted, true
			return s
		}, true, `
			QUEUED rev=1 attempt=0 scheduled=noon next=1s started=noon message="shutdown"
			INTERRUPTED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="shutdown" node=7`},
		{"released", func(h taskdb.Claim) taskdb.Settlement { return taskdb.Released(h, "no slot") }, true, `
			QUEUED rev=1 attempt=0 scheduled=noon next=1s
			RELEASED rev=1 attempt=1 scheduled=noon due=noon finished=1s error="no slot" node=7`},
		{"expired", taskdb.Expired, false, `
			EXPIRED rev=1 attempt=0 scheduled=noon finished=1s message="expired before it could start"
			EXPIRED rev=1 attempt=1 scheduled=noon due=noon finished=1s error="expired before it could start" node=7`},
		{
			"lost",
			func(h taskdb.Claim) taskdb.Settlement { h.Due = time.Time{}; return taskdb.Lost(h, "node 3 died") }, true,
			`
			QUEUED rev=1 attempt=1 scheduled=noon next=1s message="node 3 died"
			LOST rev=1 attempt=1 scheduled=noon finished=1s error="node 3 died" node=7`,
		},
		{
			"lost at the last attempt", func(h taskdb.Claim) taskdb.Settlement { return taskdb.Lost(h, "node 3 died") },
			false, `
			FAILED rev=1 attempt=1 scheduled=noon finished=1s message="node 3 died"
			LOST rev=1 attempt=1 scheduled=noon due=noon finished=1s error="node 3 died" node=7`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			task := store.Task{Payload: job{Name: test.name}, MaxAttempts: 2}
			if test.name == "lost at the last attempt" {
				task.MaxAttempts = 1
			}
			h := b.TakeOne(task)
			b.Expect("before", test.name, `
				EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=6m0s
				1 schedule created by test`)
			done := b.End(noon.Add(time.Second), test.settle(h))
			if len(done) != 1 || !done[0].Settled || !done[0].Current || done[0].Held ||
				done[0].DueSoon != test.dueSoon {
				t.Errorf("settled %+v", done)
			}
			b.Expect("after", test.name, test.want+"\n1 schedule created by test")
			// The fence is gone: the same outcome, come late, changes nothing.
			if done := b.End(noon.Add(time.Hour), enginetest.Completed(h)); len(done) != 1 ||
				done[0].Settled || done[0].Held {
				t.Errorf("settled again: %+v", done)
			}
			b.Expect("after a second settle", test.name, test.want+"\n1 schedule created by test")
			b.Exec(`DELETE FROM tasktable.scheduled_tasks`)
		})
	}
}

// Whatever an attempt comes to, the row that was edited meanwhile keeps the edit: only the hold ends.
func TestSettleSuperseded(t *testing.T) {
	b := newBench(t)
	edits := map[string]func(id string) (store.Receipt, error){
		"rescheduled": func(id string) (store.Receipt, error) {
			return enginetest.Tasks.Reschedule(t.Context(), b.Pool, id, noon.Add(time.Hour))
		},
		"cancelled": func(id string) (store.Receipt, error) { return enginetest.Tasks.Cancel(t.Context(), b.Pool, id) },
	}
	rows := map[string]string{
		"rescheduled": "QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s",
		"cancelled":   "CANCELLED rev=2 attempt=1 scheduled=noon finished=real",
	}
	held := map[string]string{
		"rescheduled": "QUEUED rev=2 attempt=0 scheduled=1h0m0s fence lease_expires_at=6m0s",
		"cancelled":   "CANCELLED rev=2 attempt=1 scheduled=noon fence lease_expires_at=6m0s finished=real",
	}
	changes := map[string]string{
		"rescheduled": "1 schedule created by test\n2 reschedule rescheduled by test",
		"cancelled":   "1 schedule created by test\n2 cancel cancelled by test",
	}
	withResult := func(h taskdb.Claim) taskdb.Settlement {
		s := enginetest.Completed(h)
		s.Message, s.Result = new("a note"), new(`{}`)
		return s
	}
	for edit, do := range edits {
		for _, test := range []struct {
			name   string
			settle func(h taskdb.Claim) taskdb.Settlement
			line   string
		}{
			{
				"completed", withResult,
				`SUPERSEDED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7`,
			},
			{"retried", func(h taskdb.Claim) taskdb.Settlement { return enginetest.Retried(h, 0, "oh") },
				`SUPERSEDED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="oh" node=7`},
			{"lost", func(h taskdb.Claim) taskdb.Settlement {
				s := taskdb.Lost(h, "died")
				s.ScheduledAt = &h.Due // else the row's, as edited
				return s
			}, `LOST rev=1 attempt=1 scheduled=noon due=noon finished=1s error="died" node=7`},
		} {
			h := b.TakeOne(store.Task{ID: "a", Payload: job{Name: "a"}})
			if receipt, err := do("a"); err != nil || string(receipt.Outcome) != edit {
				t.Fatalf("%+v, %v", receipt, err)
			}
			b.Expect("edited", "a", held[edit]+"\n"+changes[edit])
			done := b.End(noon.Add(time.Second), test.settle(h))
			if len(done) != 1 || !done[0].Settled || done[0].Current || done[0].DueSoon {
				t.Errorf("%s, then %s: settled %+v", edit, test.name, done)
			}
			b.Expect(edit+", then "+test.name, "a", rows[edit]+"\n"+test.line+"\n"+changes[edit])
			b.Forget("a")
		}
	}
}

// A pause by plain SQL, which lets the attempt end, and run_now of what waits for its hold to end.
func TestSettleAfterTwoEdits(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	b.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'PAUSED'`)
	b.End(noon.Add(time.Second), enginetest.Completed(h))
	b.Expect("paused", "a", `
		COMPLETED rev=1 attempt=1 scheduled=noon started=noon finished=1s
		COMPLETED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 sql paused by tester`)

	h = b.TakeOne(store.Task{Payload: job{Name: "b"}})
	if receipt, err := enginetest.Tasks.Reschedule(t.Context(), b.Pool, "b", noon.Add(time.Hour)); err != nil ||
		receipt.Outcome != store.Rescheduled {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if receipt, err := enginetest.Tasks.RunNow(t.Context(), b.Pool, "b"); err != nil ||
		receipt.Outcome != store.Queued {
		t.Fatalf("%+v, %v", receipt, err)
	}
	done := b.End(noon.Add(time.Second), enginetest.Completed(h))
	if !done[0].DueSoon {
		t.Errorf("settled %+v: it is due at once", done)
	}
	b.Expect("run now", "b", `
		QUEUED rev=3 attempt=0 scheduled=1h0m0s run_now=real next=1s
		SUPERSEDED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s node=7
		1 schedule created by test
		2 reschedule rescheduled by test
		3 run_now queued by test`)
}

// An application's open transaction on one row: that one is reported as held, all others are settled at once.
func TestSettleSkipsLockedRows(t *testing.T) {
	b := newBench(t)
	const n = 50
	for i := range n {
		b.Due(fmt.Sprint(i))
	}
	holds := b.Take(noon)
	unlock := enginetest.Lock(t, b.Pool, "7")
	var all []taskdb.Settlement
	for _, h := range holds {
		all = append(all, enginetest.Completed(h))
	}
	done := b.End(noon, all...) // a wait for the lock would never end
	for _, one := range done {
		locked := one.Fence == holds["7"].Fence
		if one.Settled == locked || one.Held != locked {
			t.Errorf("settled %+v, its row locked: %t", one, locked)
		}
	}
	if len(done) != n {
		t.Errorf("%d answers for %d settlements", len(done), n)
	}
	b.Expect("locked", "7", `
		EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=6m0s
		1 schedule created by test`)
	unlock()
	if done := b.End(noon, all...); len(done) != n {
		t.Errorf("%d answers for %d settlements", len(done), n)
	} else {
		for _, one := range done {
			if mine := one.Fence == holds["7"].Fence; one.Settled != mine || one.Held {
				t.Errorf("settled %+v the second time", one)
			}
		}
	}
}

// A claim after the lease was lost has another fence: the outcome of the first run does not touch the second's.
func TestSettleOfALostFence(t *testing.T) {
	b := newBench(t)
	first := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	b.End(noon.Add(time.Minute), taskdb.Lost(first, "its lease ended"))
	second := b.Take(noon.Add(time.Minute))["a"]
	state := enginetest.StateOf(t, b.Pool, "a")
	for _, late := range []taskdb.Settlement{
		enginetest.Completed(first), enginetest.Retried(first, 0, "oh"), taskdb.Released(first, "no"),
		taskdb.Lost(first, "twice"),
	} {
		if done := b.End(noon.Add(2*time.Minute), late); len(done) != 1 || done[0].Settled || done[0].Held ||
			done[0].Current {
			t.Errorf("%s: settled %+v", late.Outcome, done)
		}
		b.Expect("after a late "+late.Outcome, "a", state)
	}
	b.End(noon.Add(3*time.Minute), enginetest.Completed(second))
	b.Expect("after the second", "a", `
		COMPLETED rev=1 attempt=2 scheduled=noon started=1m0s finished=3m0s
		LOST rev=1 attempt=1 scheduled=noon due=noon finished=1m0s error="its lease ended" node=7
		COMPLETED rev=1 attempt=2 scheduled=noon due=1m0s started=1m0s finished=3m0s node=7
		1 schedule created by test`)
}

// The cheap statement takes what is completed and current, and leaves the rest as it is: to the one that can tell why.
func TestComplete(t *testing.T) {
	b := newBench(t)
	b.Due("current", "edited", "cancelled", "lost")
	holds := b.Take(noon)
	b.Schedule(store.Task{Payload: job{Name: "edited"}, ID: "edited", At: noon, Priority: 7})
	b.Exec(`SELECT tasktable.cancel('cancelled')`)
	lost := enginetest.Completed(holds["lost"])
	lost.Fence++
	all := []taskdb.Settlement{
		enginetest.Completed(holds["current"]), enginetest.Completed(holds["edited"]),
		enginetest.Completed(holds["cancelled"]), lost,
	}
	done, err := b.Complete(t.Context(), b.Pool, &noon, new(int64(7)), all)
	if err != nil || len(done) != 1 || done[0].Fence != holds["current"].Fence || !done[0].Settled ||
		!done[0].Current || done[0].Status != "COMPLETED" {
		t.Errorf("completed %+v, %v", done, err)
	}
	b.Counts("tasks are held", 3, `SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`)
	states, err := b.CompleteOrSettle(t.Context(), b.Pool, new(int64(7)), all[1:])
	b.OK(err)
	found := taskdb.ByFence(states)
	for _, id := range []string{"edited", "cancelled"} {
		if state := found[holds[id].Fence]; !state.Settled || state.Current {
			t.Errorf("%s: %+v", id, state)
		}
	}
	if state := found[lost.Fence]; state.Settled || state.Held {
		t.Errorf("lost: %+v", state)
	}
}

// A row that an application's transaction has locked keeps the others from being completed no longer than a moment.
func TestCompleteBesideALock(t *testing.T) {
	b := newBench(t)
	b.Due("free", "locked")
	holds := b.Take(noon)
	unlock := enginetest.Lock(t, b.Pool, "locked")
	all := []taskdb.Settlement{enginetest.Completed(holds["locked"]), enginetest.Completed(holds["free"])}
	if done, err := b.Complete(t.Context(), b.Pool, nil, nil, all); !pg.IsTimeout(err) || len(done) != 0 {
		t.Errorf("completed %+v, %v", done, err)
	}
	done, err := b.CompleteOrSettle(t.Context(), b.Pool, nil, all)
	b.OK(err)
	states := taskdb.ByFence(done)
	if state := states[holds["free"].Fence]; !state.Settled {
		t.Errorf("free: %+v", state)
	}
	if state := states[holds["locked"].Fence]; state.Settled || !state.Held {
		t.Errorf("locked: %+v", state)
	}
	unlock()
	if done, err := b.CompleteOrSettle(t.Context(), b.Pool, nil, all[:1]); err != nil || len(done) != 1 ||
		!done[0].Settled {
		t.Errorf("unlocked: %+v, %v", done, err)
	}
}

// What the cheap statement writes is what the other would have.
func TestCompleteWritesWhatSettleWrites(t *testing.T) {
	b := newBench(t)
	b.Due("a", "b")
	holds := b.Take(noon)
	b.Did(b.Complete(
		t.Context(), b.Pool, &noon, new(int64(7)), []taskdb.Settlement{enginetest.Completed(holds["a"])},
	))
	b.End(noon, enginetest.Completed(holds["b"]))
	if a, want := enginetest.StateOf(t, b.Pool, "a"), enginetest.StateOf(t, b.Pool, "b"); a != want {
		t.Errorf("complete writes\n%s\nsettle writes\n%s", a, want)
	}
}
