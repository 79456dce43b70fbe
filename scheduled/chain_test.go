package scheduled

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// chain is where a task stands in its chain.
func (b *bench) chain(id string) (chain int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), `SELECT chain FROM tasktable.scheduled_tasks WHERE id = $1`, id).Scan(&chain); err != nil {
		b.t.Fatal(err)
	}
	return chain
}

// links has a task and what follows it run on and on, as the settlement of each asks, each as soon as it is due, and returns how
// long after the one before it each was due, as runs of equal waits, and what the settlements said of their chains.
func (b *bench) links(first string, n int, next func(h hold, now time.Time) settlement) (waits string, said []int) {
	b.t.Helper()
	b.schedule(store.Task{ID: first, Payload: job{first}, At: noon})
	now, wait, run := noon, time.Duration(-1), 0
	flush := func() {
		if run > 0 {
			waits += fmt.Sprintf("%d × %s ", run, wait)
		}
	}
	for i := range n {
		holds := b.take(now)
		if len(holds) != 1 {
			b.t.Fatalf("link %d: claimed %v at %s", i, holds, offset(now))
		}
		for _, h := range holds {
			done := b.end(now, next(h, now))
			if len(done) != 1 || !done[0].Settled {
				b.t.Fatalf("settled %+v", done)
			}
			if done[0].Chain != 0 {
				said = append(said, done[0].Chain)
			}
		}
		var due time.Time
		if err := b.pool.QueryRow(b.t.Context(), `SELECT min(next_attempt_at) FROM tasktable.scheduled_tasks`).Scan(&due); err != nil {
			b.t.Fatal(err)
		}
		if due.Sub(now) != wait {
			flush()
			wait, run = due.Sub(now), 0
		}
		run++
		now = due
	}
	flush()
	return waits, said
}

// A task that asks to run again at once, for ever: the hundredth time on it waits a second each time, and the settlement says so.
func TestChainOfAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	waits, said := b.links("a", 150, func(h hold, now time.Time) settlement { return again(h, now) })
	if waits != "100 × 0s 50 × 1s " {
		t.Errorf("waits %s", waits)
	}
	if len(said) != 50 || said[0] != 100 || said[49] != 149 {
		t.Errorf("said %v", said)
	}
	if n := b.chain("a"); n != 150 {
		t.Errorf("chain %d", n)
	}
	// Asked for later than at once, it is no chain any more.
	now := noon.Add(50 * time.Second)
	done := b.end(now, again(b.take(now)["a"], now.Add(time.Second+time.Microsecond)))
	if n := b.chain("a"); n != 0 || done[0].Chain != 0 {
		t.Errorf("chain %d, settled %+v", n, done)
	}
	for i, asked := range []time.Duration{-time.Hour, time.Second} { // the past is at once, and so is what a slowed one would get
		b.exec(`UPDATE tasktable.scheduled_tasks SET chain = 100`)
		now = noon.Add(time.Duration(i+1) * time.Hour)
		done = b.end(now, again(b.take(now)["a"], now.Add(asked)))
		if n := b.chain("a"); n != 101 || done[0].Chain != 100 {
			t.Errorf("%s: chain %d, settled %+v", asked, n, done)
		}
		if row, err := tasks.Get(t.Context(), b.pool, "a"); err != nil || !row.NextAttemptAt.Equal(now.Add(time.Second)) {
			t.Errorf("%s: due at %v, %v", asked, row.NextAttemptAt, err)
		}
	}
}

// What somebody edits begins anew; what the engine does to the row does not.
func TestChainEndsWithAnEdit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, edit := range map[string]func(){
		"schedule": func() { schedule(t, b.pool, store.Task{ID: "a", Payload: job{"b"}}) },
		"SQL":      func() { b.exec(`UPDATE tasktable.scheduled_tasks SET priority = 3`) },
		"run now":  func() { _, _ = tasks.RunNow(t.Context(), b.pool, "a") },
	} {
		b.schedule(store.Task{Payload: job{"a"}, At: noon})
		b.exec(`UPDATE tasktable.scheduled_tasks SET chain = 120`)
		if edit(); b.chain("a") != 0 {
			t.Errorf("%s: chain %d", name, b.chain("a"))
		}
		b.exec(`DELETE FROM tasktable.scheduled_tasks`)
	}
	b.schedule(store.Task{Payload: job{"a"}, At: noon})
	b.exec(`UPDATE tasktable.scheduled_tasks SET chain = 120`)
	b.end(noon, retried(b.take(noon)["a"], time.Minute, "not today"))
	schedule(t, b.pool, store.Task{ID: "a", Payload: job{"a"}}) // unchanged
	if n := b.chain("a"); n != 120 {
		t.Errorf("retried: chain %d", n)
	}
}

// A chain of tasks of which each makes the next, and one of two that make each other, are slowed down like one that runs again.
func TestChainOfFollowUps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := 0
	waits, said := b.links("0", 130, func(h hold, now time.Time) settlement {
		n++
		return followedBy(h, store.Task{ID: fmt.Sprint(n), Payload: job{"next"}, At: now})
	})
	if waits != "100 × 0s 30 × 1s " || len(said) != 30 || said[0] != 100 || b.chain("130") != 130 || b.chain("0") != 0 {
		t.Errorf("waits %s, said %v, chain %d", waits, said, b.chain("130"))
	}
	b.exec(`DELETE FROM tasktable.scheduled_tasks`)
	ring := map[string]string{"a": "b", "b": "a"}
	waits, said = b.links("a", 130, func(h hold, now time.Time) settlement {
		return followedBy(h, store.Task{ID: ring[h.ID], Payload: job{"ring"}, At: now.Add(time.Microsecond)}) // at another time, or it is finished
	})
	if waits != "100 × 1µs 30 × 1s " || len(said) != 30 || b.chain("a") != 130 {
		t.Errorf("a ring: waits %s, said %v, chain %d", waits, said, b.chain("a"))
	}
	b.exec(`DELETE FROM tasktable.scheduled_tasks`)
	waits, _ = b.links("c", 130, func(h hold, now time.Time) settlement {
		return followedBy(h, store.Task{ID: "c", Payload: job{"itself"}, At: now.Add(time.Microsecond)})
	})
	if waits != "100 × 1µs 30 × 1s " || b.chain("c") != 130 {
		t.Errorf("itself: waits %s, chain %d", waits, b.chain("c"))
	}
}

// What is asked for later is no link of the chain, and not put off; of what is asked for at once all is.
func TestChainFansOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon})
	b.exec(`UPDATE tasktable.scheduled_tasks SET chain = 100`)
	done := b.end(noon, followedBy(b.take(noon)["a"],
		store.Task{ID: "now", Payload: job{"x"}, At: noon}, store.Task{ID: "past", Payload: job{"x"}, At: noon.Add(-time.Hour)},
		store.Task{ID: "soon", Payload: job{"x"}, At: noon.Add(time.Second)}, store.Task{ID: "no time", Payload: job{"x"}},
		store.Task{ID: "later", Payload: job{"x"}, At: noon.Add(time.Second + time.Microsecond)}, store.Task{ID: "tomorrow", Payload: job{"x"}, At: noon.Add(24 * time.Hour)},
		store.Task{ID: "recurring", Payload: job{"x"}, Recurrence: &store.Recurrence{Cron: "@daily"}},
	))
	if done[0].Chain != 100 {
		t.Errorf("settled %+v", done)
	}
	for id, want := range map[string]struct {
		chain int
		due   time.Duration
	}{
		"now": {101, time.Second}, "past": {101, time.Second}, "soon": {101, time.Second}, "no time": {101, time.Second},
		"later": {0, time.Second + time.Microsecond}, "tomorrow": {0, 24 * time.Hour},
	} {
		row, err := tasks.Get(t.Context(), b.pool, id)
		if err != nil || !row.NextAttemptAt.Equal(noon.Add(want.due)) || b.chain(id) != want.chain {
			t.Errorf("%s: chain %d, due at %s, %v", id, b.chain(id), row.NextAttemptAt, err)
		}
	}
	if n := b.chain("recurring"); n != 0 {
		t.Errorf("recurring: chain %d", n)
	}
}

// A long chain is slowed down, and otherwise does what a short one does: what is finished or waits as asked stays as it is.
func TestChainChangesNothingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"finished"}, At: noon})
	b.end(noon, completed(b.take(noon)["finished"]))
	b.schedule(store.Task{Payload: job{"waits"}, At: noon.Add(24 * time.Hour)}, store.Task{Payload: job{"a"}, At: noon})
	b.exec(`UPDATE tasktable.scheduled_tasks SET chain = 100 WHERE id = 'a'`)
	before := map[string]string{"finished": stateOf(t, b.pool, "finished"), "waits": stateOf(t, b.pool, "waits")}
	done := b.end(noon, followedBy(b.take(noon)["a"],
		store.Task{ID: "finished", Payload: job{"finished"}, At: noon}, store.Task{ID: "waits", Payload: job{"waits"}},
		store.Task{ID: "new", Payload: job{"new"}, At: noon},
	))
	if done[0].Chain != 100 {
		t.Errorf("settled %+v", done)
	}
	// Where nothing is put off, nothing is said.
	b.schedule(store.Task{Payload: job{"b"}, At: noon})
	b.exec(`UPDATE tasktable.scheduled_tasks SET chain = 100 WHERE id = 'b'`)
	done = b.end(noon, followedBy(b.take(noon)["b"], store.Task{ID: "finished", Payload: job{"finished"}, At: noon}))
	if done[0].Chain != 0 {
		t.Errorf("settled %+v", done)
	}
	for id, state := range before {
		if b.expect("as it was", id, state); b.chain(id) != 0 {
			t.Errorf("%s: chain %d", id, b.chain(id))
		}
	}
	b.expect("put off, and it can be seen what was asked", "new", `
		QUEUED rev=1 attempt=0 scheduled=noon next=1s
		1 schedule created by task a`)
}
