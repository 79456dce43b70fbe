package dashboard

import (
	"time"

	"github.com/tasktable/tasktable/store/inspect"
)

// history keeps what the charts of a window show. It has as many buckets as the window, so its size is bounded.
type history struct {
	buckets *kept[bucketsRead]
	types   *kept[inspect.Throughput]
}

type bucketsRead struct {
	buckets []inspect.Bucket
	at      time.Time // the database's
}

// troubleRead is what RecurringTrouble returns.
type troubleRead struct {
	tasks []inspect.RecurringTask
	more  bool
}
