//go:build unix

package torture

import "slices"

// eventsOf are the events that an outcome may be told as. A lost attempt that was the last one has failed.
var eventsOf = map[string][]string{"FAILED": {"failed"}, "EXPIRED": {"expired"}, "LOST": {"lost", "failed"}}

// deathsHaveNotices: each death in the history is a cause of a notice, once, and the notice is scheduled. No notice
// tells of anything else, such as a settle that was rolled back.
func deathsHaveNotices(h *history, wrong reportFunc) (samples int) {
	causes := map[int64][]cause{}
	for _, c := range h.Causes {
		causes[c.Fence] = append(causes[c.Fence], c)
	}
	for _, e := range h.Executions {
		events := eventsOf[e.Outcome]
		if events == nil {
			continue
		}
		samples++
		told := causes[e.Fence]
		delete(causes, e.Fence)
		switch {
		case len(told) != 1:
			wrong(e.TaskID, "fence %d is %s and the cause of %d notices", e.Fence, e.Outcome, len(told))
		case told[0].TaskID != e.TaskID || !slices.Contains(events, told[0].Event) || !told[0].Scheduled:
			wrong(e.TaskID, "fence %d is %s, and its cause is %+v", e.Fence, e.Outcome, told[0])
		}
	}
	for fence, told := range causes {
		wrong(told[0].TaskID, "a notice tells of fence %d, which has no line", fence)
	}
	return samples
}
