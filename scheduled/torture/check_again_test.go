//go:build unix

package torture

// askedAgainRunsAgain: a task that run_now or a schedule asked for during an attempt runs once more. The end of the
// attempt and the edit that queues the task are one transaction. A pause goes on. Only an edit takes the wish away, and
// a run begins after each commit of one, unless an edit or the end of the task comes between. The samples are these
// ends, and the verbs that said so.
func askedAgainRunsAgain(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for id, changes := range x.byID {
		for i, a := range changes {
			if a.Again == nil || !a.releases() {
				continue
			}
			samples++
			want := "QUEUED"
			if *a.OldStatus == "PAUSED" {
				want = "PAUSED"
			}
			if i+1 == len(changes) || changes[i+1].TxID != a.TxID || changes[i+1].Again != nil ||
				!changes[i+1].becomesAnew(want) {
				wrong(id, "it was asked for at %s during fence %d, and was not queued when "+"that ended at %s",
					h.instant(a.Again), *a.OldFence, h.offset(a.At))
			}
		}
	}
	for id, changes := range x.byID {
		for i, a := range changes[1:] {
			if changes[i].Again != nil && a.Again == nil && !a.edits() {
				wrong(id, "it was asked for at %s, and that was forgotten at %s", h.instant(changes[i].Again),
					h.offset(a.At))
			}
		}
	}
	for _, o := range h.Ops {
		e := x.entryOf[o.Op]
		if o.Outcome != "again" || e == nil {
			continue
		}
		if samples++; !x.askedAgain(o, e) {
			wrong(o.TaskID, "op %d came to again, and its row does not show it", o.Op)
		} else if !x.ranAfter(o) {
			wrong(o.TaskID, "op %d came to again, and no run began after it", o.Op)
		}
	}
	return samples
}

// becomesAnew says whether an edit leaves the task with a status.
func (a *auditRow) becomesAnew(status string) bool {
	return a.edits() && a.Status != nil && *a.Status == status
}

// askedAgain says whether the task's row was asked for when a verb said so, by its own transaction or an earlier one.
func (x *index) askedAgain(o *opRow, e *entry) bool {
	changes := x.byID[o.TaskID]
	for i, a := range changes {
		left := i+1 == len(changes) || changes[i+1].TxID == o.TxID || !changes[i+1].At.Before(e.Began)
		if a.Again != nil && (a.TxID == o.TxID || left && (e.Ended.IsZero() || a.At.Before(e.Ended))) {
			return true
		}
	}
	return false
}

// ranAfter says whether a run was claimed after a verb had asked for it, or another edit or the end of the task's time
// came before one.
func (x *index) ranAfter(o *opRow) bool {
	after, ended := false, int64(0) // the transaction that ended the attempt, and queued the task
	for _, a := range x.byID[o.TaskID] {
		if a.releases() {
			ended = a.TxID
		}
		switch {
		case a.TxID == o.TxID:
			after = true
		case after && (a.claims() || a.edits() && a.TxID != ended || a.becomes("EXPIRED")):
			return true
		}
	}
	return !after // who asked second has written nothing
}
