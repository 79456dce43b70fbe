package scheduled

import (
	"testing"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// The cheap statement takes what is completed and current, and leaves the rest as it is: to the one that can tell why.
func TestComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"current", "edited", "cancelled", "lost"} {
		b.schedule(store.Task{Payload: job{id}, At: noon})
	}
	holds := b.take(noon)
	b.schedule(store.Task{Payload: job{"edited"}, ID: "edited", At: noon, Priority: 7})
	b.exec(`SELECT tasktable.cancel('cancelled')`)
	lost := completed(holds["lost"])
	lost.Fence++
	all := []taskdb.Settlement{
		completed(holds["current"]), completed(holds["edited"]), completed(holds["cancelled"]), lost,
	}
	done, err := b.Complete(t.Context(), b.pool, &noon, new(int64(7)), all)
	if err != nil || len(done) != 1 || done[0].Fence != holds["current"].Fence || !done[0].Settled ||
		!done[0].Current || done[0].Status != "COMPLETED" {
		t.Errorf("completed %+v, %v", done, err)
	}
	if held := one64(t, b, `SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`); held != 3 {
		t.Errorf("%d tasks are held", held)
	}
	states, err := b.CompleteOrSettle(t.Context(), b.pool, new(int64(7)), all[1:])
	if err != nil {
		t.Fatal(err)
	}
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
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"free"}, At: noon}, store.Task{Payload: job{"locked"}, At: noon})
	holds := b.take(noon)
	unlock := lock(t, b.pool, "locked")
	all := []taskdb.Settlement{completed(holds["locked"]), completed(holds["free"])}
	if done, err := b.Complete(t.Context(), b.pool, nil, nil, all); !taskdb.IsTimeout(err) || len(done) != 0 {
		t.Errorf("completed %+v, %v", done, err)
	}
	done, err := b.CompleteOrSettle(t.Context(), b.pool, nil, all)
	if err != nil {
		t.Fatal(err)
	}
	states := taskdb.ByFence(done)
	if state := states[holds["free"].Fence]; !state.Settled {
		t.Errorf("free: %+v", state)
	}
	if state := states[holds["locked"].Fence]; state.Settled || !state.Held {
		t.Errorf("locked: %+v", state)
	}
	unlock()
	if done, err := b.CompleteOrSettle(t.Context(), b.pool, nil, all[:1]); err != nil || len(done) != 1 ||
		!done[0].Settled {
		t.Errorf("unlocked: %+v, %v", done, err)
	}
}

// What the cheap statement writes is what the other would have.
func TestCompleteWritesWhatSettleWrites(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon}, store.Task{Payload: job{"b"}, At: noon})
	holds := b.take(noon)
	if _, err := b.Complete(
		t.Context(), b.pool, &noon, new(int64(7)), []taskdb.Settlement{completed(holds["a"])},
	); err != nil {
		t.Fatal(err)
	}
	b.end(noon, completed(holds["b"]))
	if a, want := stateOf(t, b.pool, "a"), stateOf(t, b.pool, "b"); a != want {
		t.Errorf("complete writes\n%s\nsettle writes\n%s", a, want)
	}
}

func one64(t *testing.T, b *bench, sql string) (n int64) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
