//go:build unix

package torture

// waits says whether a change ends an attempt whose handler waits for its host.
func (x *index) waits(a *auditRow) bool {
	if !a.releases() || a.edits() {
		return false
	}
	c, e, runs := x.claims[*a.OldFence], x.releasedAs(a), x.runs[*a.OldFence]
	return c != nil && a.wasCurrent(c) && len(runs) == 1 && runs[0].snoozed() && (e == nil || e.Outcome == "SNOOZED")
}

// waited counts after each change of a task how many times in a row it has waited for its host. An edit begins anew, and
// so does an attempt that fails or is put off otherwise. A claim that comes to nothing changes nothing.
func (x *index) waited(changes []*auditRow) []int {
	counts, n := make([]int, len(changes)), 0
	for i, a := range changes {
		switch e := x.releasedAs(a); {
		case a.edits():
			n = 0
		case x.waits(a):
			n++
		case e != nil && (e.Outcome == "RETRIED" || e.Outcome == "SNOOZED"):
			n = 0
		}
		counts[i] = n
	}
	return counts
}

// fold finds the claims that need no line: of waits that follow each other only the first has one.
func (x *index) fold() {
	for _, changes := range x.byID {
		for i, n := range x.waited(changes) {
			if a := changes[i]; n > 1 && x.waits(a) {
				x.folded[*a.OldFence] = true
			}
		}
	}
}

// waitsAreFolded: the row counts the waits, and only the first of those that follow each other has a line. The samples
// are the others.
func waitsAreFolded(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for id, changes := range x.byID {
		for i, n := range x.waited(changes) {
			a := changes[i]
			if a.Op != "DELETE" && a.Waits != n {
				wrong(id, "at %s its row counts %d waits, want %d", h.offset(a.At), a.Waits, n)
			}
			if n < 2 || !x.waits(a) {
				continue
			}
			if samples++; x.written[*a.OldFence] != nil {
				wrong(id, "wait %d, fence %d, has a line", n, *a.OldFence)
			}
		}
	}
	return samples
}
