// Package fireplan decides which fires of a recurring task become occurrences, and when the task fires next. It
// computes only. It asks neither the database nor a clock.
package fireplan

import (
	"fmt"
	"slices"
	"time"
)

// Task is a recurring task, with all that the leader needs to plan it.
type Task struct {
	ID                  string
	Type                string
	Queue               string
	Revision            int64
	Cron                string
	TimeZone            string
	TenantID            string // whose calendars it has; "": the general ones alone
	Overlap             string
	CatchUp             string
	CatchUpPaused       string
	CatchUpLimit        int
	ScheduledAt         time.Time  // there is no fire before it; anchor of @every
	LastFire            *time.Time // nil: it has not fired
	NextFire            time.Time  // the planned fire; if not Planned, the time from which to plan
	EndsAt              *time.Time
	MaxOccurrences      *int
	OccurrenceCount     int
	OpenOccurrencesFrom *time.Time // all earlier occurrences have ended
	Planned             bool       // NextFire was planned for the current revision of the task
	PlannedWall         *time.Time // the time on the zone's clocks at NextFire, as if in UTC; nil for @every
	PlannedZoneData     *string    // fingerprint of the zone data of NextFire; nil: not known; see Edit
	PlannedDay          *time.Time // the first day whose fires have not come; nil: the rule moves no fires
	MovedFrom           *time.Time // not nil: NextFire is void, see Move, and fires begin after this
	Rests               bool       // without a fire it waits for a change of its calendars
	Resumed             bool       // not planned, because it was paused and resumed
	EditedAt            *time.Time // if Resumed: the last edit before the pause
	Now                 time.Time
}

// Plan is the result of a look at a recurring task.
type Plan struct {
	Fires []fire
	Next  time.Time // the next fire; zero: there is none, because the task has ended
	Last  *time.Time
	Count int
	Ended string // why there is no next fire
	Runs  bool   // one of the due fires is to run, now or at one of the next looks
	Rests bool   // Next is no fire, but the time to look again
}

// fire is one occurrence to fork, or the reason why it does not run.
type fire struct {
	At   time.Time
	Skip string
}

const (
	// onTime is how late a single fire may be and still run with catch_up = none. A change of the leader takes seconds.
	onTime = time.Minute
	// MaxSkipped is how many fires that do not run get a row each. If there are more, the first row stands for all
	// earlier ones.
	MaxSkipped = 100
)

// Interval is a time during which a pause was in force. If until is zero, the pause is still in force.
type Interval struct{ From, Until time.Time }

func (i Interval) holds(at time.Time) bool {
	return !at.Before(i.From) && (i.Until.IsZero() || at.Before(i.Until))
}

// GoesOn reports whether an earlier look has decided about the fires from NextFire to LastFire, and has left them,
// because they were too many at once. An occurrence of this task cannot block them, because it may be one of theirs.
func (r Task) GoesOn() bool {
	return r.Planned && r.LastFire != nil && !r.NextFire.After(*r.LastFire)
}

// Due is the due fires of a task, in order.
type Due struct {
	Task  Task
	fires []missed
	next  time.Time // the first fire that is not due
}

// Fires returns how many fires are listed. A plan has no more than that.
func (d Due) Fires() int { return len(d.fires) }

// Decide returns which occurrences of a task to fork at its Now, and when its next fire is. blocked is the reason why
// an earlier occurrence keeps the fires from running, or "": taskdb/fork.go (add) asks for overlap = skip.
//
// If some of the fires run, Decide returns at most `most` fires. It leaves the others to the next looks, see GoesOn.
func (d Due) Decide(blocked string, most int) Plan {
	f := Plan{Next: d.next, Count: d.Task.OccurrenceCount, Last: d.Task.LastFire}
	if d.Task.GoesOn() {
		blocked = ""
	}
	f.fire(d.Task, d.fires, blocked)
	f.end(d.Task)
	f.Runs = slices.ContainsFunc(f.Fires, func(one fire) bool { return one.Skip == "" })
	f.cut(d, most)
	f.rest(d.Task)
	return f
}

// cut leaves all but the first `most` fires to the next looks. It does so only if some of the fires run, because the
// next looks do not know that the fires were blocked. At most MaxSkipped fires do not run.
func (f *Plan) cut(d Due, most int) {
	if len(f.Fires) <= most || !f.Runs {
		return
	}
	slices.SortStableFunc(f.Fires, func(a, b fire) int { return a.At.Compare(b.At) })
	f.Next, f.Last = f.Fires[most].At, &d.fires[len(d.fires)-1].at
	f.Fires, f.Ended, f.Count = f.Fires[:most], "", d.Task.OccurrenceCount
	for _, one := range f.Fires {
		if one.Skip == "" {
			f.Count++
		}
	}
}

// skip returns the reason why the fire does not run, or "".
func (m missed) skip(r Task) string {
	while, setting := "missed", "catch_up"
	if m.paused {
		while, setting = "missed while paused", "catch_up_paused"
	}
	switch {
	case m.policy == "none" && (m.paused || !m.alone || r.Now.Sub(m.at) > onTime):
		return fmt.Sprintf("%s, and %s is none", while, setting)
	case m.policy == "latest" && m.later > 0:
		return fmt.Sprintf("%s, and %s runs only the latest", while, setting)
	case m.policy == "all" && m.later >= r.CatchUpLimit:
		return fmt.Sprintf("%s, and %s runs only the latest %d", while, setting, r.CatchUpLimit)
	}
	return ""
}

// fire applies the task's policies to the due fires.
func (f *Plan) fire(r Task, due []missed, blocked string) {
	var runs, skips []fire
	// last is the index of the last fire that runs. With overlap = skip it is the only one that runs, except for fires
	// whose policy is "all".
	last := -1
	for i, m := range due {
		if m.skip(r) == "" {
			last = i
		}
	}
	for i, m := range due {
		if r.MaxOccurrences != nil && f.Count >= *r.MaxOccurrences {
			break
		}
		skip := m.skip(r)
		if skip == "" && i < last && r.Overlap == "skip" && m.policy != "all" {
			skip = "missed, and a later one runs because overlap is skip"
		}
		if skip == "" {
			skip = blocked
		}
		if skip == "" {
			runs = append(runs, fire{At: m.at})
			f.Count++
		} else {
			skips = append(skips, fire{m.at, skip})
		}
		f.Last = new(m.at)
	}
	if many := max(len(skips)-MaxSkipped, 0); many > 0 {
		skips[0].Skip += "; so were the fires after it until " + skips[many].At.UTC().Format(time.RFC3339)
		skips = append(skips[:1], skips[many+1:]...)
	}
	f.Fires = append(skips, runs...)
}

// end finds out whether the task goes on.
func (f *Plan) end(r Task) {
	switch {
	case r.MaxOccurrences != nil && f.Count >= *r.MaxOccurrences:
		f.Ended, f.Next = fmt.Sprintf("ended after %d occurrences", f.Count), time.Time{}
	case r.EndsAt != nil && (f.Next.After(*r.EndsAt) || f.Next.IsZero() && r.Now.After(*r.EndsAt)):
		f.Ended, f.Next = "ended at "+r.EndsAt.UTC().Format(time.RFC3339), time.Time{}
	case f.Next.IsZero() && !r.Rests:
		f.Ended = "ended: the expression has no further fire"
	}
}
