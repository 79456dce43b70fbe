package worker

import (
	"testing"
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
