package enginetest

import (
	"testing"
	"time"
)

func TestLimitsGrowWithTheDelay(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]time.Duration{
		0: time.Second, time.Millisecond: time.Second, usualDelay: time.Second, 2 * usualDelay: 2 * time.Second,
		maxSlowness * usualDelay: 8 * time.Second, time.Hour: 8 * time.Second,
	} {
		if got := slowed(time.Second, delay); got != want {
			t.Errorf("with a delay of %s a limit of 1s is %s, want %s", delay, got, want)
		}
	}
	if most := slowed(2500*time.Millisecond, time.Hour); most >= Patience {
		t.Errorf("a limit may be %s, and a wait ends after %s", most, Patience)
	}
}
