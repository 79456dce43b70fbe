//go:build unix

package torture

import (
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// occurrences lists the occurrences that were made of each recurring task, by their fire time; those of
// run_now are left out.
func (h *history) occurrences() map[string][]*auditRow {
	byHand := map[taskTx]bool{}
	for _, o := range h.Ops {
		if o.Verb == "run_now" {
			byHand[taskTx{o.TaskID, o.TxID}] = true
		}
	}
	found := map[string][]*auditRow{}
	for _, a := range h.Audit {
		if a.Op == "INSERT" && a.Parent != nil && !byHand[taskTx{*a.Parent, a.TxID}] {
			found[*a.Parent] = append(found[*a.Parent], a)
		}
	}
	for _, list := range found {
		slices.SortStableFunc(list, func(a, b *auditRow) int { return a.Asked.Compare(b.Asked) })
	}
	return found
}

// firesAreSingle: each fire has one occurrence, made when its time had come.
func firesAreSingle(h *history, wrong reportFunc) (samples int) {
	for parent, list := range h.occurrences() {
		for i, a := range list {
			samples++
			if i > 0 && a.Asked.Equal(list[i-1].Asked) {
				wrong(parent, "the fire of %s was made twice", h.offset(a.Asked))
			}
			if a.At.Before(a.Asked) {
				wrong(parent, "the fire of %s was made at %s", h.offset(a.Asked), h.offset(a.At))
			}
		}
	}
	return samples
}

// rhythm is how often a steady recurring task fires.
func rhythm(task store.Task) time.Duration {
	if strings.HasPrefix(task.Recurrence.Cron, "*/2 ") {
		return 2 * time.Second
	}
	return time.Second
}

// there is an instant, or, if Postgres was stopped soon after it, when it was there again: its start takes as long as
// the machine does.
func (h *history) there(at time.Time) time.Time {
	for _, f := range h.Faults {
		if f.Kind == faultPostgres && !f.To.IsZero() && f.To.After(at) && f.From.Sub(at) < silentLimit {
			at = f.To
		}
	}
	return at
}

// steadyFiresAreComplete: from the first to the last there is an occurrence for each fire, run or SKIPPED, and made soon.
// Those that catch up with all and may overlap run each.
func steadyFiresAreComplete(h *history, wrong reportFunc) (samples int) {
	made := h.occurrences()
	x := h.in()
	for _, task := range steady() {
		changes := x.byID[task.ID]
		if len(changes) == 0 {
			continue // this run has none
		}
		every, list := rhythm(task), made[task.ID]
		samples++
		if len(list) == 0 {
			wrong(task.ID, "it has not fired at all")
			continue
		}
		samples += len(list)
		created, ended := changes[0].At, changes[len(changes)-1].At
		if i := slices.IndexFunc(changes, func(a *auditRow) bool { return a.Next == nil }); i >= 0 {
			ended = changes[i].At // it was cancelled; retention may remove it much later
		}
		if first := list[0].Asked; first.Sub(created) > every+time.Second { // @every is counted in whole seconds
			wrong(task.ID, "its first fire was at %s, made at %s", h.offset(first), h.offset(created))
		}
		last := list[len(list)-1].Asked
		if ended.Sub(h.there(last)) > every+silentLimit {
			wrong(task.ID, "its last fire was at %s, ended at %s", h.offset(last), h.offset(ended))
		}
		for i := 1; i < len(list); i++ {
			if step := list[i].Asked.Sub(list[i-1].Asked); step != every {
				wrong(task.ID, "between the fires of %s and %s lie %s, not %s", h.offset(list[i-1].Asked),
					h.offset(list[i].Asked), step, every)
			}
		}
		for _, a := range list {
			due := waiting{id: task.ID, queue: a.Queue, kind: a.Type, from: a.Asked}
			late, limit := a.At.Sub(a.Asked)-h.stoodAny(a.Asked, a.At), startedWithin+h.slack()
			if task.Recurrence.Overlap == store.OverlapCancelRunning {
				limit += asideFor
			}
			if late > limit && !h.strained(due, a.At) {
				wrong(task.ID, "the fire of %s was made at %s", h.offset(a.Asked), h.offset(a.At))
			}
			if *a.Status == "SKIPPED" && task.Recurrence.CatchUp == store.CatchUpAll &&
				task.Recurrence.Overlap == store.OverlapAllow {
				wrong(task.ID, "the fire of %s was skipped", h.offset(a.Asked))
			}
		}
	}
	return samples
}

// forksAdvance: the leader makes occurrences in the transaction that plans the next fire, and only those that were
// planned since the last edit.
func forksAdvance(h *history, wrong reportFunc) (samples int) {
	x := h.in()
	for parent, list := range h.occurrences() {
		for _, a := range list {
			samples++
			advanced := slices.ContainsFunc(x.byID[parent], func(p *auditRow) bool {
				return p.TxID == a.TxID && p.Op == "UPDATE" && (p.Next == nil || p.Next.After(a.Asked))
			})
			edited := slices.ContainsFunc(x.byID[parent], func(p *auditRow) bool {
				return p.TxID == a.TxID && p.OldNext != nil && p.OldNext.After(a.Asked) && !x.wasResumed(p)
			})
			if edited {
				wrong(parent, "the fire of %s was made, though the task was planned anew then", h.offset(a.Asked))
			}
			if !advanced {
				wrong(parent, "the fire of %s was made by transaction %d, which did not plan the next",
					h.offset(a.Asked), a.TxID)
			}
		}
	}
	return samples
}

// wasResumed says whether the last edit before a change ended a pause: then the fires of the pause are made up for.
func (x *index) wasResumed(change *auditRow) (resumed bool) {
	for _, a := range x.byID[change.ID] {
		if a.Seq < change.Seq && a.edits() {
			resumed = of(a.OldStatus) == "PAUSED"
		}
	}
	return resumed
}

// skipsHaveReasons: with overlap skip an occurrence is made to run exactly when no earlier one is left; with catch-up
// latest one of those that were missed together runs. Those of a pause have a policy of their own.
func skipsHaveReasons(h *history, wrong reportFunc) (samples int) {
	const skip, latest = "steady/skip", "steady/latest"
	made := h.occurrences()
	for _, parent := range []string{skip, latest} {
		list := made[parent]
		for i, a := range list {
			samples++
			last := i+1 == len(list) || list[i+1].TxID != a.TxID // of those that were made together
			blocked, maybe := "", ""
			for _, earlier := range list[:i] {
				if parent == skip && h.liveAt(earlier, a.At) {
					blocked = earlier.ID
				}
				if parent == skip && (h.liveAt(earlier, a.Began) || h.liveAt(earlier, a.Began.Add(-committedWithin))) {
					maybe = earlier.ID
				}
			}
			switch {
			case *a.Status != "SKIPPED" && blocked != "":
				wrong(a.ID, "it was to run, though %s had not ended", blocked)
			case *a.Status == "SKIPPED" && last && maybe == "" && !h.maybePaused(a.Queue, a.Type, a.Asked, a.Asked):
				wrong(a.ID, "it was skipped, though no earlier one was left and no later one was missed with it")
			}
		}
	}
	return samples
}

// liveAt says whether an occurrence that was made to run had not ended at an instant.
func (h *history) liveAt(made *auditRow, at time.Time) bool {
	if *made.Status == "SKIPPED" || !made.At.Before(at) {
		return false
	}
	var last *auditRow
	for _, a := range h.in().byID[made.ID] {
		if a.At.Before(at) {
			last = a
		}
	}
	return last != nil && last.Op != "DELETE" && (!final[*last.Status] || last.Fence != nil)
}
