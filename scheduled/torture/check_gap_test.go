//go:build unix

package torture

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// gap is a time during which nothing was claimed, though something was due and free, and nothing that was
// done explains it.
type gap struct {
	from, to time.Time
	waited   string // a task that waited all the while
}

// claimingGoesOn: what is due is claimed again within the time of a failover after whatever stopped it. The samples
// are the seconds in which nothing that was done could explain a gap.
func claimingGoesOn(h *history, wrong reportFunc) (samples int) {
	for at := h.Began; at.Before(h.Calmed); at = at.Add(time.Second) {
		if end := at.Add(time.Second); h.explained(at, end).Equal(at) {
			samples++
		}
	}
	for _, g := range h.gaps(silentLimit) {
		wrong(g.waited, "nothing was claimed from %s to %s, though it was due", h.offset(g.from), h.offset(g.to))
	}
	return samples
}

// gaps lists those that are longer than so much.
func (h *history) gaps(least time.Duration) (found []gap) {
	claims := h.claimsInOrder()
	for i := 1; i < len(claims); i++ {
		from, to := claims[i-1].At, claims[i].Began
		if to.Sub(from) <= least {
			continue
		}
		if from = h.explained(from, to); to.Sub(from) <= least || h.full(from) {
			continue
		}
		if id, since := h.waitedUntil(from, to); id != "" && to.Sub(since) > least {
			found = append(found, gap{since, to, id})
		}
	}
	return found
}

// claimsInOrder are all claims, by their time.
func (h *history) claimsInOrder() []*auditRow {
	claims := slices.DeleteFunc(slices.Clone(h.Audit), func(a *auditRow) bool { return !a.claims() })
	slices.SortFunc(claims, func(a, b *auditRow) int { return a.At.Compare(b.At) })
	return claims
}

// explained moves the begin of a gap behind whatever can explain it.
func (h *history) explained(from, to time.Time) time.Time {
	for _, f := range h.Faults {
		if !f.stopsClaiming() || f.From.After(to) {
			continue
		}
		if f.To.IsZero() {
			return to
		}
		from = later(from, f.To)
	}
	return from
}

// stopsClaiming says whether a fault may do so: one that concerns all, the one that leads, or one that may come to lead
// meanwhile.
func (f fault) stopsClaiming() bool {
	switch {
	case !f.disturbs():
		return false
	case f.Kind == faultQuiet: // it lets another lead at once, and one is there
		return false
	case f.Kind == faultKill || f.Kind == faultStop || f.Kind == faultFreeze || f.Kind == faultBackend ||
		f.Kind == faultListener:
		return f.Leader || f.Headless
	}
	return true
}

// disturbs says whether a fault may slow tasks down at all: what is done to writers does not, nor may an old snapshot.
func (f fault) disturbs() bool {
	return !strings.HasPrefix(f.Target, "writer") && f.Kind != faultSnapshot
}

// full says whether the nodes may have had as much in hand as they take.
func (h *history) full(at time.Time) bool {
	held := 0
	for _, a := range h.Audit {
		if a.At.After(at) {
			continue
		}
		if a.claims() {
			held++
		}
		if a.releases() {
			held--
		}
	}
	return held >= h.Slots-h.SlotsEach*h.quietAt(at)
}

// waitedUntil finds the task that waited longest up to an instant, without a pause or a lock in its way.
func (h *history) waitedUntil(from, to time.Time) (id string, since time.Time) {
	since = to
	for p, list := range h.waits() {
		if p.nodes != h.Working[plain{}.TaskType()] {
			continue // few nodes work it, and they may be away
		}
		for _, w := range list {
			if h.Unserved[w.kind] || h.maybePaused(w.queue, w.kind, from, to) {
				continue
			}
			begin := later(w.from, from)
			if begin.Before(since) && !w.until.Before(to) && !h.touched(h.in(), w.id, &auditRow{Began: begin, At: to}) {
				id, since = w.id, begin
			}
		}
	}
	return id, since
}

// maybePaused says whether a queue's tasks of a type may have been paused at some time of an interval.
func (h *history) maybePaused(queue, kind string, from, to time.Time) bool {
	return slices.ContainsFunc(h.Pauses, func(p pauseEntry) bool {
		return p.covers(queue, kind) && p.Asked.Before(to) && (p.Over.IsZero() || p.Over.After(from))
	})
}

// longestGap is that of all gaps, however short.
func (h *history) longestGap() time.Duration {
	longest := time.Duration(0)
	for _, g := range h.gaps(time.Second) {
		longest = max(longest, g.to.Sub(g.from))
	}
	return longest
}

// measured is how long it took until the consequences of a fault were over.
type measured struct {
	fault fault
	took  time.Duration
	id    string // of the task, where it is about a task
}

// measure leaves out the time that the machine gave to others: when a process did not get on.
func (h *history) measure(f fault, took time.Duration) measured {
	return measured{fault: f, took: took - h.stoodAny(f.From, f.From.Add(took))}
}

// undisturbed says whether nothing else that could matter was done shortly before a fault, or until its
// consequences were over.
func (h *history) undisturbed(f fault, took time.Duration) bool {
	return !slices.ContainsFunc(h.Faults, func(other fault) bool {
		return other != f && other.disturbs() && !other.From.After(f.From.Add(took)) &&
			(other.To.IsZero() || other.To.After(f.From.Add(-3*time.Second)))
	})
}

// failovers are the times from the loss of a leader to the next claim by another, for losses that the
// server notices at once.
func (h *history) failovers() (found []measured, disturbed int) {
	for _, f := range h.Faults {
		if f.Kind != faultKill && f.Kind != faultLeader && f.Kind != faultCut {
			continue
		}
		took, known := h.takeover(f)
		if !known {
			continue
		}
		if h.undisturbed(f, took) {
			found = append(found, h.measure(f, took))
		} else {
			disturbed++
		}
	}
	return found, disturbed
}

// takeover is the time from the loss of a leader to the next claim by another.
func (h *history) takeover(f fault) (took time.Duration, known bool) {
	if !f.Leader {
		return 0, false
	}
	claims := h.claimsInOrder()
	after, _ := slices.BinarySearchFunc(claims, f.From, func(a *auditRow, at time.Time) int {
		return cmp.Or(a.At.Compare(at), -1)
	})
	if after == 0 {
		return 0, false
	}
	next := slices.IndexFunc(claims[after:], func(a *auditRow) bool { return a.Backend != claims[after-1].Backend })
	if next < 0 {
		return 0, false
	}
	return claims[after+next].At.Sub(f.From), true
}

// recoveries are the times from a kill to when each task that the process was running was free again. Where
// the process led, they begin when another leads, which has heard nothing of the killed node and counts its
// silence from then on.
func (h *history) recoveries() (found []measured, disturbed int) {
	x := h.in()
	for _, f := range h.Faults {
		if f.Kind != faultKill {
			continue
		}
		late, _ := h.takeover(f)
		for _, r := range h.runningAt(f.PID, f.From) {
			if r.End != nil {
				continue
			}
			took := h.Until.Sub(f.From) // at least, if it never came back
			if free := x.releases[r.Fence]; free != nil {
				took = free.At.Sub(f.From)
			}
			// The leader steps over a row that an application has locked, and ends its claim at a later tick.
			if !h.undisturbed(f, took) || h.lockedByWriter(r.ID, f.From, f.From.Add(took)) {
				disturbed++
				continue
			}
			one := h.measure(f, took-late)
			one.id = r.ID
			found = append(found, one)
		}
	}
	return found, disturbed
}

// p99 is the time that at most one in a hundred exceeds.
func p99(of []measured) time.Duration { return quantile(of, 0.99) }

func quantile(of []measured, q float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(of), func(a, b measured) int { return cmp.Compare(a.took, b.took) })
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].took
}

// failoverIsQuick judges the losses of a leader that no other fault disturbed.
func failoverIsQuick(h *history, wrong reportFunc) (samples int) {
	found, _ := h.failovers()
	if p99(found) > failoverLimit+h.slack() {
		wrong("", "p99 of %d is %s, want at most %s", len(found), p99(found), failoverLimit)
	}
	return len(found)
}

// recoveryIsQuick judges the tasks of killed nodes that no other fault disturbed.
func recoveryIsQuick(h *history, wrong reportFunc) (samples int) {
	found, _ := h.recoveries()
	if p99(found) > recoveryLimit+h.slack() {
		slowest := slices.MaxFunc(found, func(a, b measured) int { return cmp.Compare(a.took, b.took) })
		wrong(slowest.id, "p99 of %d is %s, want at most %s; after the kill at %s", len(found), p99(found),
			recoveryLimit, h.offset(slowest.fault.From))
	}
	return len(found)
}
