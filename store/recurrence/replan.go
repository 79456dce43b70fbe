package recurrence

import "time"

// Moves reports whether calendars may move fires of the rule to other days.
func (r *Rule) Moves() bool { return r.choice != nil && r.choice.move != "" }

// Source returns the first of the days whose fires have moved to the day of a fire, or that day itself. A caller keeps
// it beside the fire, and gives it to Since when the calendars have changed. It returns the zero Date if the rule does
// not move fires.
func (r *Rule) Source(fire time.Time) Date {
	if !r.Moves() || fire.IsZero() {
		return Date{}
	}
	day, search := dayOf(r.wallOf(fire)), r.search()
	return dateOf(min(search.source(search.firstSource(day)), lastDay))
}

// Since returns the rule without the fires of the days before day, wherever the calendars have moved them. So a caller
// that plans anew after a change of the calendars neither loses a fire that has moved to an earlier time, nor has one
// again that has moved to a later time.
func (r *Rule) Since(day Date) *Rule {
	if r.choice == nil {
		return r
	}
	later, choice := *r, *r.choice
	choice.since = day.number()
	later.choice = &choice
	return &later
}
