package taskdb_test

import (
	"testing"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

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
	if held := one64(t, b, `SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`); held != 3 {
		t.Errorf("%d tasks are held", held)
	}
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

func one64(t *testing.T, b *bench, sql string) (n int64) {
	t.Helper()
	enginetest.OK(t, b.Pool.QueryRow(t.Context(), sql).Scan(&n))
	return n
}
