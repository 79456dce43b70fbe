//go:build unix

package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// higherPriorityFirst: a pass that takes a task leaves none of the same pool that has a higher priority and was due,
// and free, before the pass began, whatever their types. Locked rows are not judged: a pass looks past them. Neither is
// a task whose place a newcomer has taken. The samples are the lowest tasks that passes took while others waited.
func higherPriorityFirst(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	waits := h.waits()
	for p, passes := range h.lowestClaims() {
		var free []waiting // those that still may have been, from pass to pass
		left := waits[p]
		for _, pass := range passes {
			for len(left) > 0 && !left[0].from.Add(overlookedFor).After(pass.Began) {
				free, left = append(free, left[0]), left[1:]
			}
			free = slices.DeleteFunc(free, func(w waiting) bool { return !w.until.After(pass.Began) })
			if h.formerPass(pass.Began, pass.At) {
				continue
			}
			if len(free) > 0 {
				samples++
			}
			for _, w := range free {
				if w.overlookedBy(pass) && !h.maybePaused(w.queue, w.kind, pass.Began, pass.At) &&
					!h.touched(x, w.id, pass) && !h.displaced(x, w, pass) {
					wrong(w.id,
						"%s of priority %d was left waiting since %s, when the pass that began at %s took %s, %s of priority %d, at %s; in all it took %s",
						w.kind, w.priority, h.offset(w.from), h.offset(pass.Began), pass.ID, pass.Type, pass.Priority,
						h.offset(pass.At), h.tookInAll(pass))
				}
			}
		}
	}
	return samples
}

// pool is the tasks that compete for the same places: those of a queue whose types the same nodes work. Transactional
// tasks are claimed for a connection's place, others for a slot.
type pool struct {
	queue, nodes string
	transactions bool
}

// poolOf is the pool of a queue's tasks of a type.
func (h *history) poolOf(queue, kind string) pool {
	return pool{queue, h.Working[kind], transactional(kind)}
}

// waiting is a time during which a task could be claimed, and the leader can see it, for sure.
type waiting struct {
	id          string
	queue, kind string
	priority    int
	due         time.Time
	from, until time.Time
	end         *auditRow // the change that ended it; nil: none did
}

// overlookedBy says whether a pass took a lower task than this one, which it left.
func (w waiting) overlookedBy(pass *auditRow) bool {
	return w.priority > pass.Priority && w.until.After(pass.At) && (w.end == nil || w.end.TxID != pass.TxID)
}

// waits lists all, by pool, sorted by when they began. It leaves out tasks that may wait for others of their group.
func (h *history) waits() map[pool][]waiting {
	return h.waitsOf(func(a *auditRow) bool {
		return h.GroupLimits[a.Type] == 0 && h.GroupRates[a.Type] == 0 && h.GroupWeights[a.Type] == nil
	})
}

func (h *history) waitsOf(which func(a *auditRow) bool) map[pool][]waiting {
	x := h.in()
	found := map[pool][]waiting{}
	for id, changes := range x.byID {
		for i, a := range changes {
			known, sure := x.known[a.TxID]
			// A follow-up may be locked by whoever settles what it follows.
			if a.Op == "DELETE" || a.Next == nil || a.Recurs || !sure || strings.HasSuffix(id, childSuffix) || !which(a) {
				continue
			}
			w := waiting{id: id, queue: a.Queue, kind: a.Type, priority: a.Priority, due: *a.Next,
				from: later(known, *a.Next), until: h.Quiet}
			if known.Sub(a.Began) > openFor {
				w.from = w.from.Add(walkedWithin)
			}
			if i+1 < len(changes) {
				w.until, w.end = changes[i+1].At, changes[i+1]
			}
			if w.until.After(w.from) {
				p := h.poolOf(a.Queue, a.Type)
				found[p] = append(found[p], w)
			}
		}
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b waiting) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.id, b.id)) })
	}
	return found
}

// lowestClaims is of each claiming transaction, pool and type a task of the lowest priority that it took, in the
// order of the transactions.
func (h *history) lowestClaims() map[pool][]*auditRow {
	type key struct {
		tx   int64
		kind string
		pool
	}
	found := map[key]*auditRow{}
	for _, a := range h.Audit {
		k := key{a.TxID, a.Type, h.poolOf(a.Queue, a.Type)}
		if a.claims() && (found[k] == nil || a.Priority < found[k].Priority) {
			found[k] = a
		}
	}
	lowest := map[pool][]*auditRow{}
	for k, a := range found {
		lowest[k.pool] = append(lowest[k.pool], a)
	}
	for _, passes := range lowest {
		slices.SortFunc(passes, func(a, b *auditRow) int { return a.Began.Compare(b.Began) })
	}
	return lowest
}

// displaced says whether a newcomer took a task's place. A pass takes as many tasks of a lane as it has seen there. If an
// older one is committed meanwhile, the pass takes that one instead.
func (h *history) displaced(x *index, w waiting, pass *auditRow) bool {
	for _, a := range h.Audit {
		if a.TxID != pass.TxID || !a.claims() || a.OldNext == nil || a.OldNext.After(w.due) ||
			a.Queue != w.queue || a.Type != w.kind || a.Priority != w.priority {
			continue
		}
		changes := x.byID[a.ID]
		known, sure := x.known[changes[slices.Index(changes, a)-1].TxID]
		if !sure || !known.Before(pass.Began) {
			return true
		}
	}
	return false
}

// tookInAll lists the first tasks of a pass, in the order in which it took them.
func (h *history) tookInAll(pass *auditRow) string {
	var took []string
	for _, a := range h.Audit {
		if a.TxID == pass.TxID && a.claims() && a.OldNext != nil {
			took = append(took, fmt.Sprintf("%s %s %d due %s at %s", a.Queue, a.Type, a.Priority, h.offset(*a.OldNext),
				h.offset(a.At)))
		}
	}
	if all := len(took); all > maxToldTasks {
		took = append(took[:maxToldTasks], fmt.Sprintf("%d in all", all))
	}
	return strings.Join(took, ", ")
}

const maxToldTasks = 20 // of a pass

// formerPass says whether a leader that stands still may hold the locks of its last pass, at some time in between.
func (h *history) formerPass(from, to time.Time) bool {
	return slices.ContainsFunc(h.Faults, func(f fault) bool {
		return f.Leader && f.disturbs() && f.From.Before(to) && f.From.Add(openPassFor).After(from)
	})
}

// touched says whether somebody may have had the task's row locked while a pass was under way: a writer, or
// whoever changed it next.
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
		for _, e := range h.Entries {
			for _, id := range e.IDs {
				x.byTask[id] = append(x.byTask[id], e)
			}
		}
	}
	return x.byTask[id]
}
