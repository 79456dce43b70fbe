//go:build unix

package torture

import "time"

// policiesAreKept: with overlap cancel_running a fire that runs cancels the occurrences that have not ended; with
// catch-up none, fires that were missed together are all skipped, and a fire that is alone and on time runs; with
// latest, of those missed together only the last runs. The samples are the fires of the steady recurring tasks with
// these policies.
func policiesAreKept(h *history, wrong reportFunc) (samples int) {
	made := h.occurrences()
	for parent, find := range map[string]func(together, before []*auditRow) string{
		"steady/cancel": h.leavesRunning, "steady/none": h.runsThoughNone, "steady/latest": h.runsThoughNotLatest,
	} {
		list := made[parent]
		for from := 0; from < len(list); {
			to := from + 1
			for to < len(list) && list[to].TxID == list[from].TxID {
				to++
			}
			samples++
			if what := find(list[from:to], list[:from]); what != "" {
				wrong(list[to-1].ID, "%s", what)
			}
			from = to
		}
	}
	return samples
}

// leavesRunning names an earlier occurrence that goes on though a later one is to run. The engine leaves what others
// have locked for a moment, and then fires later.
func (h *history) leavesRunning(together, before []*auditRow) string {
	for _, a := range together {
		if *a.Status == "SKIPPED" {
			continue
		}
		for _, earlier := range before {
			last := h.lastBefore(earlier.ID, a)
			if last != nil && last.Op != "DELETE" && !final[*last.Status] {
				return "it was to run, and " + earlier.ID + ", which was " + *last.Status + ", was not cancelled"
			}
		}
	}
	return ""
}

// lastBefore is a task's row as a transaction found it and left it, up to a change of its own.
func (h *history) lastBefore(id string, change *auditRow) (last *auditRow) {
	for _, a := range h.in().byID[id] {
		if a.Seq < change.Seq {
			last = a
		}
	}
	return last
}

// onTime is how late a fire that is alone may be and still run with catch-up none.
const onTime = time.Minute

func (h *history) runsThoughNone(together, _ []*auditRow) string {
	for _, a := range together {
		paused := h.maybePaused(a.Queue, a.Type, a.Asked, a.Asked)
		late := a.At.Sub(a.Asked) > onTime
		switch runs := *a.Status != "SKIPPED"; {
		case runs && (len(together) > 1 || late):
			return "it was to run, though it had been missed and catch_up is none"
		case !runs && len(together) == 1 && !late && !paused:
			return "it was skipped, though it was on time"
		}
	}
	return ""
}

func (h *history) runsThoughNotLatest(together, _ []*auditRow) string {
	for i, a := range together[:len(together)-1] {
		paused := h.maybePaused(a.Queue, a.Type, a.Asked, together[len(together)-1].Asked)
		if *a.Status != "SKIPPED" && !paused {
			return "it was missed with " + together[i+1].ID + ", and both were to run"
		}
	}
	return ""
}
