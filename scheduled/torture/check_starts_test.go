//go:build unix

package torture

import (
	"time"
)

// checks are all promises, in the order in which they are told.
var checks = []check{
	{"claimed start", startsAreClaimed},
	{"early start", noneStartsEarly},
	{"late start", noneStartsExpired},
	{"stale start", noneStartsStale},
	{"paused start", noneStartsPaused},
	{"quiet start", noneStartsQuietly},
	{"call after the gate", handlersAreCalledAtOnce},
	{"cancel", cancelsReachHandlers},
	{"overlap", noneRunsTwiceAtOnce},
	{"completed twice", completionsAreSingle},
	{"stale completion", noStaleCompletion},
	{"outcome", outcomesAgreeWithDiaries},
	{"settle", settlesAreQuick},
	{"effects", effectsAreExactlyOnce},
	{"attempts", attemptsAreCounted},
	{"given up", noneIsGivenUpTooSoon},
	{"application row", rowsAgreeWithTasks},
	{"lost", noneIsLost},
	{"follow-up", followUpsAreScheduled},
	{"append-only", historyIsAppendOnly},
	{"execution line", claimsHaveLines},
	{"change line", revisionsHaveLines},
	{"leadership", leadersClaim},
	{"lease", leasesAreAsLong},
	{"claimed expired", noneIsClaimedExpired},
	{"claimed paused", noneIsClaimedPaused},
	{"priority", higherPriorityFirst},
	{"fires", firesAreSingle},
	{"steady fires", steadyFiresAreComplete},
	{"fork", forksAdvance},
	{"skipped", skipsHaveReasons},
	{"gap", claimingGoesOn},
	{"residue", nothingIsLeft},
	{"failover", failoverIsQuick},
	{"recovery", recoveryIsQuick},
}

// startsAreClaimed: what runs was claimed so, and each claim is run once at most.
func startsAreClaimed(h *history) (wrong []violation) {
	x := h.in()
	for fence, runs := range x.runs {
		if len(runs) > 1 {
			wrong = append(wrong, broken("claimed start", runs[0].ID, "the claim with fence %d was run %d times", fence, len(runs)))
		}
		c := x.claims[fence]
		for _, r := range runs {
			switch {
			case c == nil:
				wrong = append(wrong, broken("claimed start", r.ID, "fence %d was never claimed", fence))
			case c.ID != r.ID || *c.Revision != r.Revision || *c.Attempt != r.Attempt || c.Type != r.Type:
				wrong = append(wrong, broken("claimed start", r.ID, "run as %s revision %d attempt %d, claimed as %s revision %d attempt %d",
					r.Type, r.Revision, r.Attempt, c.Type, *c.Revision, *c.Attempt))
			}
		}
	}
	return wrong
}

// noneStartsEarly: not before its attempt is due, nor before the time that was asked for.
func noneStartsEarly(h *history) (wrong []violation) {
	x := h.in()
	asked := map[int64]deed{}
	for _, e := range h.Entries {
		for _, d := range e.Deeds {
			if !d.Due.IsZero() && (d.Outcome == "created" || d.Outcome == "rescheduled" || d.Outcome == "rearmed") {
				asked[d.Revision] = d
			}
		}
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		due := asked[r.Revision].Due
		if c := x.claims[r.Fence]; c != nil {
			due = later(due, c.FirstDue)
			if c.OldNext != nil {
				due = later(due, *c.OldNext)
			}
		}
		if first := earlier(r.At, r.Gate); first.Before(due) {
			wrong = append(wrong, broken("early start", r.ID, "revision %d started at %s (gate %s), due at %s", r.Revision,
				h.offset(r.At), h.offset(r.Gate), h.offset(due)))
		}
	}
	return wrong
}

// noneStartsExpired: not once its expiration is over.
func noneStartsExpired(h *history) (wrong []violation) {
	x := h.in()
	for i := range h.Runs {
		r := &h.Runs[i]
		if c := x.claims[r.Fence]; c != nil && c.Expires != nil && !r.Gate.Before(*c.Expires) {
			wrong = append(wrong, broken("late start", r.ID, "revision %d passed the gate at %s, expired at %s", r.Revision,
				h.offset(r.Gate), h.offset(*c.Expires)))
		}
	}
	return wrong
}

// noneStartsStale: not after an edit, a cancel, a pause or a release of it was certainly committed.
func noneStartsStale(h *history) (wrong []violation) {
	x := h.in()
	for i := range h.Runs {
		r := &h.Runs[i]
		c := x.claims[r.Fence]
		if c == nil {
			continue
		}
		for _, a := range x.byID[r.ID] {
			known, sure := x.known[a.TxID]
			if a.Seq > c.Seq && sure && known.Before(r.Gate) && (a.edits() || a.releases() && *a.OldFence == r.Fence) {
				wrong = append(wrong, broken("stale start", r.ID,
					"revision %d fence %d passed the gate at %s, though the row was %s with revision %s by %s",
					r.Revision, r.Fence, h.offset(r.Gate), of(a.Status), of(a.Revision), h.offset(known)))
				break
			}
		}
	}
	return wrong
}

// noneStartsPaused: not while its queue, its type or everything was certainly paused.
func noneStartsPaused(h *history) (wrong []violation) {
	x := h.in()
	for i := range h.Runs {
		r := &h.Runs[i]
		c := x.claims[r.Fence]
		if c == nil {
			continue
		}
		for _, p := range h.Pauses {
			if p.covers(c.Queue, c.Type) && p.surely(r.Gate) {
				wrong = append(wrong, broken("paused start", r.ID, "passed the gate at %s, its queue %s or type %s is paused since %s",
					h.offset(r.Gate), c.Queue, c.Type, h.offset(p.Held)))
			}
		}
	}
	return wrong
}

// surely says whether the pause certainly held at an instant.
func (p pauseEntry) surely(at time.Time) bool {
	return !p.Held.IsZero() && p.Held.Before(at) && (p.Resuming.IsZero() || at.Before(p.Resuming))
}

// handlersAreCalledAtOnce: within the time that the gate's answer is good for, not counting when the process stood still.
func handlersAreCalledAtOnce(h *history) (wrong []violation) {
	for i := range h.Runs {
		r := &h.Runs[i]
		if took := r.At.Sub(r.Gate); took > callWithin+unseenStall {
			if stood := h.stood(r.PID, r.Gate, r.At); took-stood > callWithin+unseenStall {
				wrong = append(wrong, broken("call after the gate", r.ID,
					"called in process %d %s after its gate at %s, of which the process stood still %s", r.PID, took, h.offset(r.Gate), stood))
			}
		}
	}
	return wrong
}

// cancelsReachHandlers: the context of a handler whose task is cancelled ends soon, unless something was done to the nodes or
// to Postgres about then.
func cancelsReachHandlers(h *history) (wrong []violation) {
	x := h.in()
	for i := range h.Runs {
		r := &h.Runs[i]
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
			if took > cancelledWithin && !h.struckAbout(from, reached) && took-h.stood(r.PID, from, reached) > cancelledWithin {
				wrong = append(wrong, broken("cancel", r.ID, "fence %d was cancelled by %s, and its handler went on until %s", r.Fence,
					h.offset(known), h.offset(reached)))
			}
		}
	}
	return wrong
}
