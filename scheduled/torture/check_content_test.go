//go:build unix

package torture

import "strings"

// contentIsKept: a row has the content that its writer gave it, until a writer gives it another; an occurrence has
// its parent's.
func contentIsKept(h *history, wrong reportFunc) (samples int) {
	given := map[int64]*content{} // by revision
	for _, e := range h.Entries {
		for _, d := range e.Deeds {
			if d.Content != nil && wrote[d.Outcome] {
				given[d.Revision] = d.Content
			}
		}
	}
	last := map[string]*auditRow{}
	for _, a := range h.Audit {
		before := last[a.ID]
		last[a.ID] = a
		if a.Op == "DELETE" {
			continue
		}
		samples++
		want := given[*a.Revision]
		switch {
		case a.edits() && want != nil:
			if got := (content{a.Nonce, a.Queue, a.Priority, a.MaxAttempts}); got != *want {
				wrong(a.ID, "revision %d is %+v, and the writer gave %+v", *a.Revision, got, *want)
			}
		case a.Op == "INSERT" && a.Parent != nil && last[*a.Parent] != nil:
			if parent := last[*a.Parent]; a.Sum != parent.Sum {
				wrong(a.ID, "its payload is another than that of %s", parent.ID)
			}
		case a.Op == "UPDATE" && before != nil && a.Sum != before.Sum && !strings.HasSuffix(a.ID, childSuffix):
			wrong(a.ID, "revision %s got another payload at %s, which no writer gave", of(a.Revision), h.offset(a.At))
		}
	}
	return samples
}

// handlersSeeTheirContent: a handler gets the payload that the row had when it was claimed.
func handlersSeeTheirContent(h *history, wrong reportFunc) (samples int) {
	for r, c := range h.claimedRuns() {
		if samples++; r.Sum != c.Sum {
			wrong(r.ID, "fence %d got another payload than the row had", r.Fence)
		}
	}
	return samples
}

// nothingIsWrittenInVain: a verb that says it changed nothing has changed nothing.
func nothingIsWrittenInVain(h *history, wrong reportFunc) (samples int) {
	edits, writes := map[taskTx]*auditRow{}, map[taskTx]bool{}
	for _, a := range h.Audit {
		if a.edits() {
			edits[taskTx{a.ID, a.TxID}] = a
		}
	}
	for _, o := range h.Ops {
		if wrote[o.Outcome] {
			writes[taskTx{o.TaskID, o.TxID}] = true
		}
	}
	for _, o := range h.Ops {
		k := taskTx{o.TaskID, o.TxID}
		if writes[k] {
			continue
		}
		samples++
		if a := edits[k]; a != nil {
			wrong(o.TaskID, "op %d: %s came to %s, and drew revision %s", o.Op, o.Verb, o.Outcome, of(a.Revision))
		}
	}
	return samples
}

// syncIsExact: after a Sync of an entity its listed tasks are there, and no other one of it is live.
func syncIsExact(h *history, wrong reportFunc) (samples int) {
	members := map[string]map[string]bool{} // by entity
	for _, a := range h.Audit {
		if a.Entity != nil && !strings.HasSuffix(a.ID, childSuffix) {
			if members[*a.Entity] == nil {
				members[*a.Entity] = map[string]bool{}
			}
			members[*a.Entity][a.ID] = true
		}
	}
	for _, e := range h.Entries {
		if e.Entity == "" || e.Answer != acknowledged {
			continue
		}
		samples++
		listed := map[string]bool{}
		for _, id := range e.Listed {
			listed[id] = true
			// Retention may remove a task that has ended while the writer is under way, and commit after it.
			a := h.rowAt(id, e)
			if a == nil || a.Op == "DELETE" && a.At.Add(committedWithin).Before(e.Began) {
				wrong(id, "op %d made the tasks of %s, and it is not there", e.Op, e.Entity)
			}
		}
		for id := range members[e.Entity] {
			a := h.rowAt(id, e)
			if listed[id] || a == nil || a.Op == "DELETE" || a.Entity == nil || *a.Entity != e.Entity ||
				final[*a.Status] {
				continue
			}
			wrong(id, "op %d made the tasks of %s without it, and it is left %s", e.Op, e.Entity, *a.Status)
		}
	}
	return samples
}

// rowAt is a task's row as an acknowledged transaction left it, or nil. Only one writer edits an entity, one
// transaction after the other.
func (h *history) rowAt(id string, e *entry) (last *auditRow) {
	for _, a := range h.in().byID[id] {
		if a.At.Before(e.Ended) {
			last = a
		}
	}
	return last
}
