package inspect

import (
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
)

// Lateness is why an attempt began late, or could not begin before the task expired.
type Lateness struct {
	By   time.Duration `json:"by"` // nanoseconds in JSON
	Text string        `json:"text"`
	// Until is when what held it up was over; nil: it was not, or it is not known.
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
	// lateLeast is how late an attempt must be for somebody to wonder, if nothing was paused.
	lateLeast = 5 * time.Second
	// A killed node is found dead so long after another has begun: until then it may have been gone for hours.
	foundDead = 15 * time.Second
)

// late finds what held up an attempt that was due at one time and began, or was given up, at another; nil: it was not
// late, or by less than lateLeast, and no pause had held it up.
func (l *life) late(row store.Row, due, began time.Time) *Lateness {
	late := &Lateness{By: began.Sub(due)}
	long := late.By >= lateLeast
	// What was over shortly before is the reason; of several the last.
	hold := func(text string, until time.Time) {
		if until.After(due) && !until.After(began) && (late.Until == nil || until.After(*late.Until)) {
			late.Text, late.Until = text, &until
		}
	}
	for _, c := range l.changes {
		switch {
		case c.Verb == "resume":
			hold("it was paused", c.ChangedAt)
		case !long: // it is scheduled late by a moment whenever it is scheduled for now
		case c.Outcome == "created" || c.Outcome == "rearmed" || c.Outcome == "rescheduled":
			// Most of the lateness must be from before it was scheduled. Else it was scheduled a moment late, and
			// something else held it up.
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
	if !long { // of a pause, however short, everybody wants to know; of the rest nobody
		if late.Text == "" {
			return nil
		}
		return late
	}
	if !l.mayRead.Nodes {
		if late.Text == "" {
			late.Text = "no node had room for it, or none was there"
		}
		return late
	}
	if from, none := l.without(due); none {
		hold("no node with queue "+row.Queue+" and type "+row.Type+" was there", from)
		if from.IsZero() || from.After(began) {
			late.Text, late.Until = "no node with queue "+row.Queue+" and type "+row.Type+" was there", nil
		}
	}
	if late.Text == "" {
		late.Text = "its nodes had their hands full, or it waited behind others"
	}
	return late
}

// without says whether no node that could run the task was there at a time, and when the next came; zero: none has.
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
			continue // found by the one that came: it may have been gone by then
		case node.GoneAt.After(at):
			return until, false
		}
	}
	return until, true
}

// due is when the task's last attempt was due, or the task itself.
func (l *life) due(row store.Row) time.Time {
	for i := len(l.executions) - 1; i >= 0; i-- {
		if x := l.executions[i]; x.Revision == row.Revision && x.DueAt != nil {
			return *x.DueAt
		}
	}
	if row.RunNowAt != nil {
		return *row.RunNowAt
	}
	return row.ScheduledAt
}

// rounded is a duration as people say it.
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
