package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/quiet"
)

// A task begins only if few tasks before it are not recorded, unless the job says that the batch goes on.
func TestWindow(t *testing.T) {
	t.Parallel()
	w := newWindow(3, 10)
	has := func(step string, most int) {
		t.Helper()
		for place := range 10 {
			if got := w.has(place); got != (place < most) {
				t.Errorf("%s: place %d: %t, want the places before %d", step, place, got, most)
			}
		}
	}
	has("at the beginning", 3)
	w.ends(1)
	has("the second is over", 3)
	w.ends(0)
	has("the first is over, too", 5)
	w.goesOn(7)
	has("the job says that it goes on", 7)
	for place := 2; place < 6; place++ {
		w.ends(place)
	}
	has("the window has caught up", 9)
}

// A batch that has waited for its window looks once more after the last pause, and a node that stops begins nothing. In
// neither case does it write to the job. It could not here, because it has no pool.
func TestInWindowWritesNothingInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{config: Config{Quiet: quiet.New()}, stopping: make(chan struct{})}
		j := &job{Worker: w, window: newWindow(1, 3)}
		time.AfterFunc(windowLooks*windowPause-time.Nanosecond, func() { j.window.ends(0) })
		if !j.inWindow(&run{place: 1}) {
			t.Error("the window has moved during the last pause, and the task may not begin")
		}
		close(w.stopping)
		if j.inWindow(&run{place: 2}) {
			t.Error("a task begins while the node stops")
		}
	})
}
