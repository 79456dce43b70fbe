package inspect

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// A waiting task expires at the end of its expiration, or at its deadline if that comes before.
func TestExpiryAndDeadline(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	at := func(hours int) *time.Time { return new(noon.Add(time.Duration(hours) * time.Hour)) }
	for name, one := range map[string]struct {
		row  store.Row
		want *time.Time
	}{
		"neither":              {store.Row{}, nil},
		"expiration":           {store.Row{Expiration: new(2 * time.Hour)}, at(2)},
		"deadline":             {store.Row{Deadline: at(3)}, at(3)},
		"the deadline before":  {store.Row{Expiration: new(2 * time.Hour), Deadline: at(1)}, at(1)},
		"the deadline after":   {store.Row{Expiration: new(2 * time.Hour), Deadline: at(3)}, at(2)},
		"of an ended task":     {store.Row{Deadline: at(3), FinishedAt: at(1)}, nil},
		"of a claimed task":    {store.Row{Deadline: at(3), Fence: new(int64(1))}, nil},
		"an unknown due time":  {store.Row{Expiration: new(time.Hour), Jitter: new(time.Hour), Attempt: 1}, nil},
		"and a known deadline": {store.Row{Expiration: new(time.Hour), Jitter: new(time.Hour), Attempt: 1, Deadline: at(3)}, at(3)},
	} {
		one.row.ScheduledAt = noon
		got := expiry(one.row, "not_due")
		if (got == nil) != (one.want == nil) || got != nil && !got.Equal(*one.want) {
			t.Errorf("%s: %v, want %v", name, got, one.want)
		}
	}
}
