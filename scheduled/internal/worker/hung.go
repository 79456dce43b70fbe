package worker

import (
	"maps"
	"sync"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// HungAfter is how long after the end of its claim a handler that has not returned counts as hung. A handler that obeys
// its context may need a moment to end.
const HungAfter = 30 * time.Second

// hung has the handlers that ignore their contexts: their claims are over, and they have not returned. Each keeps its
// slot, because nobody can end a goroutine, and its River job, because the leader counts the slot by the job. It is
// safe for concurrent use.
type hung struct {
	mu   sync.Mutex
	runs map[*run]hungRun
}

type hungRun struct {
	since time.Time
	told  bool
}

func newHung() *hung { return &hung{runs: map[*run]hungRun{}} }

// claimEnds notes that the claim of a running handler is over.
func (h *hung) claimEnds(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.runs[r]; !known && !r.returned {
		h.runs[r] = hungRun{since: time.Now()}
	}
}

// returns notes that a handler has returned.
func (h *hung) returns(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.returned = true
	delete(h.runs, r)
}

// stuck counts the handlers whose claims were over at a time, by queue and by type.
func (h *hung) stuck(before time.Time) (queues, types map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	queues, types = map[string]int{}, map[string]int{}
	for r, hanging := range h.runs {
		if !hanging.since.After(before) {
			queues[r.job.queue]++
			types[r.job.kind]++
		}
	}
	return queues, types
}

// untold returns the handlers whose claims were over at a time and that it has not returned before.
func (h *hung) untold(before time.Time) (fresh []*run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r, hanging := range h.runs {
		if !hanging.told && !hanging.since.After(before) {
			hanging.told = true
			h.runs[r] = hanging
			fresh = append(fresh, r)
		}
	}
	return fresh
}

// Hung counts, by type, the handlers that have not returned although their claims are over.
func (w *Worker) Hung() map[string]int {
	_, types := w.hung.stuck(time.Now().Add(-w.config.HungAfter))
	return types
}

// lookForHung logs the handlers that hang, and tells the node's health whether they hold all slots of a queue or
// type, or all places of transactional handlers. Such a slot is free again when its handler returns, or in a new
// process.
func (w *Worker) lookForHung(now time.Time) {
	before := now.Add(-w.config.HungAfter)
	queues, types := w.hung.stuck(before)
	for _, r := range w.hung.untold(before) {
		w.config.Log.ErrorContext(r.span(), "a handler ignores its context and does not return; "+
			"its slot is not free until it does", "task", r.ID, "type", r.job.kind, "queue", r.job.queue,
			"revision", r.Revision, "attempt", r.Attempt)
	}
	w.config.Stuck(w.heldBy(queues, types))
}

// heldBy says which slots are all held by handlers that hang, or nothing if none are.
func (w *Worker) heldBy(queues, types map[string]int) string {
	const why = " are held by handlers that do not return"
	if w.config.ShareSlots {
		slots, all := 0, 0
		for queue := range maps.Keys(w.config.Slots) {
			slots, all = slots+w.config.Slots[queue], all+queues[queue]
		}
		if all > 0 && all >= slots {
			return "all slots" + why
		}
	} else {
		for queue, n := range queues {
			if n >= w.config.Slots[queue] {
				return "all slots of queue " + queue + why
			}
		}
	}
	for kind, size := range w.config.TypeSlots {
		if types[kind] >= size {
			return "all slots of type " + kind + why
		}
	}
	places := 0
	for kind, n := range types {
		if w.isTx(kind) {
			places += n
		}
	}
	if places > 0 && places >= w.config.Places {
		return "all places of transactional handlers" + why
	}
	return ""
}

// isTx reports whether the handlers of a type take a transaction.
func (w *Worker) isTx(kind string) bool {
	variant := w.config.Handlers.Variant(kind)
	return variant != nil && variant.Kind != handlers.KindPlain
}
