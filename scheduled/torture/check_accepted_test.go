//go:build unix

package torture

import (
	"fmt"
	"strings"
)

// Outcomes of verbs that wrote to the task.
var wrote = map[string]bool{"created": true, "rescheduled": true, "rearmed": true, "cancelled": true, "paused": true,
	"queued": true, "deleted": true}

// rowsAgreeWithTasks: the application's row of a deed is there if and only if the deed was done to the task, and both
// if and only if the writer's transaction was committed.
func rowsAgreeWithTasks(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for _, e := range h.Entries {
		samples++
		rows := len(x.opsOf[e.Op])
		switch {
		case e.Answer == acknowledged && rows != len(e.Deeds):
			wrong(e.about(), "op %d of %s, %d deeds, was acknowledged at %s and left %d rows", e.Op, e.Writer,
				len(e.Deeds), h.offset(e.Ended), rows)
		case e.Answer == refused && rows != 0:
			wrong(e.about(), "op %d of %s was not committed and left %d rows", e.Op, e.Writer, rows)
		case e.Answer == unknown && rows != 0 && rows != len(e.Deeds):
			wrong(e.about(), "op %d of %s, %d deeds, left %d rows", e.Op, e.Writer, len(e.Deeds), rows)
		}
	}
	done := map[taskTx][]*auditRow{}
	for _, a := range h.Audit {
		done[taskTx{a.ID, a.TxID}] = append(done[taskTx{a.ID, a.TxID}], a)
		if a.Parent != nil && a.Op == "INSERT" {
			done[taskTx{*a.Parent, a.TxID}] = append(done[taskTx{*a.Parent, a.TxID}], a)
		}
	}
	rows := map[taskTx]bool{}
	for _, o := range h.Ops {
		rows[taskTx{o.TaskID, o.TxID}] = true
		if wrote[o.Outcome] && !didSo(done[taskTx{o.TaskID, o.TxID}], o) {
			wrong(o.TaskID, "op %d: %s came to %s with revision %d, and the task shows nothing of it", o.Op, o.Verb,
				o.Outcome, o.Revision)
		}
	}
	for _, a := range h.Audit {
		if a.edits() && a.Parent == nil && strings.HasPrefix(a.App, "writer-") &&
			!rows[taskTx{a.ID, a.TxID}] {
			wrong(a.ID, "revision %s was drawn by %s without a row of its own", of(a.Revision), a.App)
		}
	}
	return samples
}

// didSo says whether one of the changes is what the verb says it did. run_now of a recurring task makes an
// occurrence of it.
func didSo(changes []*auditRow, o *opRow) bool {
	for _, a := range changes {
		switch {
		case o.Outcome == "deleted":
			if a.Op == "DELETE" {
				return true
			}
		case a.ID != o.TaskID:
			if o.Verb == "run_now" {
				return true
			}
		case a.Revision != nil && *a.Revision == o.Revision && (a.edits() || a.turns() || a.pausesClaim()):
			return true
		}
	}
	return false
}

// Statuses that are the end of a task.
var final = map[string]bool{"COMPLETED": true, "FAILED": true, "EXPIRED": true, "CANCELLED": true, "SKIPPED": true}

// noneIsLost: what was accepted has come to an end that its history explains, or waits for what is not there:
// its time, or a node.
func noneIsLost(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	rows := map[string]taskRow{}
	for _, row := range h.Tasks {
		rows[row.ID] = row
		if x.byID[row.ID] == nil {
			wrong(row.ID, "it is there and nobody made it")
		}
	}
	for id, changes := range x.byID {
		samples++
		last := changes[len(changes)-1]
		row, there := rows[id]
		switch {
		case last.Op == "DELETE":
			if there {
				wrong(id, "it was deleted and is there")
			}
			continue
		case !there || row.Status != *last.Status || row.Revision != *last.Revision:
			wrong(id, "it is %s with revision %d, and was %s with revision %d last", row.Status, row.Revision,
				*last.Status, *last.Revision)
			continue
		}
		if why := h.unfinished(last); why != "" {
			wrong(id, "%s", why)
		}
	}
	return samples
}

// unfinished says what is wrong with how a task is left, or "".
func (h *history) unfinished(last *auditRow) string {
	x := h.in()
	status := *last.Status
	switch {
	case !final[status]:
		if h.Unserved[last.Type] && last.Fence == nil || last.FirstDue.After(h.Until) && status == "QUEUED" {
			return ""
		}
		return fmt.Sprintf("it is left %s, due at %s, fence %s", status, h.offset(last.FirstDue), of(last.Fence))
	case status == "COMPLETED" && !last.Recurs:
		for _, a := range x.byID[last.ID] {
			if e := x.releasedAs(a); e != nil && e.Outcome == "COMPLETED" && e.Revision == *last.Revision {
				return ""
			}
		}
		return fmt.Sprintf("revision %d is COMPLETED, and no execution completed it", *last.Revision)
	case status == "CANCELLED":
		for _, a := range x.byID[last.ID] {
			if a.becomes("CANCELLED") && *a.Revision == *last.Revision &&
				(strings.HasPrefix(a.App, "writer-") || a.Parent != nil) {
				return ""
			}
		}
		return "it is CANCELLED, and nobody cancelled it"
	}
	return ""
}

// releasedAs is the execution that a change ended, or nil.
func (x *index) releasedAs(a *auditRow) *execution {
	if !a.releases() {
		return nil
	}
	return x.executions[*a.OldFence]
}
