package recurrence

import (
	"testing"
	"time"
)

func TestJitter(t *testing.T) {
	fire := instant("2026-06-01T07:00:00Z")
	const pinnedJitter = 326822638 * time.Microsecond // another value would move the occurrences of whoever upgrades
	if got := Jitter("digest", fire, 10*time.Minute); got != pinnedJitter {
		t.Errorf("got %d", got)
	}
	if Jitter("digest", fire.In(time.FixedZone("", 3600)).Add(time.Nanosecond), 10*time.Minute) != pinnedJitter {
		t.Error("it depends on the zone or on less than a microsecond")
	}
	for _, most := range []time.Duration{-1, 0, 1, time.Microsecond} {
		if got := Jitter("digest", fire, most); got != 0 {
			t.Errorf("below %s: got %s", most, got)
		}
	}
	const draws, most = 20_000, time.Minute
	var parts [10]int
	for i := range draws {
		got := Jitter("digest", fire.Add(time.Duration(i)*time.Minute), most)
		if got < 0 || got >= most || got%time.Microsecond != 0 {
			t.Fatalf("got %s", got)
		}
		parts[got*10/most]++
	}
	for i, count := range parts { // 2000 each, with a standard deviation of 42
		if count < 1750 || count > 2250 {
			t.Errorf("%d of %d in part %d of 10", count, draws, i)
		}
	}
	if Jitter("a", fire, 1<<63-1) == Jitter("b", fire, 1<<63-1) {
		t.Error("it does not depend on the id")
	}
}
