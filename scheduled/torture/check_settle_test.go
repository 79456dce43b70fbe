//go:build unix

package torture

import (
	"strings"
	"time"
)

// completionsAreSingle: at most one settled completion per revision, in the history and on the row.
func completionsAreSingle(h *history, wrong reportFunc) (samples int) {
	type key struct {
		id       string
		revision int64
	}
	lines, rows := map[key]int{}, map[key]int{}
	for _, e := range h.Executions {
		if e.Outcome == "COMPLETED" {
			lines[key{e.TaskID, e.Revision}]++
		}
	}
	for _, a := range h.Audit {
		if a.becomes("COMPLETED") && !a.Recurs {
			rows[key{a.ID, *a.Revision}]++
		}
	}
	samples = len(lines)
	for k, n := range lines {
		if n > 1 {
			wrong(k.id, "revision %d has %d lines of completions", k.revision, n)
		}
	}
	for k, n := range rows {
		if n > 1 {
			wrong(k.id, "revision %d became COMPLETED %d times", k.revision, n)
		}
	}
	return samples
}

// noStaleCompletion: a claim ends a task only if the row is still the claim's; else the row is only released.
func noStaleCompletion(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for fence, a := range x.releases {
		samples++
		c := x.claims[fence]
		if c == nil || a.Op == "DELETE" {
			wrong(a.ID, "fence %d was released by %s, and claimed: %v", fence, a.Op, c != nil)
			continue
		}
		current := a.wasCurrent(c)
		e := x.executions[fence]
		if !current && (*a.Status != *a.OldStatus || *a.Revision != *a.OldRevision) {
			wrong(a.ID, "the claim of revision %d, fence %d, made revision %d %s→%s", *c.Revision, fence,
				*a.OldRevision, *a.OldStatus, *a.Status)
		}
		if e != nil && e.Outcome == "COMPLETED" && (!current || e.Revision != *c.Revision) {
			wrong(a.ID, "fence %d was recorded as COMPLETED for revision %d, when the row was %s with revision %d",
				fence, e.Revision, *a.OldStatus, *a.OldRevision)
		}
		if e != nil && e.Outcome == "SUPERSEDED" && current {
			wrong(a.ID, "fence %d was recorded as SUPERSEDED, and nothing had superseded revision %d", fence,
				*c.Revision)
		}
	}
	for _, a := range h.Audit {
		if a.becomes("COMPLETED") && !a.Recurs && !a.releases() {
			wrong(a.ID, "it became COMPLETED without a claim")
		}
	}
	return samples
}

// Outcomes of claims that never came to call their handler.
var neverStarted = map[string]bool{"RELEASED": true, "EXPIRED": true, "CANCELLED": true}

// outcomesAgreeWithJournals: what is recorded of a claim is what its handler did.
func outcomesAgreeWithJournals(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, e := range h.Executions {
		runs := x.runs[e.Fence]
		samples++
		say := wrong.about(e.TaskID, "fence %d, %s: ", e.Fence, e.Outcome)
		switch {
		case neverStarted[e.Outcome]:
			if len(runs) > 0 {
				say("but its handler was called")
			}
			continue
		case e.Outcome == "LOST" || x.claims[e.Fence] == nil:
			continue // whether it began, and what it came to, nobody knows; or it was failed before it was claimed
		case len(runs) == 0:
			say("but its handler was not called")
			continue
		case runs[0].End == nil:
			say("but its handler did not end")
			continue
		}
		end := runs[0].End
		if at := x.written[e.Fence]; at != nil && at.At.Before(end.At) {
			say("was written at %s, before its handler ended at %s", h.offset(at.At), h.offset(end.At))
		}
		switch ok := end.How == "ok"; {
		case e.Outcome == "COMPLETED" && !ok:
			say("but its handler ended with %s", end.How)
		case (e.Outcome == "RETRIED" || e.Outcome == "FAILED" || e.Outcome == "SNOOZED") && ok &&
			!transactional(e.Type):
			say("but its handler returned nil")
		}
	}
	return samples
}

// effectsAreExactlyOnce: a transactional handler's writes are there if and only if its completion is, and in the same
// transaction; also that of one that was superseded.
func effectsAreExactlyOnce(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	byFence := map[int64][]effect{}
	for _, e := range h.Effects {
		byFence[e.Fence] = append(byFence[e.Fence], e)
	}
	for _, e := range h.Executions {
		if !transactional(e.Type) {
			continue
		}
		samples++
		want := 0
		if e.Outcome == "COMPLETED" || e.Outcome == "SUPERSEDED" && e.Error == nil {
			want = 1
		}
		got := byFence[e.Fence]
		delete(byFence, e.Fence)
		if len(got) != want {
			wrong(e.TaskID, "fence %d, %s, has %d effects, want %d", e.Fence, e.Outcome, len(got), want)
			continue
		}
		if line := x.written[e.Fence]; want == 1 && line != nil && line.TxID != got[0].TxID {
			wrong(e.TaskID, "fence %d: the effect is of transaction %d, its %s of %d", e.Fence, got[0].TxID, e.Outcome,
				line.TxID)
		}
	}
	for fence, left := range byFence {
		wrong(left[0].TaskID, "fence %d has %d effects and no execution", fence, len(left))
	}
	return samples
}

// settlesAreQuick: the outcome of a handler is recorded at once, whatever locks others have on other tasks. No
// samples are those whose own row a writer may have locked, those whose node, or Postgres, was disturbed about then,
// and those of the beginning.
func settlesAreQuick(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	limit := settledWithin + h.slack()
	for _, e := range h.Executions {
		line, runs := x.written[e.Fence], x.runs[e.Fence]
		if line == nil || len(runs) != 1 || runs[0].End == nil || transactional(e.Type) || e.Outcome == "LOST" {
			continue
		}
		ended := runs[0].End.At
		if ended.Sub(h.Began) < beginningFor {
			continue
		}
		took := line.At.Sub(ended)
		watched := earlier(line.At, ended.Add(settledWithin)) // later disturbances excuse nothing
		if h.lockedByWriter(e.TaskID, ended, line.At) || h.disturbed(runs[0].PID, ended, watched) {
			continue
		}
		samples++
		if took <= limit {
			continue
		}
		if stood := h.stood(runs[0].PID, ended, line.At); took-stood > limit {
			wrong(e.TaskID, "fence %d ended at %s, and was recorded %s later", e.Fence, h.offset(ended), short(took))
		}
	}
	return samples
}

// lockedByWriter says whether a writer may have had the task's row locked.
func (h *history) lockedByWriter(id string, from, to time.Time) bool {
	for _, e := range h.in().entriesOf(h, id) {
		if e.mayLock(from, to) {
			return true
		}
	}
	return strings.HasSuffix(id, childSuffix)
}

// disturbed says whether a fault struck a process, its network or Postgres within an interval or shortly before it.
// Which process a terminated backend belonged to is not known.
func (h *history) disturbed(pid int, from, to time.Time) bool {
	slot := ""
	for _, p := range h.Processes {
		if p.PID == pid {
			slot = p.Slot
		}
	}
	for _, f := range h.Faults {
		concerns := f.PID == pid || f.Target == slot || f.Target == "postgres" || f.Target == "a backend"
		if concerns && f.From.Before(to) && (f.To.IsZero() || f.To.Add(recoveryLimit).After(from)) {
			return true
		}
	}
	return false
}
