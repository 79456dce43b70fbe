//go:build unix

package torture

import (
	"slices"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// overlap is two runs of one task at one time.
type overlap struct {
	first, second *run
	excuse        string // "": none
}

// overlaps finds all, with what excuses them.
func (h *history) overlaps() []overlap {
	byID := map[string][]*run{}
	for _, r := range h.Runs {
		byID[r.ID] = append(byID[r.ID], r)
	}
	var found []overlap
	for _, runs := range byID {
		slices.SortFunc(runs, func(a, b *run) int { return a.At.Compare(b.At) })
		for i, a := range runs {
			for _, b := range runs[i+1:] {
				if b.At.Before(a.Latest) {
					found = append(found, overlap{a, b, h.excuse(a, b)})
				}
			}
		}
	}
	return found
}

// excuse is why a handler may still have run when the next began: it does not mind its context, whose end had come;
// or its process was frozen, and it ended when that looked again.
func (h *history) excuse(a, b *run) string {
	if a.Deaf && (a.End == nil || !a.End.Ended.IsZero() && !b.At.Before(a.End.Ended)) {
		return "deaf"
	}
	for _, s := range h.spans(a.PID) {
		to := s.To
		if to.IsZero() {
			to = a.Latest
		}
		if to.Sub(s.From) >= frozenLeast && to.After(a.At) && s.From.Before(b.At) &&
			!a.Latest.After(to.Add(looksWithin)) {
			return "frozen"
		}
	}
	return ""
}

// noneRunsTwiceAtOnce: but for handlers that do not mind their context, and processes that were frozen. The samples
// are the runs of a task after its first.
func noneRunsTwiceAtOnce(h *history, wrong reportFunc) (samples int) {
	ran := map[string]bool{}
	for _, r := range h.Runs {
		if ran[r.ID] {
			samples++
		}
		ran[r.ID] = true
	}
	for _, o := range h.overlaps() {
		if o.excuse == "" {
			wrong(o.first.ID, "fence %d in process %d ran from %s to %s, fence %d in process %d began at %s",
				o.first.Fence, o.first.PID, h.offset(o.first.At), h.offset(o.first.Latest), o.second.Fence,
				o.second.PID, h.offset(o.second.At))
		}
	}
	return samples
}

// nodesFenceThemselves: a node that is cut off, or that nothing comes through to, ends its handlers by itself before
// others may take its tasks back. The samples are the handlers that it ended so.
func nodesFenceThemselves(h *history, wrong reportFunc) (samples int) {
	for _, f := range h.Faults {
		limit := f.From.Add(fencedWithin)
		cutOff := f.Kind == faultCut || f.Kind == faultHush && (f.To.IsZero() || f.To.After(limit))
		if f.PID == 0 || !cutOff { // some are done to writers
			continue
		}
		for _, r := range h.Runs {
			if r.PID != f.PID || !r.At.Before(f.From) || r.End == nil || !r.End.At.After(f.From) {
				continue
			}
			reached := earlier(r.End.At, r.End.contextEnd())
			late := reached.After(limit) && reached.Sub(f.From)-h.stood(r.PID, f.From, reached) > fencedWithin
			if late || r.End.Cause == handlers.ErrLeaseLost.Error() {
				samples++
			}
			if late {
				wrong(r.ID, "fence %d went on in process %d until %s, which was cut off at %s", r.Fence, r.PID,
					h.offset(reached), h.offset(f.From))
			}
		}
	}
	return samples
}

// nodesGoOn: no node ends its handlers because of its session or a lease while nothing is done to it, whatever the
// leader's statements take. The samples are the runs meanwhile.
func nodesGoOn(h *history, wrong reportFunc) (samples int) {
	for _, r := range h.Runs {
		if r.End == nil || r.Deaf || h.disturbed(r.PID, r.At, r.Latest) || h.stood(r.PID, r.At, r.Latest) > 0 {
			continue
		}
		samples++
		if r.End.Cause == handlers.ErrLeaseLost.Error() {
			wrong(r.ID, "the context of fence %d ended at %s in process %d, to which "+"nothing was done", r.Fence,
				h.offset(r.End.contextEnd()), r.PID)
		}
	}
	return samples
}

// excused counts overlaps by their excuse.
func (h *history) excused() map[string]int {
	counts := map[string]int{}
	for _, o := range h.overlaps() {
		if o.excuse != "" {
			counts[o.excuse]++
		}
	}
	return counts
}

// runningAt lists the runs of a process that had begun and not ended at an instant.
func (h *history) runningAt(pid int, at time.Time) []*run {
	var found []*run
	for _, r := range h.Runs {
		if r.PID == pid && r.At.Before(at) && (r.End == nil || r.End.At.After(at)) {
			found = append(found, r)
		}
	}
	return found
}
