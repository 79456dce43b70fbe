package worker

import (
	"sync"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

const (
	rerunsWindow = time.Minute
	// maxRerunIDs limits the memory of a window. A chain of new ids is found by its generations, without this memory.
	maxRerunIDs = 10_000
)

// reruns counts, chain by chain, the runs that were asked for at once and were put off. A chain is the runs of one task
// or of tasks that ask for each other. Many tasks of one type, each of which asks once, are no chain. The zero value is
// ready. It is safe for concurrent use.
type reruns struct {
	mu     sync.Mutex
	since  time.Time
	counts map[string]int  // by task
	told   map[string]bool // by type
}

// count adds a run that a task has asked for. generations is how often the chain of follow-ups up to this task was put
// off. It is 0 or 1 for a task that asks for itself. count reports whether to write a line to the log, which is so once
// in a window for a type.
func (r *reruns) count(id, kind string, generations int, now time.Time) (tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil || now.Sub(r.since) >= rerunsWindow || len(r.counts) >= maxRerunIDs {
		if r.told == nil || now.Sub(r.since) >= rerunsWindow {
			r.since, r.told = now, map[string]bool{}
		}
		r.counts = map[string]int{}
	}
	r.counts[id] += max(generations, 1)
	if r.counts[id] < taskdb.MaxGenerations || r.told[kind] {
		return false
	}
	r.told[kind] = true
	return true
}

// putOff counts an attempt that asked for a run at once, which was put off.
func (s *settler) putOff(id, kind string, generations int) {
	s.config.Metrics.Of(kind).PutOff()
	if s.reruns.count(id, kind, generations, time.Now()) {
		s.config.Log.Warn(
			"a task, or a chain of follow-ups, asks again and again to run at once; each run waits until "+
				"a second after the start of the attempt that asked; check that the task or chain ends",
			"type", kind, "put_off", taskdb.MaxGenerations, "window", rerunsWindow, "task", id)
	}
}
