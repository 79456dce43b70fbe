//go:build unix

package torture

import (
	"fmt"
	"slices"
	"time"
)

// typesKeepTheirSlots: no node runs more tasks of a type at once than it has slots for that type. A run counts until
// its context ends, because a process that begins anew with the engine's state cannot end a handler that ignores that.
// The samples are the runs that took the last slot.
func typesKeepTheirSlots(h *history, wrong reportFunc) (samples int) {
	nodes := h.nodeNames()
	taken := counter{}
	for _, r := range h.inOrder() {
		limit := h.TypeSlots[nodes[r.PID]][r.Type]
		if limit == 0 || r.Deaf && r.End == nil {
			continue
		}
		running := taken.begin(fmt.Sprint(r.PID, " ", r.Type), r, r.Latest)
		if running >= limit {
			samples++
		}
		if running > limit {
			wrong(r.ID, "%s had %d slots for %s, and ran %d when fence %d began at %s", nodes[r.PID], limit, r.Type,
				running, r.Fence, h.offset(r.At))
		}
	}
	return samples
}

// counter is until when runs count that have begun, by what they are counted as.
type counter map[string][]time.Time

// begin counts a run until its context ends, or until a time before that. It returns how many run now.
func (c counter) begin(as string, r *run, until time.Time) int {
	if r.End != nil {
		until = earlier(until, r.End.contextEnd())
	}
	c[as] = append(slices.DeleteFunc(c[as], func(t time.Time) bool { return !t.After(r.At) }), until)
	return len(c[as])
}

// inOrder are the runs, by their beginnings.
func (h *history) inOrder() []*run {
	runs := slices.Clone(h.Runs)
	slices.SortStableFunc(runs, func(a, b *run) int { return a.At.Compare(b.At) })
	return runs
}

// limitsAreKept: all nodes together run no more tasks of a type at once than its limit says. A run counts until its
// context ends or its process is killed. It does not count from when its process stands still, because a frozen process
// may overlap until it next looks. The samples are the runs that reached the limit.
func limitsAreKept(h *history, wrong reportFunc) (samples int) {
	return h.atOnce(wrong, h.Limits, func(r *run) string { return r.Type })
}

// groupLimitsAreKept is the same for the tasks of each group of a type.
func groupLimitsAreKept(h *history, wrong reportFunc) (samples int) {
	return h.atOnce(wrong, h.GroupLimits, func(r *run) string {
		if r.Group == "" {
			return ""
		}
		return r.Type + " of " + r.Group
	})
}

// groupsRunInOrder: between two attempts of a task of a group that is to run in order, no other task of the group
// begins. An edit begins the task anew, and gives it another revision. A process that stood still when it began may be
// late. The samples are the further attempts.
func groupsRunInOrder(h *history, wrong reportFunc) (samples int) {
	late := func(r *run) bool {
		return slices.ContainsFunc(h.spans(r.PID), func(s span) bool {
			return s.From.Before(r.At) && (s.To.IsZero() || s.To.After(r.At.Add(-time.Second)))
		})
	}
	begun := map[string][]*run{} // of each group, since the last end of a task
	for _, r := range h.inOrder() {
		if h.GroupLimits[r.Type] == 0 || r.Group == "" || late(r) {
			continue
		}
		group := r.Type + " of " + r.Group
		before := slices.IndexFunc(begun[group], func(b *run) bool { return b.ID == r.ID && b.Revision == r.Revision })
		if before >= 0 {
			samples++
			for _, other := range begun[group][before+1:] {
				if other.ID != r.ID {
					wrong(r.ID, "fence %d of %s began at %s between its fences %d and %d", other.Fence, other.ID,
						h.offset(other.At), begun[group][before].Fence, r.Fence)
				}
			}
			begun[group] = begun[group][before+1:]
		}
		begun[group] = append(begun[group], r)
	}
	return samples
}

// atOnce counts the runs that are counted together, and reports those beyond the limit of their type.
func (h *history) atOnce(wrong reportFunc, limits map[string]int, together func(*run) string) (samples int) {
	taken := counter{}
	for _, r := range h.inOrder() {
		limit, until, as := limits[r.Type], r.Latest, together(r)
		if as == "" || limit == 0 || r.Deaf && r.End == nil {
			continue
		}
		for _, s := range h.spans(r.PID) {
			if s.To.After(r.At) || s.To.IsZero() {
				until = earlier(until, later(s.From, r.At))
			}
		}
		running := taken.begin(as, r, until)
		if running >= limit {
			samples++
		}
		if running > limit {
			wrong(r.ID, "all nodes together may run %d of %s, and ran %d when fence %d began at %s", limit, as,
				running, r.Fence, h.offset(r.At))
		}
	}
	return samples
}
