//go:build unix

package torture

import (
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// waitsAreKept: a failed or snoozed attempt is followed by the next one after the time that was asked for, counted
// from when the outcome was recorded; and Again moves the task to the instant that it names.
func waitsAreKept(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for fence, a := range x.releases {
		e, runs := x.executions[fence], x.runs[fence]
		if e == nil || a.Op == "DELETE" || len(runs) != 1 || runs[0].End == nil {
			continue
		}
		if *a.OldStatus != "EXECUTING" || *a.Status != "QUEUED" {
			continue
		}
		say := wrong.about(a.ID, "fence %d, %s: ", fence, e.Outcome)
		switch again := runs[0].asked(func(m mark) bool { return !m.Again.IsZero() }); {
		case e.Outcome == "SNOOZED" && e.Type == hookType: // circuitsPutOff judges it
		case e.Outcome == "RETRIED" || e.Outcome == "SNOOZED":
			samples++
			wait := retryDelay
			if asked := runs[0].asked(func(m mark) bool { return m.Wait > 0 }); asked != nil {
				wait = asked.Wait
			}
			least, most := runs[0].End.At.Truncate(time.Microsecond).Add(wait), a.At.Add(wait)
			if e.Outcome == "SNOOZED" { // again and again at once it is slowed down, as what runs again is
				most = a.At.Add(max(wait, time.Second))
			}
			if a.Next == nil || a.Next.Before(least) || a.Next.After(most) {
				say("is due again at %s, want %s to %s", h.instant(a.Next), h.offset(least), h.offset(most))
			}
		case e.Outcome == "COMPLETED" && again != nil:
			samples++
			// A task that runs again and again at once is slowed down.
			if want := again.Again.Truncate(time.Microsecond); a.Asked.Before(want) ||
				a.Asked.After(want.Add(time.Second)) {
				say("runs again at %s, want %s", h.offset(a.Asked), h.offset(want))
			}
		}
	}
	return samples
}

// extensionsHold: a lease that a handler has extended lasts as long as was granted, and its context does not end
// before.
func extensionsHold(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, r := range h.Runs {
		for _, m := range r.Asks {
			if m.Longer == 0 {
				continue
			}
			samples++
			until := m.Called.Add(m.Longer)
			held := x.heldUntil(r.Fence, m.At)
			if held == nil || held.Before(until) {
				wrong(r.ID, "fence %d was granted a lease until %s, and is held until %s", r.Fence, h.offset(until),
					h.instant(held))
			}
			if r.End != nil && r.End.Cause == handlers.ErrDeadline.Error() && r.End.contextEnd().Before(until) {
				wrong(r.ID, "fence %d was granted a lease until %s, and its context ended at %s", r.Fence,
					h.offset(until), h.offset(r.End.contextEnd()))
			}
		}
	}
	return samples
}

// heldUntil is until when a claim was held at an instant, or nil.
func (x *index) heldUntil(fence int64, at time.Time) (held *time.Time) {
	c := x.claims[fence]
	if c == nil {
		return nil
	}
	for _, a := range x.byID[c.ID] {
		if a.Fence != nil && *a.Fence == fence && !a.At.After(at) {
			held = a.Held
		}
	}
	return held
}

// pausesEnd: a task that is paused until a time is queued then, not before, unless a writer changes it first.
func pausesEnd(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for id, changes := range x.byID {
		for i, a := range changes {
			if !pausedAnew(changes, i) {
				continue
			}
			next := pauseEnd(changes, i)
			if next != nil && !next.edits() && !next.turns() {
				continue // its attempt had begun, and ended it
			}
			from, ended := later(a.At, *a.Until), h.Until
			if next != nil {
				ended = next.At
			}
			if next != nil && next.byWriter() && ended.Before(from.Add(resumedWithin)) {
				continue
			}
			samples++
			if ended.Before(*a.Until) {
				wrong(id, "revision %d was paused until %s, and resumed at %s", *a.Revision, h.offset(*a.Until),
					h.offset(ended))
			}
			since := h.explained(from, ended)
			if ended.Sub(since) > resumedWithin && !h.lockedByWriter(id, ended.Add(-resumedWithin), ended) {
				wrong(id, "revision %d was paused until %s, and was so still at %s", *a.Revision, h.offset(*a.Until),
					h.offset(ended))
			}
		}
	}
	return samples
}

// pausedAnew says whether a change pauses a task until a time that it was not yet paused until.
func pausedAnew(changes []*auditRow, i int) bool {
	a := changes[i]
	if a.Op == "DELETE" || *a.Status != "PAUSED" || a.Until == nil {
		return false
	}
	return i == 0 || changes[i-1].Until == nil || !a.Until.Equal(*changes[i-1].Until)
}

// pauseEnd is the first change after number i that does not leave the task paused until the same time, or nil. A later
// pause may have no end. A handler that asks for another run while its task is paused draws a revision, and so does a
// writer that reschedules it.
func pauseEnd(changes []*auditRow, i int) *auditRow {
	until := changes[i].Until
	for _, a := range changes[i+1:] {
		if a.edits() && a.Op != "DELETE" && *a.Status == "PAUSED" && a.Until != nil && a.Until.Equal(*until) {
			continue
		}
		pausedAnew := a.Op != "DELETE" && *a.Status == "PAUSED" && (a.Until == nil || !a.Until.Equal(*until))
		if a.edits() || a.turns() || final[*a.Status] || pausedAnew {
			return a
		}
	}
	return nil
}

// byWriter says whether a writer made a change.
func (a *auditRow) byWriter() bool { return strings.HasPrefix(a.App, "writer-") }
