package fireplan

import (
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// restTime is after how long the leader looks again at a task that has no fire because of its calendars. A change of a
// calendar makes it look at once.
const restTime = 30 * 24 * time.Hour

// Edit is a change of a calendar after the leader had planned the next fire.
type Edit struct {
	Calendar string
	Fire     time.Time // the fire that was planned before
}

// Edit reads the change that the trigger of the calendars has noted in PlannedZoneData: the word calendar, the name and
// the fire.
func (r *Task) Edit() (e Edit, edited bool) {
	if !r.Planned || r.GoesOn() || r.PlannedZoneData == nil {
		return e, false
	}
	words := strings.Fields(*r.PlannedZoneData)
	if len(words) != 3 || words[0] != "calendar" {
		return e, false
	}
	fire, err := time.Parse(time.RFC3339Nano, words[2])
	return Edit{words[1], fire}, err == nil
}

// Move finds out whether the next fire was planned with other zone data or other days of calendars than those of the
// rule. If so, it sets MovedFrom so that no fire is lost, and none comes twice. It returns the rule to plan by.
func (r *Task) Move(rule *recurrence.Rule, fingerprint string) *recurrence.Rule {
	from := r.begins()
	switch edit, edited := r.Edit(); {
	case edited:
		// Between the change and the planned fire, days may be in that were out. NextFire is the time of the change.
		changed := edit.Fire.Add(-time.Nanosecond)
		if r.NextFire.Before(changed) {
			changed = r.NextFire
		}
		if rule.Moves() {
			// Fires that have not come yet may have moved to a time before the change.
			rule = rule.Since(r.undecided(), changed)
		} else {
			from = later(from, changed)
		}
	case !r.Planned || r.GoesOn() || r.PlannedWall == nil || r.PlannedZoneData == nil ||
		*r.PlannedZoneData == fingerprint:
		return rule
	default: // the fire keeps its time on the zone's clocks
		from = later(from, rule.Replan(*r.PlannedWall, r.Now))
	}
	if r.LastFire != nil {
		from = later(from, *r.LastFire)
	}
	r.MovedFrom = &from
	return rule
}

// undecided returns the first day whose fires have not come.
func (r *Task) undecided() (day recurrence.Date) {
	if r.PlannedDay != nil {
		day = recurrence.DateOf(*r.PlannedDay)
	}
	return day
}

// Undecided returns the PlannedDay for the plan. The days whose fires have come stay so if none comes now.
func (f *Plan) Undecided(r Task, rule *recurrence.Rule) *time.Time {
	var last, next time.Time
	if len(f.Fires) > 0 {
		last = *f.Last
	}
	if !f.Rests {
		next = f.Next
	}
	day := rule.Undecided(last, next)
	if day.IsZero() || !rule.Moves() {
		return r.PlannedDay
	}
	return new(time.Date(day.Year, day.Month, day.Day, 0, 0, 0, 0, time.UTC))
}

// rest finds out whether the task waits for a change of its calendars.
func (f *Plan) rest(r Task) {
	if !f.Next.IsZero() || f.Ended != "" {
		return
	}
	f.Rests, f.Next = true, r.Now.Add(restTime)
	if r.EndsAt != nil && r.EndsAt.Before(f.Next) {
		f.Next = r.EndsAt.Add(time.Microsecond)
	}
}
