//go:build unix

package torture

import (
	"slices"
	"strings"
	"time"
)

// urgentOnesBegin: no node begins a task while a more urgent one, which has a slot of the same queue on this node and a
// handler, waits for long. Unlike higherPriorityFirst it knows nothing of passes and of how the engine shares out its
// places, but for what apart says. The samples are the tasks that nodes began while a more urgent one waited.
func urgentOnesBegin(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	begun := slices.DeleteFunc(slices.Clone(h.Runs), func(r *run) bool { return x.claims[r.Fence] == nil })
	slices.SortStableFunc(begun, func(a, b *run) int { return x.claims[a.Fence].At.Compare(x.claims[b.Fence].At) })
	var left, free []waiting // in the order of time; those that wait now
	for _, list := range h.waits() {
		left = append(left, list...)
	}
	slices.SortFunc(left, func(a, b waiting) int { return a.from.Compare(b.from) })
	nodes := h.nodeNames()
	said := map[string]bool{}
	for _, r := range begun {
		c := x.claims[r.Fence]
		for len(left) > 0 && !left[0].from.After(c.At) {
			free, left = append(free, left[0]), left[1:]
		}
		free = slices.DeleteFunc(free, func(w waiting) bool { return !w.until.After(c.At) })
		judged := false
		for _, w := range free {
			if w.priority <= c.Priority || w.queue != c.Queue || w.end != nil && w.end.TxID == c.TxID ||
				!h.works(nodes[r.PID], w.kind) || h.apart(w.kind, c.Type) {
				continue
			}
			judged = true
			from := h.unpaused(w, c.At)
			if c.At.Sub(from) <= passedOverFor || said[w.id] || h.formerPass(from, c.At) ||
				h.touched(x, w.id, &auditRow{Began: from, At: c.At}) {
				continue
			}
			said[w.id] = true
			wrong(w.id, "%s of priority %d waited since %s, when %s claimed at %s, %s of priority %d, began on %s",
				w.kind, w.priority, h.offset(from), r.ID, h.offset(c.At), c.Type, c.Priority, nodes[r.PID])
		}
		if judged {
			samples++
		}
	}
	return samples
}

// unpaused is since when a task surely waited without a pause, at most since an instant.
func (h *history) unpaused(w waiting, at time.Time) time.Time {
	from := w.from
	for _, p := range h.Pauses {
		switch {
		case !p.covers(w.queue, w.kind) || !p.Asked.Before(at):
		case p.Over.IsZero() || p.Over.After(at):
			return at
		default:
			from = later(from, p.Over)
		}
	}
	return from
}

// apart says whether the engine keeps the places of two types apart. A transactional task may wait for a connection
// while a slot is free for others. Types that are not worked by the same nodes share slots, and yet a priority does not
// count between them, though the documents make no exception. Once it does, that part goes.
func (h *history) apart(one, other string) bool {
	return transactional(one) != transactional(other) || h.Working[one] != h.Working[other]
}

// nodeNames are the slots of processes.
func (h *history) nodeNames() map[int]string {
	names := map[int]string{}
	for _, p := range h.Processes {
		names[p.PID] = p.Slot
	}
	return names
}

// works says whether a node has the handler of a type.
func (h *history) works(node, kind string) bool {
	return h.Working == nil || slices.Contains(strings.Fields(h.Working[kind]), node)
}
