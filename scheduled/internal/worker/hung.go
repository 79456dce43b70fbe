package worker

import "time"

// HungAfter is how long after the end of its claim a handler that has not returned counts as hung. A handler that obeys
// its context may need a moment to end.
const HungAfter = 30 * time.Second

// overruns notes that the claim of a running handler is over. Such a handler keeps its slot, because nobody can end a
// goroutine, and its River job, because the leader counts the slot by the job.
func (w *Worker) overruns(r *run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.overrunning[r]; !known && !r.returned {
		w.overrunning[r] = time.Now()
	}
}

// returns notes that a handler has returned.
func (w *Worker) returns(r *run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.returned = true
	delete(w.overrunning, r)
}

// hung lists the handlers that have not returned although their claims have been over for HungAfter.
func (w *Worker) hung() (hanging []*run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r, since := range w.overrunning {
		if time.Since(since) >= w.config.HungAfter {
			hanging = append(hanging, r)
		}
	}
	return hanging
}

// Hung counts, by type, the handlers that have not returned although their claims are over.
func (w *Worker) Hung() map[string]int {
	types := map[string]int{}
	for _, r := range w.hung() {
		types[r.job.kind]++
	}
	return types
}

// lookForHung logs the handlers that hang, and tells the node's health whether they hold all slots of a queue or
// type, or all places of transactional handlers. Such a slot is free again when its handler returns, or in a new
// process.
func (w *Worker) lookForHung() {
	held, why := map[string]int{}, ""
	for _, r := range w.hung() {
		for _, place := range r.job.places {
			if held[place.All]++; held[place.All] >= place.Slots.Size(place.Queue) {
				why = place.All + " are held by handlers that do not return"
			}
		}
		if !r.told {
			r.told = true
			w.config.Log.ErrorContext(r.span(), "a handler ignores its context and does not return; "+
				"its slot is not free until it does", "task", r.ID, "type", r.job.kind, "queue", r.job.queue,
				"revision", r.Revision, "attempt", r.Attempt)
		}
	}
	w.config.Stuck(why)
}
