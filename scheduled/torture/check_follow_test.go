//go:build unix

package torture

import "fmt"

// followUpsAreScheduled: what an attempt asked for is scheduled in the transaction that records its outcome, with the
// payload that the handler gave it, if the attempt is one whose follow-ups count. Of any other attempt nothing is
// scheduled. The samples are the follow-ups that handlers asked for.
func followUpsAreScheduled(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for fence, a := range x.releases {
		runs, e := x.runs[fence], x.executions[fence]
		if len(runs) != 1 || e == nil || a.Op == "DELETE" {
			continue
		}
		for _, m := range runs[0].Asks {
			if m.Child == "" {
				continue
			}
			samples++
			if what := x.misfollowed(m, a, e); what != "" {
				wrong(a.ID, "fence %d is %s, and its follow-up %s %s", fence, e.Outcome, m.Child, what)
			}
		}
	}
	return samples
}

// counts says whether a follow-up of an attempt is to be scheduled. What was cancelled or lost has none, unless the
// handler's own writes are committed with it. What was edited has.
func (m mark) counts(a *auditRow, e *execution) bool {
	switch {
	case m.IfDead:
		return e.Outcome == "FAILED"
	case e.Outcome == "SUPERSEDED":
		return e.Error == nil && (*a.OldStatus != "CANCELLED" || transactional(e.Type))
	}
	return e.Outcome == "COMPLETED"
}

// misfollowed says what is wrong with a follow-up, or "". The one whose id each attempt has may be there already, and
// may have ended.
func (x *index) misfollowed(m mark, a *auditRow, e *execution) string {
	child := x.byID[m.Child]
	shared := m.Child == a.ID+childSuffix
	made := 0
	for _, c := range child {
		if c.TxID != a.TxID || !c.edits() {
			continue
		}
		if made++; c.Nonce != e.Revision {
			return "has another payload than it was given"
		}
	}
	switch want := m.counts(a, e); {
	case !want && (made > 0 || !shared && len(child) > 0):
		return "was scheduled"
	case want && shared && (len(child) == 0 || made == 0 && child[0].Seq > a.Seq):
		return "was not scheduled with it"
	case want && !shared && (made != 1 || child[0].TxID != a.TxID):
		return fmt.Sprintf("was scheduled with it %d times", made)
	}
	return ""
}

// deathsAreFollowed: each death of a task that has another one in its IfDead schedules that in its own transaction,
// once, unless it waits or runs already as it was asked for. Nothing else schedules it. The samples are the deaths.
func deathsAreFollowed(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for id, changes := range x.byID {
		died := map[int64]*auditRow{} // by transaction
		for _, a := range changes {
			if !a.dies() || a.IfDead == nil {
				continue
			}
			samples++
			died[a.TxID] = a
			if what := x.misled(x.byID[id+deadSuffix], a); what != "" {
				wrong(id, "it is %s since %s, and the task of its IfDead %s", *a.Status, h.offset(a.At), what)
			}
		}
		for _, c := range x.byID[id+deadSuffix] {
			if c.edits() && c.Op != "DELETE" && *c.Status == "QUEUED" && died[c.TxID] == nil {
				wrong(id, "the task of its IfDead was scheduled at %s, and it had not died", h.offset(c.At))
			}
		}
	}
	return samples
}

// dies says whether the change is a death.
func (a *auditRow) dies() bool { return a.becomes("FAILED") || a.becomes("EXPIRED") }

// misled says what is wrong with how a death was followed, or "".
func (x *index) misled(child []*auditRow, a *auditRow) string {
	var before *auditRow
	made := 0
	for _, c := range child {
		switch {
		case c.TxID != a.TxID:
			if c.Seq < a.Seq {
				before = c
			}
		case c.edits():
			if made++; c.Nonce != *a.IfDead {
				return "has another payload than it was given"
			}
		}
	}
	waits := before != nil && before.Op != "DELETE" && !final[*before.Status] && before.Nonce == *a.IfDead
	if made == 1 && !waits || made == 0 && waits {
		return ""
	}
	return fmt.Sprintf("was scheduled with it %d times, and waited or ran before: %v", made, waits)
}
