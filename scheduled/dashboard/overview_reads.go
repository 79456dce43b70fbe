package dashboard

import (
	"time"

	"github.com/tasktable/tasktable/store/inspect"
)

// history keeps the numbers of the charts of a window. It has as many buckets as the window, so its size is bounded.
type history struct {
	buckets *kept[bucketsRead]
	types   *kept[inspect.Throughput]
}

type bucketsRead struct {
	buckets []inspect.Bucket
	at      time.Time // the database's
}

// troubleRead has the results of RecurringTrouble.
type troubleRead struct {
	tasks []inspect.RecurringTask
	more  bool
}
