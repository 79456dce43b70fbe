package words

import (
	"testing"
	"time"
)

func TestLengths(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration][3]string{ // Short, Took, Relative
		0:                              {"0 ms", "0.0 ms", "now"},
		1500 * time.Microsecond:        {"1 ms", "1.5 ms", "now"},
		340 * time.Millisecond:         {"340 ms", "340 ms", "now"},
		1250 * time.Millisecond:        {"1 s", "1.25 s", "in 1 s"},
		59 * time.Second:               {"59 s", "59.00 s", "in 59 s"},
		3*time.Minute + 59*time.Second: {"3 min", "3 min", "in 3 min"},
		2*time.Hour + 5*time.Minute:    {"2 h 5 min", "2 h 5 min", "in 2 h 5 min"},
		3 * time.Hour:                  {"3 h", "3 h", "in 3 h"},
		47*time.Hour + 59*time.Minute:  {"47 h", "47 h", "in 47 h"},
		4*24*time.Hour + 23*time.Hour:  {"4 d", "4 d", "in 4 d"},
	} {
		if got := [3]string{Short(d), Took(d), Relative(d)}; got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
		if got := Took(&d); got != want[1] {
			t.Errorf("the pointer to %v: %q", d, got)
		}
	}
	if got := Relative(-90 * time.Second); got != "1 min ago" {
		t.Errorf("a past time: %q", got)
	}
	if got := Took((*time.Duration)(nil)) + Took(-time.Second); got != "––" {
		t.Errorf("no length, and one that clocks made negative: %q", got)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]string{0: "0", 999: "999", 1000: "1 000", 10000: "10 000", 1234567: "1 234 567"} {
		if got := Count(number, false); got != want {
			t.Errorf("%d: %q, want %q", number, got, want)
		}
	}
	if got := Count(10005, true); got != "more than 10 000" {
		t.Errorf("10005 and more: %q", got)
	}
	if got := Count(int64(10000), true); got != "more than 10 000" {
		t.Errorf("more: %q", got)
	}
}
