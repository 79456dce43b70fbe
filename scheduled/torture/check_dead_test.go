//go:build unix

package torture

import "time"

// toldWithin is how long after it is recorded a node tells its OnDead of a dead letter.
const toldWithin = 5 * time.Second

// deathsAreTold: OnDead is called for what was recorded as FAILED or EXPIRED, once for each, and for nothing else. A
// node that was disturbed may owe a call.
func deathsAreTold(h *history, wrong reportFunc) (samples int) {
	type key struct {
		id, outcome string
		revision    int64
	}
	of := func(id, outcome string, revision int64) key {
		if outcome == "LOST" { // the row may have been edited since: its revision says nothing
			revision = 0
		}
		return key{id, outcome, revision}
	}
	told := map[key]int{}
	for _, m := range h.Dead {
		told[of(m.ID, m.How, m.Revision)]++
	}
	recorded := map[key]int{}
	for _, e := range h.Executions {
		k := of(e.TaskID, e.Outcome, e.Revision)
		recorded[k]++
		pid := h.in().nodes[*orZero(e.Node)]
		if e.Outcome != "FAILED" && e.Outcome != "EXPIRED" || pid == 0 ||
			!h.livesOn(pid, e.FinishedAt.Add(toldWithin)) ||
			h.disturbed(pid, e.FinishedAt, e.FinishedAt.Add(toldWithin)) {
			continue
		}
		if samples++; told[k] == 0 {
			wrong(e.TaskID, "fence %d is %s since %s, and OnDead was not called", e.Fence, e.Outcome,
				h.offset(e.FinishedAt))
		}
	}
	for k, times := range told {
		if times > recorded[k] {
			wrong(k.id, "OnDead was called %d times for revision %d, %s: recorded %d times", times, k.revision,
				k.outcome, recorded[k])
		}
	}
	return samples
}

// livesOn says whether a process had not ended by an instant.
func (h *history) livesOn(pid int, at time.Time) bool {
	for _, p := range h.Processes {
		if p.PID == pid {
			return p.Until.IsZero() || p.Until.After(at)
		}
	}
	return false
}
