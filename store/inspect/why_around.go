package inspect

import (
	"maps"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store"
)

// wait is a time during which the task was due and had not begun.
type wait struct{ from, until time.Time }

// waits returns the waits of the attempts, and the present wait of the task.
func (l *life) waits(e *Explanation) (waits []wait) {
	for _, x := range l.executions {
		if x.DueAt != nil && x.StartedAt != nil {
			waits = append(waits, wait{*x.DueAt, *x.StartedAt})
		}
	}
	if e.Row == nil {
		return waits
	}
	switch row := *e.Row; {
	case row.Status == store.StatusExpired && row.FinishedAt != nil:
		waits = append(waits, wait{l.due(row), *row.FinishedAt})
	case row.NextAttemptAt != nil && row.NextAttemptAt.Before(e.At):
		waits = append(waits, wait{*row.NextAttemptAt, e.At})
	}
	return waits
}

// around tells which pauses held during a wait. If the wait was long, it also tells which nodes came and went that
// could have run the task.
func (l *life) around(w wait) (lines []StoryLine) {
	for _, p := range l.pauses {
		if !p.PausedAt.Before(w.until) || p.EndsAt != nil && !p.EndsAt.After(w.from) {
			continue
		}
		line := StoryLine{At: p.PausedAt, Kind: "pause", Text: p.what() + " was paused by " + p.PausedBy}
		if until := p.until(); until != nil {
			line.Facts = append(line.Facts, Fact{Name: "until", Value: *until})
		}
		if p.Reason != nil {
			line.Facts = append(line.Facts, Fact{Name: "reason", Value: brief(*p.Reason, factMost)})
		}
		lines = append(lines, line)
		if p.EndsAt != nil && !p.EndsAt.After(w.until) {
			ended := "the pause of " + p.what() + " ended"
			if p.ResumedBy != nil {
				ended = p.what() + " was resumed by " + *p.ResumedBy
			}
			lines = append(lines, StoryLine{At: *p.EndsAt, Kind: "pause", Text: ended})
		}
	}
	if w.until.Sub(w.from) < lateLeast {
		return lines
	}
	during := func(at time.Time) bool { return at.After(w.from) && !at.After(w.until) }
	for _, number := range slices.Sorted(maps.Keys(l.nodes)) {
		node := l.nodes[number]
		if node.Able && during(node.StartedAt) {
			lines = append(lines, StoryLine{At: node.StartedAt, Kind: "node", Text: node.String() + " began"})
		}
		if node.Able && node.GoneAt != nil && during(*node.GoneAt) {
			lines = append(lines, StoryLine{At: *node.GoneAt, Kind: "node",
				Text: node.String() + " ended, or was found dead"})
		}
	}
	return lines
}
