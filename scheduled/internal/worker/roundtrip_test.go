package worker

import (
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	var trip roundTrip
	now := time.Now()
	for _, step := range []struct {
		what  string
		after time.Duration // since the answer before
		took  time.Duration
		valid time.Duration
	}{
		{"at first nobody knows", 0, 700 * time.Millisecond, gateValid},
		{"ten seconds, all of them slow: the link is slow", slowFor, 600 * time.Millisecond, 3 * 600 * time.Millisecond},
		{"still slow", slowFor - time.Second, 800 * time.Millisecond, 3 * 600 * time.Millisecond},
		{"another ten seconds", time.Second, 700 * time.Millisecond, 3 * 600 * time.Millisecond},
		{"as long as it is slow", time.Second, 2 * time.Second, 3 * 600 * time.Millisecond},
		{"the quickest counts", time.Second, 500 * time.Millisecond, 3 * 500 * time.Millisecond},
		{"and one quick answer ends it", time.Second, time.Millisecond, gateValid},
		{"slow again", time.Second, 700 * time.Millisecond, gateValid},
		{"the quick answer is in the ten seconds before", slowFor, 700 * time.Millisecond, gateValid},
		{"it is forgotten", slowFor, 700 * time.Millisecond, 3 * 700 * time.Millisecond},
		{"half of the validity is quick enough", time.Second, gateValid / 2, gateValid},
	} {
		now = now.Add(step.after)
		trip.took(step.took, now)
		if valid := trip.valid(); valid != step.valid {
			t.Errorf("%s: valid for %s, want %s", step.what, valid, step.valid)
		}
	}
}
