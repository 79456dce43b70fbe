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
	case edited && rule.Moves() && r.PlannedDay != nil:
		// The fires of the days before were decided, also if the calendars have moved them to a later time since.
		rule = rule.Since(recurrence.DateOf(*r.PlannedDay))
	case edited:
		// Between the change and the planned fire, days may be in that were out. NextFire is the time of the change.
		planned := edit.Fire.Add(-time.Nanosecond)
		if r.NextFire.Before(planned) {
			planned = r.NextFire
		}
		from = later(from, planned)
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
