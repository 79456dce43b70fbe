package scheduled

import (
	"sync"
	"time"
)

// averages has, for each type, the moving average of how long its handlers run on this node. The leader sizes
// batches by it.
type averages struct {
	mu    sync.Mutex
	types map[string]average
}

type average struct {
	value time.Duration
	runs  int
}

const (
	averageRuns   = 20 // how many runs are enough to go by the average
	averageWeight = 20 // each later run has this share, one in so many
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

// of returns the average of a type, and whether the type has run often enough to go by it.
func (a *averages) of(kind string) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.types[kind]
	return found.value, found.runs >= averageRuns
}

// measured returns the averages of the types that have run often enough to go by them.
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
