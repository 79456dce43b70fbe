//go:build unix

package torture

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"
)

// startsAreQuick: a task that is due, while there is room and nothing is done to the system, starts at once.
func startsAreQuick(h *history, wrong reportFunc) (samples int) {
	var all []latency
	for _, list := range h.latencies() {
		all = append(all, list...)
	}
	tooLate("", all, startedWithin+h.slack(), wrong)
	return len(all)
}

// queuesAreFair: so do the tasks of each pool, whatever waits in the others.
func queuesAreFair(h *history, wrong reportFunc) (samples int) {
	limit := startedWithin + h.slack()
	for p, list := range h.latencies() {
		if len(list) < fewLatencies {
			continue
		}
		samples += len(list)
		tooLate(p.queue, list, limit, wrong)
	}
	return samples
}

// tooLate judges the time that at most one start in twenty exceeds.
func tooLate(queue string, list []latency, limit time.Duration, wrong reportFunc) {
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b latency) int { return cmp.Compare(a.took, b.took) })
	if one := list[min(len(list)*19/20, len(list)-1)]; one.took > limit {
		wrong(one.id, "of %d undisturbed tasks of %q one in twenty started more than %s late", len(list), queue,
			short(one.took))
	}
}

// latency is how long a task that was due waited for its start; at least, if it had not started when something
// disturbed it.
type latency struct {
	id   string
	took time.Duration
}

// latencies lists those that nothing explains, by pool: no fault, no pause, no lock of a writer and no load of its
// queue or type.
func (h *history) latencies() map[pool][]latency {
	if h.waited != nil {
		return h.waited
	}
	x := h.in()
	load := h.loads()
	h.waited = map[pool][]latency{}
	for p, list := range h.waits() {
		for _, w := range list {
			until := w.until
			if w.end != nil && w.end.claims() {
				if runs := x.runs[*w.end.Fence]; len(runs) > 0 {
					until = runs[0].Gate
				} else if free := x.releases[*w.end.Fence]; free != nil {
					until = free.At
				}
			}
			started := w.end != nil && w.end.claims() && len(x.runs[*w.end.Fence]) > 0
			watched := earlier(until, w.from.Add(startedWithin)) // later disturbances excuse nothing
			if !started && until.Sub(w.from) <= startedWithin || h.Unserved[w.kind] || transactional(w.kind) ||
				h.strained(w, watched) || load.most(w.queue, w.from, watched) > h.roomOf(p) ||
				h.limits(w.kind) && load.most(w.kind, w.from, watched) > h.roomOfType(w.kind) {
				continue
			}
			h.waited[p] = append(h.waited[p], latency{w.id, until.Sub(w.from) - h.stoodAny(w.from, until)})
		}
	}
	return h.waited
}

// strained says whether something may have kept a task from starting: a fault, a pause or a writer's lock.
func (h *history) strained(w waiting, until time.Time) bool {
	for _, f := range h.Faults {
		over := !f.To.IsZero() && !f.To.Add(recoveryLimit).After(w.from)
		if f.disturbs() && f.From.Before(until) && !over {
			return true
		}
	}
	if h.maybePaused(w.queue, w.kind, w.from, until) || until.After(h.Calmed) {
		return true
	}
	for _, e := range h.in().entriesOf(h, w.id) {
		if e.mayLock(w.from, until) {
			return true
		}
	}
	return false
}

// stoodAny is how long the process that stood still longest did so within an interval.
func (h *history) stoodAny(from, to time.Time) (most time.Duration) {
	for _, p := range h.Processes {
		most = max(most, h.stood(p.PID, from, to))
	}
	return most
}

// roomOf is how many tasks of a pool its nodes run at once.
func (h *history) roomOf(p pool) int {
	nodes := max(len(strings.Fields(p.nodes)), 1)
	if p.queue == slowQueue {
		return nodes * slowSlots(h.SlotsEach)
	}
	return nodes * h.SlotsEach
}

// limits says whether a node has few slots for a type.
func (h *history) limits(kind string) bool { return h.roomOfType(kind) > 0 }

// roomOfType is how many tasks of a type with few slots the nodes run at once.
func (h *history) roomOfType(kind string) (room int) {
	for _, slots := range h.TypeSlots {
		room += slots[kind]
	}
	if limit := h.Limits[kind]; limit > 0 {
		room = min(room, limit)
	}
	return room
}

// loads is how many tasks of each queue, and of each type, were due or held, over time.
type loads map[string][]loadChange

type loadChange struct {
	at    time.Time
	tasks int // from then on
}

// loads sums up when tasks became due, were released and were taken away.
func (h *history) loads() loads {
	changes := loads{}
	add := func(from, until time.Time, of ...string) {
		for _, name := range of {
			if until.After(from) {
				changes[name] = append(changes[name], loadChange{from, 1}, loadChange{until, -1})
			}
		}
	}
	for _, list := range h.waits() {
		for _, w := range list {
			add(w.from, w.until, w.queue, w.kind)
		}
	}
	for fence, c := range h.in().claims {
		until := h.Until
		if free := h.in().releases[fence]; free != nil {
			until = free.At
		}
		add(c.At, until, c.Queue, c.Type)
	}
	for _, list := range changes {
		slices.SortStableFunc(list, func(a, b loadChange) int { return a.at.Compare(b.at) })
		for i := range list {
			if i > 0 {
				list[i].tasks += list[i-1].tasks
			}
		}
	}
	return changes
}

// most is the most tasks of a queue, or of a type, that there were at once within an interval.
func (l loads) most(name string, from, to time.Time) (tasks int) {
	list := l[name]
	i := sort.Search(len(list), func(i int) bool { return list[i].at.After(from) })
	for i = max(i-1, 0); i < len(list) && !list[i].at.After(to); i++ {
		tasks = max(tasks, list[i].tasks)
	}
	return tasks
}
