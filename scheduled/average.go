package scheduled

import (
	"sync"
	"time"
)

// averages is the moving average of how long each type's handlers run on this node, by which the leader sizes batches.
type averages struct {
	mu    sync.Mutex
	types map[string]average
}

type average struct {
	value time.Duration
	runs  int
}

// Enough runs for a first opinion, and the weight of each later one.
const (
	averageRuns   = 20
	averageWeight = 20
)

func (a *averages) observe(kind string, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.types == nil {
		a.types = map[string]average{}
	}
	was := a.types[kind]
	weight := min(was.runs+1, averageWeight)
	was.value += (took - was.value) / time.Duration(weight)
	was.runs++
	a.types[kind] = was
}

// of returns a type's average, and whether there are enough runs to go by.
func (a *averages) of(kind string) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.types[kind]
	return found.value, found.runs >= averageRuns
}

// measured lists the averages of the types that have run often enough to go by.
func (a *averages) measured() map[string]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := map[string]time.Duration{}
	for kind, one := range a.types {
		if one.runs >= averageRuns {
			found[kind] = one.value
		}
	}
	return found
}
