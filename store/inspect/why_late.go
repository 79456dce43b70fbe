package inspect

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store"
)

// Lateness tells why an attempt began late, or could not begin before the task expired.
type Lateness struct {
	By   time.Duration `json:"by"` // the delay; nanoseconds in JSON
	Text string        `json:"text"`
	// Until is the time at which the cause ended. Nil means that it had not ended by then, or that the time is not
	// known.
	Until *time.Time `json:"until,omitempty"`
}

func (l Lateness) sentence(at func(time.Time) string) string {
	text := l.Text
	if l.Until != nil {
		text += " until " + at(*l.Until)
	}
	return fmt.Sprintf("%s late: %s", rounded(l.By), text)
}

const (
	// lateLeast is the delay from which an attempt counts as late if nothing was paused.
	lateLeast = 5 * time.Second
	// foundDead is how soon after its start a new node finds a killed one dead. A node that was found dead within
	// this time after another node began may have been gone for hours.
	foundDead = 15 * time.Second
)

// late returns what delayed an attempt. due is the time at which the attempt was due. began is the time at which it
// began, or at which the task expired. late returns nil if the delay is less than lateLeast and no pause caused it.
func (l *life) late(row store.Row, due, began time.Time) *Lateness {
	late := &Lateness{By: began.Sub(due)}
	long := late.By >= lateLeast
	if row.WaitingSince != nil && row.WaitingSince.Equal(due) {
		late.Text = "its handler put it off" + howOften(row.Waits)
		for _, x := range l.executions {
			if x.Outcome == store.AttemptSnoozed && x.Error != nil && x.DueAt != nil && x.DueAt.Equal(due) {
				late.Text += ", because: " + brief(*x.Error, factMost)
			}
		}
		return late
	}
	// The cause is the obstacle that ended shortly before the attempt began. If several ended, the cause is the last
	// of them.
	hold := func(text string, until time.Time) {
		if until.After(due) && !until.After(began) && (late.Until == nil || until.After(*late.Until)) {
			late.Text, late.Until = text, &until
		}
	}
	for _, c := range l.changes {
		switch {
		case c.Verb == "resume":
			hold("it was paused", c.ChangedAt)
		case !long: // a task that is scheduled for now is always a moment late
		case c.Outcome == "created" || c.Outcome == "rearmed" || c.Outcome == "rescheduled":
			// At least half of the delay must be from before the task was scheduled. Otherwise it was only scheduled
			// a moment late, and something else delayed it.
			if c.ChangedAt.Sub(due) >= late.By/2 {
				hold("it was not scheduled for that time", c.ChangedAt)
			}
		}
	}
	for _, p := range l.pauses {
		if p.PausedAt.Before(began) && p.EndsAt != nil {
			hold(p.what()+" was paused by "+p.PausedBy, *p.EndsAt)
		}
		if long && p.PausedAt.Before(began) && (p.EndsAt == nil || p.EndsAt.After(began)) {
			late.Text, late.Until = p.what()+" was paused by "+p.PausedBy, nil
			return late
		}
	}
	if !long { // of a short delay only a pause is worth telling
		if late.Text == "" {
			return nil
		}
		return late
	}
	if !l.mayRead.Nodes {
		if late.Text == "" {
			late.Text = "no node had a free slot for it, or no node was running"
		}
		return late
	}
	if from, none := l.without(due); none {
		hold("no node with queue "+row.Queue+" and type "+row.Type+" was running", from)
		if from.IsZero() || from.After(began) {
			late.Text, late.Until = "no node with queue "+row.Queue+" and type "+row.Type+" was running", nil
		}
	}
	if late.Text == "" {
		late.Text = "its nodes had no free slot, or it waited behind other tasks"
	}
	return late
}

// without reports whether no node that could run the task was there at a time, and when the next such node came. A
// zero until means that none has come.
func (l *life) without(at time.Time) (until time.Time, none bool) {
	for _, node := range l.nodes {
		if node.Able && node.StartedAt.After(at) && (until.IsZero() || node.StartedAt.Before(until)) {
			until = node.StartedAt
		}
	}
	for _, node := range l.nodes {
		if !node.Able || node.StartedAt.After(at) {
			continue
		}
		switch {
		case node.GoneAt == nil:
			return until, false
		case !until.IsZero() && !node.GoneAt.Before(until) && node.GoneAt.Sub(until) < foundDead:
			continue // the new node found it dead, so it may have been gone at that time
		case node.GoneAt.After(at):
			return until, false
		}
	}
	return until, true
}

// due returns the time at which the task's last attempt was due. If there was no attempt, it is the time of the task.
func (l *life) due(row store.Row) time.Time {
	for _, x := range slices.Backward(l.executions) {
		if x.Revision == row.Revision && x.DueAt != nil {
			return *x.DueAt
		}
	}
	return asked(row)
}

// rounded returns a duration as people say it.
func rounded(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

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
