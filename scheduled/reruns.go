package scheduled

import (
	"sync"
	"time"
)

const (
	rerunsWindow = time.Minute
	// rerunsMost is how many runs of one type may be put off in a window before the log says so. A handler that cuts
	// long work into some slices is not worth a line; one task that asks to run at once for ever is put off nearly
	// sixty times a minute.
	rerunsMost = 30
)

// reruns counts, type by type, the runs that were asked for at once and were put off. The zero value is ready. It is
// safe for concurrent use.
type reruns struct {
	mu     sync.Mutex
	since  time.Time
	counts map[string]int
}

// count adds one of a type, and reports whether it is the one in this window that the log should tell of.
func (r *reruns) count(kind string, now time.Time) (tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil || now.Sub(r.since) >= rerunsWindow {
		r.since, r.counts = now, map[string]int{}
	}
	r.counts[kind]++
	return r.counts[kind] == rerunsMost
}

// putOff counts an attempt that asked for a run at once, which was put off.
func (s *settler) putOff(id, kind string) {
	s.metrics.of(kind).putOff()
	if s.reruns.count(kind, time.Now()) {
		s.log.Warn("tasks of a type ask again and again to run at once; each waits until a second after the start of the attempt "+
			"that asked: do they ever end?", "type", kind, "put_off", rerunsMost, "window", rerunsWindow, "task", id)
	}
}
