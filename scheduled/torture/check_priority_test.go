//go:build unix

package torture

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// higherPriorityFirst: a pass that takes a task leaves none of the same queue and type that has a higher priority and was due,
// and free, before the pass began. Of what others might have locked at the time nothing is said: a pass looks past locked rows.
func higherPriorityFirst(h *history) (wrong []violation) {
	x := h.in()
	waits := h.waits()
	for l, passes := range h.lowestClaims() {
		var free []waiting // those that still may have been, from pass to pass
		left := waits[l]
		for _, pass := range passes {
			for len(left) > 0 && !left[0].from.Add(overlookedFor).After(pass.Began) {
				free, left = append(free, left[0]), left[1:]
			}
			free = slices.DeleteFunc(free, func(w waiting) bool { return !w.until.After(pass.Began) })
			for _, w := range free {
				if w.priority > pass.Priority && w.until.After(pass.At) && w.tx != pass.TxID && !h.touched(x, w.id, pass) {
					wrong = append(wrong, broken("priority", w.id,
						"priority %d was left waiting since %s, when the pass at %s took %s of priority %d",
						w.priority, h.offset(w.from), h.offset(pass.At), pass.ID, pass.Priority))
				}
			}
		}
	}
	return wrong
}

type lane struct{ queue, kind string }

// waiting is a time during which a task could be claimed, for sure.
type waiting struct {
	id          string
	priority    int
	from, until time.Time
	tx          int64 // of the change that ended it
}

// waits lists all, by lane, sorted by when they began.
func (h *history) waits() map[lane][]waiting {
	x := h.in()
	found := map[lane][]waiting{}
	for id, changes := range x.byID {
		for i, a := range changes {
			known, sure := x.known[a.TxID]
			// A follow-up may be locked by whoever settles what it follows.
			if a.Op == "DELETE" || a.Next == nil || a.Recurs || !sure || strings.HasSuffix(id, childSuffix) {
				continue
			}
			w := waiting{id: id, priority: a.Priority, from: later(known, *a.Next), until: h.Quiet}
			if i+1 < len(changes) {
				w.until, w.tx = changes[i+1].At, changes[i+1].TxID
			}
			if w.until.After(w.from) {
				found[lane{a.Queue, a.Type}] = append(found[lane{a.Queue, a.Type}], w)
			}
		}
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b waiting) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.id, b.id)) })
	}
	return found
}

// lowestClaims is of each claiming transaction and lane a task of the lowest priority that it took, in the order of the
// transactions.
func (h *history) lowestClaims() map[lane][]*auditRow {
	type key struct {
		tx int64
		lane
	}
	found := map[key]*auditRow{}
	for i := range h.Audit {
		a := &h.Audit[i]
		k := key{a.TxID, lane{a.Queue, a.Type}}
		if a.claims() && (found[k] == nil || a.Priority < found[k].Priority) {
			found[k] = a
		}
	}
	lowest := map[lane][]*auditRow{}
	for k, a := range found {
		lowest[k.lane] = append(lowest[k.lane], a)
	}
	for _, passes := range lowest {
		slices.SortFunc(passes, func(a, b *auditRow) int { return a.Began.Compare(b.Began) })
	}
	return lowest
}

// touched says whether somebody may have had the task's row locked while a pass was under way: a writer, or whoever changed it
// next.
func (h *history) touched(x *index, id string, pass *auditRow) bool {
	for _, e := range x.entriesOf(h, id) {
		if e.mayLock(pass.Began, pass.At) {
			return true
		}
	}
	for _, a := range x.byID[id] { // the engine's own
		if a.Began.Before(pass.At) && a.At.After(pass.Began) {
			return true
		}
	}
	return false
}

// entriesOf lists the writers' transactions that had to do with a task.
func (x *index) entriesOf(h *history, id string) []*entry {
	if x.byTask == nil {
		x.byTask = map[string][]*entry{}
		for i := range h.Entries {
			for _, id := range h.Entries[i].IDs {
				x.byTask[id] = append(x.byTask[id], &h.Entries[i])
			}
		}
	}
	return x.byTask[id]
}
