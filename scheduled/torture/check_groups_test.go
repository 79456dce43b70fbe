//go:build unix

package torture

import (
	"slices"
	"time"
)

// groupRatesAreKept: in any time no more tasks of a group begin than its burst and its rate allow, counted from their
// claims. The samples are the claims after which the group had no token left.
func groupRatesAreKept(h *history, wrong reportFunc) (samples int) {
	claims := map[string][]*auditRow{}
	for r, c := range h.claimedRuns() {
		if h.GroupRates[r.Type] > 0 && r.Group != "" {
			claims[r.Type+" of "+r.Group] = append(claims[r.Type+" of "+r.Group], c)
		}
	}
	for group, list := range claims {
		slices.SortFunc(list, func(a, b *auditRow) int { return a.At.Compare(b.At) })
		interval := time.Second / time.Duration(h.GroupRates[list[0].Type])
		full := time.Time{} // when the bucket would be full
		for _, c := range list {
			if full = later(full, c.At).Add(interval); full.Sub(c.At) <= (rateBurst-1)*interval {
				continue
			}
			samples++
			if over := full.Sub(c.At) - rateBurst*interval; over > time.Millisecond {
				wrong(c.ID, "%s was claimed at %s, %s before its rate allows it", group, h.offset(c.At), over)
			}
		}
	}
	return samples
}

const (
	// fewTurns are too few claims to judge weights by.
	fewTurns = 40
	// weighedAfter is after what time a task that waits takes part in the turns for sure.
	weighedAfter = time.Second
)

// weightsAreKept: of the claims at which tasks of two groups wait in a lane, a group of weight 3 gets at least 5 of 8
// against one of weight 1. Without weights it would be half of them. The samples are these claims.
func weightsAreKept(h *history, wrong reportFunc) (samples int) {
	groups := map[string]string{} // by id
	for _, r := range h.Runs {
		groups[r.ID] = r.Group
	}
	type lane struct {
		queue, kind string
		priority    int
	}
	waits := map[lane]map[string][]waiting{} // by group
	for _, list := range h.waitsOf(func(a *auditRow) bool { return h.GroupWeights[a.Type] != nil }) {
		for _, w := range list {
			if of, group := (lane{w.queue, w.kind, w.priority}), groups[w.id]; group != "" {
				if waits[of] == nil {
					waits[of] = map[string][]waiting{}
				}
				waits[of][group] = append(waits[of][group], w)
			}
		}
	}
	heavy, last := 0, ""
	for _, a := range h.Audit {
		weights := h.GroupWeights[a.Type]
		if !a.claims() || weights == nil || groups[a.ID] == "" {
			continue
		}
		both := 0
		for _, list := range waits[lane{a.Queue, a.Type, a.Priority}] {
			if slices.ContainsFunc(list, func(w waiting) bool {
				return !w.from.Add(weighedAfter).After(a.At) && !w.until.Before(a.At)
			}) {
				both++
			}
		}
		if both < 2 {
			continue
		}
		if samples, last = samples+1, a.ID; weights[groups[a.ID]] > 1 {
			heavy++
		}
	}
	if samples >= fewTurns && heavy*8 < samples*5 {
		wrong(last, "of %d claims in turn %d were of the groups of weight 3", samples, heavy)
	}
	return samples
}
