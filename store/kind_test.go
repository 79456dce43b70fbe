package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// A caller that only forgets the recurrence does not end a nightly task, and one that has it does not keep a plain task
// from running, by whatever way it comes. With Replace both do.
func TestAKindIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, way := range recurringWays {
		b.each(way.name, func(b *bench) {
			for _, recurring := range []bool{true, false} {
				first, then := recurs(way.name), recurs(way.name)
				want := "does not recur, and the call has cron"
				if recurring {
					want = "recurs, and the call has no cron"
					then.Recurrence = nil
				} else {
					first.Recurrence = nil
				}
				first.Replace = true // the second round begins with what the first has left
				b.succeeds(way.call(b, first))
				before := b.state(way.name)
				if way.name == "SQL" {
					then.Replace = false
					b.refused(b.sqlOf(then), want)
				} else if _, err := way.call(b, then); !errors.Is(err, store.ErrKindDiffers) ||
					!strings.Contains(err.Error(), want) || errors.Is(err, store.ErrInvalid) {
					b.Errorf("recurring %t: %v", recurring, err)
				}
				same(b, "refused", b.state(way.name), before)
				then.Replace = true
				receipt, err := way.call(b, then)
				if err != nil || receipt.Outcome != store.Rescheduled || (b.Get(way.name).Cron != nil) == recurring {
					b.Errorf("recurring %t, with Replace: %+v, %v", recurring, receipt, err)
				}
			}
		})
	}
}
