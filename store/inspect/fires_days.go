package inspect

import (
	"slices"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// MaxLeftOut is the greatest number of days in a list of LeftOut.
const MaxLeftOut = 50

// LeftOut is a day whose fires the calendars of a task leave out.
type LeftOut struct {
	At  time.Time `json:"at"`  // its first fire
	Why string    `json:"why"` // such as "2027-12-24 is out (company: closed)"
}

// ExplainFires writes into the fires from where the rule's calendars have moved them, and why. It returns the days
// after from whose fires the calendars leave out, at most MaxLeftOut. It looks as far as the last of the fires, or for
// a year if there are none. more tells that there are more such days.
func ExplainFires(rule *recurrence.Rule, from time.Time, fires []Fire) (days []LeftOut, more bool) {
	if !rule.HasCalendars() {
		return nil, false
	}
	to := from.AddDate(1, 0, 0)
	for i := range fires {
		fire := &fires[i]
		to = fire.At
		same, _ := rule.Explain(fire.At.Add(-time.Nanosecond), fire.At, 2) // one of that time may be left out, too
		for _, one := range same {
			if one.Moved {
				fire.MovedFrom, fire.Why = new(one.From), one.Why
			}
		}
	}
	found, more := rule.LeftOut(from, to, MaxLeftOut)
	for _, one := range found {
		days = append(days, LeftOut{one.From, one.Why})
	}
	return days, more
}

// leftOutTold is how many days that calendars leave out an Explanation tells.
const leftOutTold = 10

// coming tells the next fires of a recurring task that begins at start, and which of them calendars move or leave out.
func coming(next []time.Time, rule *recurrence.Rule, start, now time.Time) []Upcoming {
	told := make([]Fire, len(next))
	for i, at := range next {
		told[i].At = at
	}
	if len(next) == 0 {
		return nil
	}
	days, more := ExplainFires(rule.Anchored(start), later(now, start.Add(-time.Nanosecond)), told)
	var upcoming []Upcoming
	for _, fire := range told {
		text := "it fires"
		if fire.MovedFrom != nil {
			text += ", moved from another day: " + fire.Why
		}
		upcoming = append(upcoming, Upcoming{&fire.At, text})
	}
	for i, day := range days[:min(len(days), leftOutTold)] {
		text := "it does not fire: " + day.Why
		if i == leftOutTold-1 && (more || len(days) > leftOutTold) {
			text += ", and later days are out, too"
		}
		upcoming = append(upcoming, Upcoming{&day.At, text})
	}
	return upcoming
}

// leftOut tells why calendars leave out a fire, or returns "".
func leftOut(rule *recurrence.Rule, fire time.Time) string {
	found, _ := rule.Explain(fire.Add(-time.Nanosecond), fire, 2)
	at := slices.IndexFunc(found, func(one recurrence.Fire) bool { return one.LeftOut })
	if at < 0 {
		return ""
	}
	return ", because " + found[at].Why
}
