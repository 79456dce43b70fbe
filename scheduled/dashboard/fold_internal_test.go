package dashboard

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// One act on many tasks is one line. Another person, verb or second begins another.
func TestFoldChanges(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	change := func(by, verb string, before time.Duration) store.Change {
		return store.Change{ChangedBy: by, Verb: verb, Outcome: "cancelled", ChangedAt: at.Add(-before)}
	}
	changes := []store.Change{change("ann", "cancel", 0), change("ann", "cancel", time.Millisecond), change("ann", "cancel", 900*time.Millisecond),
		change("ben", "cancel", time.Second), change("ben", "pause", time.Second), change("ben", "pause", 3*time.Second),
		change("ben", "pause", 3*time.Second)}
	folded := foldChanges(changes, 4, true)
	if len(folded) != 4 || folded[0].Others != 2 || folded[0].More || folded[1].Others != 0 || folded[2].Others != 0 ||
		folded[3].Others != 1 || !folded[3].More {
		t.Errorf("folded %+v", folded)
	}
	if folded := foldChanges(changes, 1, true); len(folded) != 1 || folded[0].Others != 2 || folded[0].More {
		t.Errorf("folded %+v", folded)
	}
}

// A chart begins a bucket before the first attempt, unless that would leave too few buckets.
func TestChartsBeginWithTheFirstAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ buckets, first, want int }{
		"none":       {60, -1, 60},
		"the first":  {60, 0, 60},
		"the second": {60, 1, 60},
		"the middle": {60, 30, 31},
		"the last":   {60, 59, minBuckets},
		"few":        {5, 4, 5},
	} {
		buckets := make([]inspect.Bucket, c.buckets)
		if c.first >= 0 {
			buckets[c.first].Lost = 1
		}
		if got := len(sinceTheFirst(buckets)); got != c.want {
			t.Errorf("%s: %d buckets, want %d", name, got, c.want)
		}
	}
}
