package inspect

import (
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// MaxLeftOut is the greatest number of days in a list of LeftOut.
const MaxLeftOut = 100

// LeftOut is a day whose fires the calendars of a task leave out.
type LeftOut struct {
	At  time.Time `json:"at"`  // its first fire
	Why string    `json:"why"` // such as "2027-12-24 is out (company: closed)"
}

// ExplainFires writes into the fires from where the rule's calendars have moved them, and why. It returns the days
// after from whose fires the calendars leave out, at most MaxLeftOut. It looks as far as the last of the fires, or for a
// year if there are none. more tells that there are more such days.
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
