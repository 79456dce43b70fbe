//go:build unix

package torture

// claimsBeginOrGoBack: a claimed task begins soon after it could have, or goes back to the queue, so that no task
// waits long behind others that were claimed before it. The samples are the claims that nothing disturbed.
func claimsBeginOrGoBack(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for fence, c := range x.claims {
		if c.OldNext == nil {
			continue
		}
		from, until := later(c.At, *c.OldNext), h.Until
		if free := x.releases[fence]; free != nil {
			until = free.At
		}
		if runs := x.runs[fence]; len(runs) > 0 {
			until = earlier(until, runs[0].At)
		}
		w := waiting{id: c.ID, queue: c.Queue, kind: c.Type, from: from}
		if h.strained(w, earlier(until, from.Add(inHandFor))) {
			continue
		}
		if samples++; until.Sub(from)-h.stoodAny(from, until) > inHandFor {
			wrong(c.ID, "fence %d, claimed at %s for %s, neither began nor went back until %s", fence, h.offset(c.At),
				h.offset(*c.OldNext), h.offset(until))
		}
	}
	return samples
}
