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

// attentionRead has what needs a person, and the nodes of the same time.
type attentionRead struct {
	found []inspect.Finding
	nodes []inspect.Node
}
