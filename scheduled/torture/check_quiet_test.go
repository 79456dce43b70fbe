//go:build unix

package torture

import "time"

// noneStartsQuietly: nothing passes its gate in a process that has said it is quiet, until it is told to go on. What
// had passed before is called within the time that the gate's answer is good for, not counting when the process stood
// still. The samples are the times during which a node was quiet.
func noneStartsQuietly(h *history, wrong reportFunc) (samples int) {
	samples = len(h.Quiets)
	for _, r := range h.Runs {
		for _, q := range h.Quiets {
			if q.PID != r.PID || !q.has(r.At) {
				continue
			}
			late := r.At.Sub(q.From) - h.stood(r.PID, q.From, r.At)
			if r.Gate.After(q.From) || late > callWithin+unseenStall {
				wrong(r.ID, "process %d was quiet since %s, gate at %s, called at %s", r.PID, h.offset(q.From),
					h.offset(r.Gate), h.offset(r.At))
			}
		}
	}
	return samples
}

// has says whether an instant is in a span, which has no end yet where that is zero.
func (s span) has(at time.Time) bool {
	return at.After(s.From) && (s.To.IsZero() || at.Before(s.To))
}

// quietAt counts the nodes that were quiet at an instant.
func (h *history) quietAt(at time.Time) (n int) {
	for _, q := range h.Quiets {
		if q.has(at) {
			n++
		}
	}
	return n
}

// addQuiet notes what a process says of being quiet. It may be told to go on though it is not quiet: thawing it
// is the same signal.
func (h *history) addQuiet(of life, m mark) {
	for i := range h.Quiets {
		if q := &h.Quiets[i]; q.PID == of.PID && q.To.IsZero() {
			if m.Kind == markOn {
				q.To = m.At
			}
			return
		}
	}
	if m.Kind == markQuiet {
		h.Quiets = append(h.Quiets, span{of.PID, m.At, time.Time{}})
	}
}

// endQuiet notes that a process has ended, which nobody told to go on.
func (h *history) endQuiet(of life) {
	if !of.Until.IsZero() {
		h.addQuiet(of, mark{Kind: markOn, At: of.Until})
	}
}

// quietTime is how long nodes were quiet in all, and how many handlers were called elsewhere meanwhile.
func (h *history) quietTime() (long time.Duration, elsewhere int) {
	for _, q := range h.Quiets {
		if q.To.IsZero() {
			q.To = h.Until
		}
		long += q.To.Sub(q.From)
		for _, r := range h.Runs {
			if r.PID != q.PID && q.has(r.At) {
				elsewhere++
			}
		}
	}
	return long, elsewhere
}
