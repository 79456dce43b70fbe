package store

import (
	"maps"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// wait is a time during which the task was due and had not begun.
type wait struct{ from, until time.Time }

// waits lists them: of each attempt, and of the task as it is now.
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
	case row.Status == StatusExpired && row.FinishedAt != nil:
		waits = append(waits, wait{l.due(row), *row.FinishedAt})
	case row.NextAttemptAt != nil && row.NextAttemptAt.Before(e.At):
		waits = append(waits, wait{*row.NextAttemptAt, e.At})
	}
	return waits
}

// around tells which pauses held during a wait, and, if it was long, which nodes that could have run the task came and went.
func (l *life) around(w wait) (lines []StoryLine) {
	for _, p := range l.pauses {
		if !p.PausedAt.Before(w.until) || p.EndsAt != nil && !p.EndsAt.After(w.from) {
			continue
		}
		line := StoryLine{At: p.PausedAt, Kind: "pause", Text: p.what() + " was paused by " + p.PausedBy}
		if p.EndsAt != nil {
			line.Facts = append(line.Facts, Fact{Name: "until", Value: *p.EndsAt})
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
			lines = append(lines, StoryLine{At: *node.GoneAt, Kind: "node", Text: node.String() + " ended, or was found dead"})
		}
	}
	return lines
}

// firesTold is how many of a recurring task's next fires are told.
const firesTold = 3

// next is what comes next as things are.
func (e *Explanation) next(known life) (upcoming []Upcoming) {
	if e.Row == nil {
		return nil
	}
	at := func(t *time.Time, text string) { upcoming = append(upcoming, Upcoming{t, text}) }
	row := *e.Row
	switch e.Reason.Code {
	case "not_due", "retry":
		at(row.NextAttemptAt, "it is due")
	case "paused":
		if row.PausedUntil != nil {
			at(row.PausedUntil, "the leader resumes it")
		} else {
			at(nil, "it waits until somebody resumes it")
		}
	case "paused_scope":
		if e.Reason.Until != nil {
			at(e.Reason.Until, "the pause ends, and it runs")
		} else {
			at(nil, "it runs when somebody resumes what is paused")
		}
	case "in_line", "planning", "firing":
		at(nil, "the leader takes it when its turn has come")
	case "no_node", "no_type", "no_queue", "no_both", "no_leader":
		at(nil, "it runs as soon as such a node is there and one leads")
	case "running", "edited":
		at(row.HeldUntil, "its lease ends, unless its handler has ended or has lengthened it")
	case "lapsed":
		at(nil, "the leader takes its claim back within a second")
	case "recurring":
		for _, fire := range fires(row) {
			at(&fire, "it fires")
		}
	}
	if expires := expiry(row, e.Reason.Code); expires != nil {
		at(expires, "it expires, if it has not started by then")
	}
	if known.parent != nil && row.FinishedAt != nil {
		for _, fire := range fires(*known.parent) {
			at(&fire, "its recurring task "+known.parent.ID+" fires")
			break
		}
	}
	slices.SortStableFunc(upcoming, func(a, b Upcoming) int {
		switch {
		case a.At == nil && b.At == nil:
			return 0
		case a.At == nil: // what has no time is first
			return -1
		case b.At == nil:
			return 1
		}
		return a.At.Compare(*b.At)
	})
	return upcoming
}

// expiry is when a waiting task expires; nil: never, or, after an attempt of one with jitter, only the database knows.
func expiry(row Row, code string) *time.Time {
	if row.Expiration == nil || row.FinishedAt != nil || row.Fence != nil || row.Cron != nil || code == "expires" {
		return nil
	}
	due := row.ScheduledAt
	switch {
	case row.RunNowAt != nil:
		due = *row.RunNowAt
	case row.Attempt == 0 && row.NextAttemptAt != nil && code != "retry":
		due = *row.NextAttemptAt
	case row.Jitter != nil:
		return nil
	}
	return new(due.Add(*row.Expiration))
}

// fires lists the next fires of a recurring task that goes on. The first is the leader's: it may have been planned by hand.
func fires(row Row) (next []time.Time) {
	planned := row.PlannedRevision != nil && *row.PlannedRevision == row.Revision
	if row.Cron == nil || row.Status != StatusQueued || row.NextAttemptAt == nil || !planned {
		return nil
	}
	rule, err := recurrence.Parse(*row.Cron, deref(row.TimeZone))
	if err != nil {
		return nil
	}
	rule = rule.Anchored(row.ScheduledAt)
	for at := *row.NextAttemptAt; !at.IsZero() && len(next) < firesTold; at = rule.Next(at) {
		if row.EndsAt != nil && at.After(*row.EndsAt) {
			break
		}
		if row.MaxOccurrences != nil && row.OccurrenceCount+len(next) >= *row.MaxOccurrences {
			break
		}
		next = append(next, at)
	}
	return next
}
