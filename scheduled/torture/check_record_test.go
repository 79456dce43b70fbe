//go:build unix

package torture

import (
	"strings"
	"time"
)

// linesAreTrue: each line of executions has its claim's type and attempt and the time that was asked for, the
// handler's start, end and error, and the node that called it.
func linesAreTrue(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, e := range h.Executions {
		c := x.claims[e.Fence]
		if c == nil {
			continue // expired before it could be claimed
		}
		samples++
		say := wrong.about(e.TaskID, "fence %d, %s: ", e.Fence, e.Outcome)
		// Who takes back the claim of an edited task has the row as it is now, and knows no more of the
		// claim than its fence.
		edited := e.Outcome == "LOST" && e.Revision > *c.Revision
		if e.Type != c.Type || !edited && (e.Attempt != *c.Attempt || e.Revision != *c.Revision) {
			say("%s revision %d attempt %d, claimed as %s revision %d attempt %d", e.Type, e.Revision, e.Attempt,
				c.Type, *c.Revision, *c.Attempt)
		}
		if l := x.written[e.Fence]; l != nil && e.FinishedAt.After(l.At) {
			say("finished at %s, and was written at %s", h.offset(e.FinishedAt), h.offset(l.At))
		}
		if runs := x.runs[e.Fence]; len(runs) == 1 {
			h.compareRun(e, c, runs[0], say)
		} else if len(runs) == 0 && e.StartedAt != nil && e.Outcome != "LOST" {
			say("started at %s, and its handler was never called", h.offset(*e.StartedAt))
		}
	}
	return samples
}

// compareRun compares a line with the call of its handler. A LOST line has a start and a node only if they are known.
func (h *history) compareRun(e *execution, c *auditRow, r *run, say func(format string, args ...any)) {
	lost := e.Outcome == "LOST"
	switch {
	case e.StartedAt == nil && !lost:
		say("has no start, and its handler was called at %s", h.offset(r.At))
	case e.StartedAt != nil && !e.StartedAt.Equal(r.Gate.Truncate(time.Microsecond)):
		say("started at %s, and its handler was told %s", h.offset(*e.StartedAt), h.offset(r.Gate))
	}
	if lost {
		return
	}
	if since := h.in().claimableSince(c); e.DueAt != nil && (e.DueAt.Before(c.FirstDue) || e.DueAt.After(since)) {
		say("was due at %s, asked for at %s and claimable since %s", h.offset(*e.DueAt), h.offset(c.FirstDue),
			h.offset(since))
	}
	if !e.ScheduledAt.Equal(c.Asked) {
		say("scheduled at %s, claimed as scheduled at %s", h.offset(e.ScheduledAt), h.offset(c.Asked))
	}
	if r.End != nil && e.FinishedAt.Before(r.End.At.Truncate(time.Microsecond)) {
		say("finished at %s, and its handler ended at %s", h.offset(e.FinishedAt), h.offset(r.End.At))
	}
	if pid, known := h.in().nodes[*orZero(e.Node)]; known && pid != r.PID {
		say("was called in process %d, and the line's node %d is process %d", r.PID, *e.Node, pid)
	}
	asked := r.asked(func(m mark) bool { return m.Error != "" })
	if asked != nil && (e.Outcome == "RETRIED" || e.Outcome == "FAILED") {
		if e.Error == nil || !strings.Contains(*e.Error, asked.Error) {
			say("its handler returned %q, and it says %q", asked.Error, of(e.Error))
		}
	}
}

// claimableSince is the time from which on a task could be claimed first, as it was written before the leader put it
// behind others of its lane.
func (x *index) claimableSince(c *auditRow) (since time.Time) {
	tx := int64(0)
	for _, a := range x.byID[c.ID] {
		switch {
		case a.Seq >= c.Seq:
			return since
		case a.Next == nil:
			tx = 0
		case tx == 0 || a.edits() || a.TxID == tx: // a transaction may write it twice
			since, tx = *a.Next, a.TxID
		}
	}
	return since
}

// orZero is the pointer, or one to zero.
func orZero(value *int64) *int64 {
	if value == nil {
		return new(int64)
	}
	return value
}

// asked is what the handler asked for last that is of a kind, or nil.
func (r *run) asked(is func(m mark) bool) (found *mark) {
	for i := range r.Asks {
		if is(r.Asks[i]) {
			found = &r.Asks[i]
		}
	}
	return found
}

// resultsAreKept: a completed attempt's note and result are on the row.
func resultsAreKept(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for fence, a := range x.releases {
		e, runs := x.executions[fence], x.runs[fence]
		if e == nil || e.Outcome != "COMPLETED" || a.Op == "DELETE" || len(runs) != 1 {
			continue
		}
		asked := runs[0].asked(func(m mark) bool { return m.Note != "" })
		if asked == nil {
			continue
		}
		samples++
		if a.Message == nil || *a.Message != asked.Note {
			wrong(a.ID, "fence %d noted %q, and the row says %q", fence, asked.Note, of(a.Message))
		}
		if a.Told == nil || *a.Told != asked.Note {
			wrong(a.ID, "the result of fence %d was %q, and the row has %q", fence, asked.Note, of(a.Told))
		}
	}
	return samples
}
