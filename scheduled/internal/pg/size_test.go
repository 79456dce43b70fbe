package pg

import (
	"fmt"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	t.Parallel()
	s := NewSize(3, 40)
	got := []int{s.Now()}
	step := func(do func()) { do(); got = append(got, s.Now()) }
	for range 5 {
		step(func() { s.Shrink(s.Now()) })
	}
	if s.Shrink(s.Now()) {
		t.Error("at its lower bound it gets smaller")
	}
	for range 5 {
		step(s.Grow)
	}
	if !s.Shrink(12) {
		t.Error("at its upper bound it gets no smaller")
	}
	step(func() { s.Grow(); s.Grow(); s.Grow() })
	step(func() { s.Shrink(1000) }) // more than it allows, such as one large row
	for _, took := range []time.Duration{400, 401, 100, 99} {
		step(func() { s.Pace(took, 400) })
	}
	if want := "[40 20 10 5 3 3 6 12 24 40 40 40 20 20 10 10 20]"; fmt.Sprint(got) != want {
		t.Errorf("sizes %v, want %s", got, want)
	}
}
