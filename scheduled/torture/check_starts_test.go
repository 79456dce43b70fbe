//go:build unix

package torture

import "time"

// startsAreClaimed: what runs was claimed so, and each claim is run once at most.
func startsAreClaimed(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for fence, runs := range x.runs {
		samples += len(runs)
		if len(runs) > 1 {
			wrong(runs[0].ID, "the claim with fence %d was run %d times", fence, len(runs))
		}
		c := x.claims[fence]
		for _, r := range runs {
			switch {
			case c == nil:
				wrong(r.ID, "fence %d was never claimed", fence)
			case c.ID != r.ID || *c.Revision != r.Revision || *c.Attempt != r.Attempt || c.Type != r.Type:
				wrong(r.ID, "run as %s revision %d attempt %d, claimed as %s revision %d attempt %d", r.Type,
					r.Revision, r.Attempt, c.Type, *c.Revision, *c.Attempt)
			}
		}
	}
	return samples
}

// noneStartsEarly: not before its attempt is due, nor before the time that was asked for.
func noneStartsEarly(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	asked := map[int64]deed{}
	for _, e := range h.Entries {
		for _, d := range e.Deeds {
			if !d.Due.IsZero() && (d.Outcome == "created" || d.Outcome == "rescheduled" || d.Outcome == "rearmed") {
				asked[d.Revision] = d
			}
		}
	}
	for _, r := range h.Runs {
		samples++
		due := asked[r.Revision].Due.Truncate(time.Microsecond) // as a row keeps times
		if c := x.claims[r.Fence]; c != nil {
			due = later(due, c.FirstDue)
			if c.OldNext != nil {
				due = later(due, *c.OldNext)
			}
		}
		if first := earlier(r.At, r.Gate); first.Before(due) {
			wrong(r.ID, "revision %d started at %s (gate %s), due at %s", r.Revision, h.offset(r.At), h.offset(r.Gate),
				h.offset(due))
		}
	}
	return samples
}

// noneStartsExpired: not once its expiration is over.
func noneStartsExpired(h *history, wrong reportFunc) (samples int) {
	for r, c := range h.claimedRuns() {
		if c.Expires == nil {
			continue
		}
		if samples++; !r.Gate.Before(*c.Expires) {
			wrong(r.ID, "revision %d passed the gate at %s, expired at %s", r.Revision, h.offset(r.Gate),
				h.offset(*c.Expires))
		}
	}
	return samples
}

// noneStartsStale: not after an edit, a cancel, a pause or a release of it was certainly committed. The samples are
// the claims that an edit met before their handler was called.
func noneStartsStale(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, a := range h.Audit {
		if a.edits() && a.OldFence != nil && !x.begun(*a.OldFence, a.At) {
			samples++
		}
	}
	for r, c := range h.claimedRuns() {
		for _, a := range x.byID[r.ID] {
			known, sure := x.known[a.TxID]
			if a.Seq > c.Seq && sure && known.Before(r.Gate) && (a.edits() || a.releases() && *a.OldFence == r.Fence) {
				wrong(r.ID, "revision %d fence %d passed the gate at %s, though the row was %s with revision %s by %s",
					r.Revision, r.Fence, h.offset(r.Gate), of(a.Status), of(a.Revision), h.offset(known))
				break
			}
		}
	}
	return samples
}

// noneStartsPaused: not while its queue, its type or everything was certainly paused. The samples are the pauses.
func noneStartsPaused(h *history, wrong reportFunc) (samples int) {
	samples = h.heldPauses()
	for r, c := range h.claimedRuns() {
		for _, p := range h.Pauses {
			if p.covers(c.Queue, c.Type) && p.surely(r.Gate) {
				wrong(r.ID, "passed the gate at %s, its queue %s or type %s is paused since %s", h.offset(r.Gate),
					c.Queue, c.Type, h.offset(p.Held))
			}
		}
	}
	return samples
}

// heldPauses counts the pauses that certainly held for a while.
func (h *history) heldPauses() (n int) {
	for _, p := range h.Pauses {
		if !p.Held.IsZero() {
			n++
		}
	}
	return n
}

// begun says whether the handler of a claim had been called at an instant.
func (x *index) begun(fence int64, at time.Time) bool {
	runs := x.runs[fence]
	return len(runs) > 0 && runs[0].At.Before(at)
}

// surely says whether the pause certainly held at an instant.
func (p pauseEntry) surely(at time.Time) bool {
	return !p.Held.IsZero() && p.Held.Before(at) && (p.Resuming.IsZero() || at.Before(p.Resuming))
}

// handlersAreCalledAtOnce: within the time that the gate's answer is good for, not counting when the
// process stood still.
func handlersAreCalledAtOnce(h *history, wrong reportFunc) (samples int) {
	for _, r := range h.Runs {
		samples++
		if took := r.At.Sub(r.Gate); took > callWithin+unseenStall {
			if stood := h.stood(r.PID, r.Gate, r.At); took-stood > callWithin+unseenStall {
				wrong(r.ID, "called in process %d %s after its gate at %s, of which the process stood still %s", r.PID,
					took, h.offset(r.Gate), stood)
			}
		}
	}
	return samples
}

// cancelsReachHandlers: the context of a handler whose task is cancelled ends soon. Handlers that ended meanwhile are
// no samples, nor are those whose node, or Postgres, was disturbed about then.
func cancelsReachHandlers(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, r := range h.Runs {
		for _, a := range x.byID[r.ID] {
			known, sure := x.known[a.TxID]
			if !sure || !a.becomes("CANCELLED") || a.OldFence == nil || *a.OldFence != r.Fence || r.Deaf {
				continue
			}
			reached := r.Latest // at the latest
			if r.End != nil && !r.End.Ended.IsZero() {
				reached = earlier(reached, r.End.Ended)
			}
			from := later(known, r.At)
			took := reached.Sub(from)
			ended := r.End != nil && !r.End.Ended.IsZero()
			watched := earlier(reached, from.Add(cancelledWithin)) // later disturbances excuse nothing
			if took <= 0 || !ended && took <= cancelledWithin || h.disturbed(r.PID, from, watched) {
				continue
			}
			if samples++; took-h.stood(r.PID, from, reached) > cancelledWithin {
				wrong(r.ID, "fence %d was cancelled by %s, and its handler went on until %s", r.Fence, h.offset(known),
					h.offset(reached))
			}
		}
	}
	return samples
}
