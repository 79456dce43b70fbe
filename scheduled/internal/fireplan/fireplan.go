// Package fireplan decides which fires of a recurring task become occurrences, and when the task fires next. It
// computes only. It asks neither the database nor a clock.
package fireplan

import (
	"fmt"
	"math"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// Task is a recurring task, with all that the leader needs to plan it.
type Task struct {
	ID                  string
	Type                string
	Queue               string
	Revision            int64
	Cron                string
	TimeZone            string
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
	PlannedZoneData     *string    // fingerprint of the zone data that NextFire was planned with; nil: not known
	MovedFrom           *time.Time // not nil: the zone data have changed, NextFire is void, and fires begin after this
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
}

// fire is one occurrence to fork, or the reason why it does not run.
type fire struct {
	At   time.Time
	Skip string
}

// Runs reports whether one of the fires is to run.
func (f Plan) Runs() bool {
	for _, one := range f.Fires {
		if one.Skip == "" {
			return true
		}
	}
	return false
}

const (
	// onTime is how late a single fire may be and still run with catch_up = none. A change of the leader takes seconds.
	onTime = time.Minute
	// maxMissed is how many missed fires the leader looks at one by one. If there are more, it looks at the first
	// fire and at the latest fires. The row of the first fire stands also for the fires that it did not look at. The
	// latest fires are mostly at least half of maxMissed, which is more than any CatchUpLimit.
	maxMissed = 25000
	// MaxSkipped is how many fires that do not run get a row each. If there are more, the first row stands for all
	// earlier ones.
	MaxSkipped = 100
)

// Interval is a time during which a pause was in force. If until is zero, the pause is still in force.
type Interval struct{ From, Until time.Time }

func (i Interval) holds(at time.Time) bool {
	return !at.Before(i.From) && (i.Until.IsZero() || at.Before(i.Until))
}

// Decide returns which occurrences of a task to fork at its Now, and when its next fire is. after is the task's rule.
// It returns the first fire strictly after an instant, or zero.
//
// The fires of a planned task begin with its NextFire. An edit or a resume does not make a task fire. The exceptions
// are fires that the task missed while it was paused, if its setting catch_up_paused says so. blocked is the reason
// why an earlier occurrence keeps the fires from running, or "".
func Decide(r Task, after func(time.Time) time.Time, pauses []Interval, blocked string) Plan {
	due, gap, next := r.due(after)
	f := Plan{Next: next, Count: r.OccurrenceCount, Last: r.LastFire}
	f.fire(r, r.missed(due, gap, pauses), gap, blocked)
	f.end(r)
	return f
}

// due lists the fires up to now, or up to the task's end, and returns the first fire after that. If there are too
// many, due leaves out the fires that come after the first one and up to gap.
func (r Task) due(after func(time.Time) time.Time) (due []time.Time, gap, next time.Time) {
	until := r.Now
	if r.EndsAt != nil && r.EndsAt.Before(until) {
		until = *r.EndsAt
	}
	due, next = r.through(after, r.from(), until)
	if next.IsZero() || next.After(until) {
		return due, gap, next
	}
	var latest []time.Time
	// A binary search finds how far back the latest fires may go.
	for many, few := r.from(), until; len(latest) < maxMissed/2 && few.Sub(many) > time.Second; {
		middle := many.Add(few.Sub(many) / 2)
		if found, following := r.through(after, middle, until); following.IsZero() || following.After(until) {
			few, gap, latest, next = middle, middle, found, following
		} else {
			many = middle
		}
	}
	return append(due[:1], latest...), gap, next
}

// from returns the time after which the due fires begin. A fire at this time itself is not due.
func (r Task) from() time.Time {
	switch {
	case r.MovedFrom != nil:
		return *r.MovedFrom
	case r.Planned:
		return r.NextFire.Add(-time.Nanosecond)
	}
	// LastFire may be later than NextFire if a clock was set back, or in a test.
	bounds := []*time.Time{r.LastFire, &r.NextFire}
	if r.Resumed {
		bounds = []*time.Time{r.LastFire, r.EditedAt}
	}
	from := r.ScheduledAt.Add(-time.Nanosecond) // ScheduledAt may be the first fire
	for _, at := range bounds {
		if at != nil && at.After(from) {
			from = *at
		}
	}
	return from
}

// through lists at most maxMissed fires after from and up to until, and returns the first fire that it does not
// list. The time for which a task was planned is a fire, whatever its expression says, unless the zone data have
// changed since.
func (r Task) through(after func(time.Time) time.Time, from, until time.Time) (due []time.Time, next time.Time) {
	if next = after(from); r.Planned && r.MovedFrom == nil && from.Before(r.NextFire) {
		next = r.NextFire
	}
	for ; !next.IsZero() && !next.After(until) && len(due) < maxMissed; next = after(next) {
		due = append(due, next)
	}
	return due, next
}

// Move finds out whether the next fire was planned with zone data other than those of the rule. If so, it sets
// MovedFrom so that the fire keeps its time on the zone's clocks. Thus no fire is lost, and none comes twice.
func (r *Task) Move(rule *recurrence.Rule, fingerprint string) {
	if !r.Planned || r.PlannedWall == nil || r.PlannedZoneData == nil || *r.PlannedZoneData == fingerprint {
		return
	}
	from := rule.Replan(*r.PlannedWall, r.Now)
	if r.LastFire != nil && r.LastFire.After(from) {
		from = *r.LastFire
	}
	if first := r.ScheduledAt.Add(-time.Nanosecond); first.After(from) { // ScheduledAt may be the first fire
		from = first
	}
	r.MovedFrom = &from
}

// missed is a due fire, with the policy that applies to it.
type missed struct {
	at     time.Time
	policy string // a CatchUp
	paused bool
	later  int  // how many fires come after it with the same value of paused
	alone  bool // no other fire is due
}

// missed finds the policy of each due fire. Fires during a pause have a policy of their own. A task that was paused
// and resumed by itself counts as paused for as long as it did not fire.
func (r Task) missed(due []time.Time, gap time.Time, pauses []Interval) []missed {
	found := make([]missed, len(due))
	later := map[bool]int{}
	for i := len(due) - 1; i >= 0; i-- {
		m := missed{at: due[i], policy: r.CatchUp, paused: r.Resumed && due[i].Before(r.NextFire), alone: len(due) == 1}
		for _, pause := range pauses {
			m.paused = m.paused || pause.holds(due[i])
		}
		if m.paused {
			m.policy = r.CatchUpPaused
		}
		m.later = later[m.paused]
		later[m.paused]++
		if i == 0 && !gap.IsZero() {
			m.later = math.MaxInt // the fires that due left out come after this one
		}
		found[i] = m
	}
	return found
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
func (f *Plan) fire(r Task, due []missed, gap time.Time, blocked string) {
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
		gap = skips[many].At
		skips = append(skips[:1], skips[many+1:]...)
	}
	if !gap.IsZero() && len(skips) > 0 {
		skips[0].Skip += "; so were the fires after it until " + gap.UTC().Format(time.RFC3339)
	}
	f.Fires = append(skips, runs...)
}

// end finds out whether the task goes on.
func (f *Plan) end(r Task) {
	switch {
	case r.MaxOccurrences != nil && f.Count >= *r.MaxOccurrences:
		f.Ended, f.Next = fmt.Sprintf("ended after %d occurrences", f.Count), time.Time{}
	case r.EndsAt != nil && f.Next.After(*r.EndsAt):
		f.Ended, f.Next = "ended at "+r.EndsAt.UTC().Format(time.RFC3339), time.Time{}
	case f.Next.IsZero():
		f.Ended = "ended: the expression has no further fire"
	}
}
