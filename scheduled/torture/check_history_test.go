//go:build unix

package torture

import (
	"strings"
	"time"
)

// historyIsAppendOnly: no line of either history was changed since it was written, nor removed before its time.
func historyIsAppendOnly(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	removed, retired := h.removedLines(), h.retiredTasks()
	changes := map[int64]bool{}
	for _, number := range h.Changes {
		changes[number] = true
	}
	for _, l := range h.Lines {
		samples++
		say := wrong.about(l.TaskID, "line %d of %s ", l.Number, l.History)
		end, by := removed[lineKey{l.History, l.Number}]
		switch {
		case l.Op == "DELETE":
		case l.Op != "INSERT":
			say("had an %s at %s", l.Op, h.offset(l.At))
		case by && !retired[taskTx{l.TaskID, end.TxID}] && end.At.Sub(x.ofLine(l)) < retention-writtenWithin:
			say("was removed at %s", h.offset(end.At))
		case by:
		case l.History == "changes":
			if !changes[l.Number] {
				say("is gone")
			}
		case x.kept[l.Number] == "":
			say("is gone")
		case x.kept[l.Number] != l.Hash:
			say("is another than was written")
		}
	}
	return samples
}

// lineKey names a line of one of the two histories.
type lineKey struct {
	history string
	number  int64
}

// removedLines is when lines were removed.
func (h *history) removedLines() map[lineKey]line {
	removed := map[lineKey]line{}
	for _, l := range h.Lines {
		if l.Op == "DELETE" {
			removed[lineKey{l.History, l.Number}] = l
		}
	}
	return removed
}

// taskTx names a task in a transaction.
type taskTx struct {
	id string
	tx int64
}

// retiredTasks are those that retention removed. Their lines go with them, however young: the time counts from the end
// of the task, and the line of a claim that was lost may be much younger than that. retentionWaits judges these.
func (h *history) retiredTasks() map[taskTx]bool {
	retired := map[taskTx]bool{}
	for _, a := range h.Audit {
		if a.retired() {
			retired[taskTx{a.ID, a.TxID}] = true
		}
	}
	return retired
}

// ofLine is when what a line says happened. Retention counts the age of a line without a task from then on.
func (x *index) ofLine(l line) time.Time {
	if e := x.executions[l.Number]; e != nil && l.History == "executions" {
		return e.FinishedAt
	}
	return l.At
}

// retentionWaits: it removes no task but those that had ended long enough ago, and that nobody holds.
func retentionWaits(h *history, wrong reportFunc) (samples int) {
	for id, changes := range h.in().byID {
		for i, a := range changes {
			if !a.retired() || i == 0 {
				continue
			}
			samples++
			before, ended := changes[i-1], endedAt(changes[:i])
			early := a.At.Sub(ended) < retention-writtenWithin
			if before.Status == nil || !final[*before.Status] || before.Fence != nil || early {
				wrong(id, "it was removed at %s, and was %s since %s, fence %s", h.offset(a.At), of(before.Status),
					h.offset(ended), of(before.Fence))
			}
		}
	}
	return samples
}

// endedAt is when a task came to the status that it has after the last of some changes: a claim may be released later.
func endedAt(changes []*auditRow) time.Time {
	i := len(changes) - 1
	for i > 0 && !changes[i].edits() && of(changes[i].OldStatus) == of(changes[i].Status) {
		i--
	}
	return changes[i].At
}

// claimsHaveLines: each claim that has ended has one line, written in the transaction that ended it; and each line is
// of a claim, or of what expired before it could be claimed.
func claimsHaveLines(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for fence, a := range x.releases {
		samples++
		switch l := x.written[fence]; {
		case l == nil && x.folded[fence]:
		case l == nil:
			wrong(a.ID, "the claim with fence %d ended at %s, and no line says so", fence, h.offset(a.At))
		case l.TxID != a.TxID:
			wrong(a.ID, "the claim with fence %d was ended by transaction %d, its line written by %d", fence, a.TxID,
				l.TxID)
		case l.TaskID != a.ID:
			wrong(a.ID, "the line of fence %d is of %s", fence, l.TaskID)
		}
	}
	for fence, l := range x.written {
		e := x.executions[fence]
		refused := strings.HasPrefix(l.TaskID, refusedPrefix) // it was failed without a claim
		if x.claims[fence] == nil && (e == nil || e.Outcome != "EXPIRED") && !refused {
			wrong(l.TaskID, "line of fence %d, which was never claimed", fence)
		}
		if x.claims[fence] != nil && x.releases[fence] == nil {
			wrong(l.TaskID, "line of fence %d, whose claim has not ended", fence)
		}
	}
	return samples
}

// eventsAreComplete: a client that follows the events gets each line of the history once, although the API and its
// network fail, and transactions commit in another order than they began.
func eventsAreComplete(h *history, wrong reportFunc) (samples int) {
	if h.Events == nil {
		return 0
	}
	for _, l := range h.Lines {
		if l.Op != "INSERT" {
			continue
		}
		samples++
		if got := h.Events[lineKey{l.History, l.Number}]; got != 1 {
			wrong(l.TaskID, "line %d of %s, written at %s, came %d times", l.Number, l.History, h.offset(l.At), got)
		}
	}
	return samples
}

// revisionsHaveLines: each edit and each delete has one line of changes, written in its own transaction.
func revisionsHaveLines(h *history, wrong reportFunc) (samples int) {
	byNumber, deletes := map[int64][]line{}, map[taskTx]int{}
	for _, l := range h.Lines {
		if l.History == "changes" && l.Op == "INSERT" {
			byNumber[l.Number] = append(byNumber[l.Number], l)
			deletes[taskTx{l.TaskID, l.TxID}]++
		}
	}
	for _, a := range h.Audit {
		if !a.edits() || a.retired() {
			continue // retention leaves no line
		}
		samples++
		switch a.Op {
		case "DELETE":
			if deletes[taskTx{a.ID, a.TxID}] == 0 {
				wrong(a.ID, "was deleted at %s, and no line says so", h.offset(a.At))
			}
		default:
			if lines := byNumber[*a.Revision]; len(lines) != 1 || lines[0].TxID != a.TxID || lines[0].TaskID != a.ID {
				wrong(a.ID, "revision %d, drawn at %s, has %d lines of its own", *a.Revision, h.offset(a.At),
					len(lines))
			}
		}
	}
	return samples
}
