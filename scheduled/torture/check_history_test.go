//go:build unix

package torture

import "fmt"

// historyIsAppendOnly: no line of either history was changed or removed since it was written.
func historyIsAppendOnly(h *history) (wrong []violation) {
	x := h.in()
	changes := map[int64]bool{}
	for _, number := range h.Changes {
		changes[number] = true
	}
	for _, l := range h.Lines {
		say := func(format string, args ...any) {
			wrong = append(wrong, broken("append-only", l.TaskID, "line %d of %s %s", l.Number, l.History, fmt.Sprintf(format, args...)))
		}
		switch {
		case l.Op != "INSERT":
			say("had an %s at %s", l.Op, h.offset(l.At))
		case l.History == "changes":
			if !changes[l.Number] {
				say("is gone")
			}
		case x.executions[l.Number] == nil:
			say("is gone")
		case x.executions[l.Number].Hash != l.Hash:
			say("is another than was written")
		}
	}
	return wrong
}

// claimsHaveLines: each claim that has ended has one line, written in the transaction that ended it; and each line is of a
// claim, or of what expired before it could be claimed.
func claimsHaveLines(h *history) (wrong []violation) {
	x := h.in()
	say := func(id, format string, args ...any) {
		wrong = append(wrong, broken("execution line", id, format, args...))
	}
	for fence, a := range x.releases {
		switch l := x.written[fence]; {
		case l == nil:
			say(a.ID, "the claim with fence %d ended at %s, and no line says so", fence, h.offset(a.At))
		case l.TxID != a.TxID:
			say(a.ID, "the claim with fence %d was ended by transaction %d, its line written by %d", fence, a.TxID, l.TxID)
		case l.TaskID != a.ID:
			say(a.ID, "the line of fence %d is of %s", fence, l.TaskID)
		}
	}
	for fence, l := range x.written {
		e := x.executions[fence]
		if x.claims[fence] == nil && (e == nil || e.Outcome != "EXPIRED") {
			say(l.TaskID, "line of fence %d, which was never claimed", fence)
		}
		if x.claims[fence] != nil && x.releases[fence] == nil {
			say(l.TaskID, "line of fence %d, whose claim has not ended", fence)
		}
	}
	return wrong
}

// revisionsHaveLines: each edit and each delete has one line of changes, written in its own transaction.
func revisionsHaveLines(h *history) (wrong []violation) {
	byNumber, deletes := map[int64][]line{}, map[string]int{}
	for _, l := range h.Lines {
		if l.History == "changes" && l.Op == "INSERT" {
			byNumber[l.Number] = append(byNumber[l.Number], l)
			deletes[fmt.Sprint(l.TaskID, " ", l.TxID)]++
		}
	}
	for i := range h.Audit {
		a := &h.Audit[i]
		switch {
		case !a.edits():
		case a.Op == "DELETE":
			if deletes[fmt.Sprint(a.ID, " ", a.TxID)] == 0 {
				wrong = append(wrong, broken("change line", a.ID, "was deleted at %s, and no line says so", h.offset(a.At)))
			}
		default:
			if lines := byNumber[*a.Revision]; len(lines) != 1 || lines[0].TxID != a.TxID || lines[0].TaskID != a.ID {
				wrong = append(wrong, broken("change line", a.ID, "revision %d, drawn at %s, has %d lines of its own", *a.Revision,
					h.offset(a.At), len(lines)))
			}
		}
	}
	return wrong
}
