//go:build unix

package torture

import "github.com/tasktable/tasktable/handlers"

// leadersClaim: a claim is committed by the node that was elected last, and each draws a number of its own.
func leadersClaim(h *history, wrong reportFunc) (samples int) {
	drawn := map[int64]string{}
	for _, a := range h.Audit {
		if a.claims() {
			samples++
			if a.Leads == nil || !*a.Leads {
				wrong(a.ID, "claimed at %s with fence %d by %q (backend %d), which did not lead", h.offset(a.At),
					*a.Fence, a.App, a.Backend)
			}
			if a.OldFence != nil {
				wrong(a.ID, "claimed at %s with fence %d, while held with %d", h.offset(a.At), *a.Fence, *a.OldFence)
			}
			if who, twice := drawn[*a.Fence]; twice {
				wrong(a.ID, "fence %d was drawn before, as %s", *a.Fence, who)
			}
			drawn[*a.Fence] = "a fence of " + a.ID
		}
		if a.Op != "DELETE" && a.edits() {
			if who, twice := drawn[*a.Revision]; twice {
				wrong(a.ID, "revision %d was drawn before, as %s", *a.Revision, who)
			}
			drawn[*a.Revision] = "a revision of " + a.ID
		}
	}
	return samples
}

// leasesAreAsLong: from the claim, or from when the task is due if that is later, the allowance and the expected
// time; and none gets shorter while it is held.
func leasesAreAsLong(h *history, wrong reportFunc) (samples int) {
	for _, a := range h.Audit {
		switch {
		case a.claims() && a.OldNext != nil:
			samples++
			least := later(a.Began, *a.OldNext).Add(startAllowance + a.Expected)
			most := later(a.At, *a.OldNext).Add(startAllowance + a.Expected)
			if a.Held == nil || a.Held.Before(least) || a.Held.After(most) {
				wrong(a.ID, "claimed at %s, held until %s, want %s to %s", h.offset(a.At), h.instant(a.Held),
					h.offset(least), h.offset(most))
			}
		case a.Fence != nil && a.OldFence != nil && *a.Fence == *a.OldFence && a.Held.Before(*a.OldHeld):
			wrong(a.ID, "held until %s, and then only until %s", h.instant(a.OldHeld), h.instant(a.Held))
		}
	}
	return samples
}

// handlersHaveTheirTime: a lease lasts at least as long as its task is expected to take when the handler is called,
// however long the claim has waited; and no context ends for want of time before that is over.
func handlersHaveTheirTime(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for r, c := range h.claimedRuns() {
		samples++
		until := r.Gate.Add(c.Expected)
		if held := x.heldUntil(r.Fence, r.At); held == nil || held.Before(until) {
			wrong(r.ID, "fence %d began at %s with a lease until %s, and is expected to take %s", r.Fence,
				h.offset(r.Gate), h.instant(held), c.Expected)
		}
		if r.End != nil && r.End.Cause == handlers.ErrDeadline.Error() && r.End.contextEnd().Before(until) {
			wrong(r.ID, "fence %d began at %s and is expected to take %s, and its context "+"ended at %s", r.Fence,
				h.offset(r.Gate), c.Expected, h.offset(r.End.contextEnd()))
		}
	}
	return samples
}

// noneIsClaimedExpired: what has expired before a pass began becomes EXPIRED, and is not handed out.
func noneIsClaimedExpired(h *history, wrong reportFunc) (samples int) {
	for _, a := range h.Audit {
		if !a.claims() || a.Expires == nil {
			continue
		}
		if samples++; !a.Expires.After(a.Began) {
			wrong(a.ID, "claimed at %s, expired at %s", h.offset(a.At), h.offset(*a.Expires))
		}
	}
	return samples
}

// noneIsClaimedPaused: while a queue, a type or everything is paused, none of its tasks is claimed. The samples are
// the pauses.
func noneIsClaimedPaused(h *history, wrong reportFunc) (samples int) {
	samples = h.heldPauses()
	for _, a := range h.Audit {
		if !a.claims() {
			continue
		}
		for _, p := range h.Pauses {
			if p.covers(a.Queue, a.Type) && p.surely(a.Began) && p.surely(a.At) {
				wrong(a.ID, "claimed at %s, its queue %s or type %s is paused since %s", h.offset(a.At), a.Queue,
					a.Type, h.offset(p.Held))
			}
		}
	}
	return samples
}
