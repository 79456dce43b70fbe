package recurrence

import "time"

// Moves reports whether calendars may move fires of the rule to other days.
func (r *Rule) Moves() bool { return r.choice != nil && r.choice.move != "" }

// Undecided returns the first day whose fires have not come, if next is the next fire, and last is the one before. A
// caller keeps it, and gives it to Since when the calendars have changed. It returns the zero Date if the rule does not
// move fires, or if it moves them to earlier days and last is the zero time.
func (r *Rule) Undecided(last, next time.Time) Date {
	switch {
	case !r.Moves():
		return Date{}
	case r.choice.move == MoveNext && !next.IsZero():
		search := r.search()
		day := dayOf(r.wallOf(next))
		return dateOf(min(search.source(search.firstSource(day)), lastDay))
	case r.choice.move == MovePrevious && !last.IsZero():
		day := dayOf(r.wallOf(last))
		return dateOf(min(r.search().firstIn(day+1), day+MaxMoveDays, lastDay)) // the days between have moved to last
	}
	return Date{}
}

// Since returns the rule without the fires of days before undecided, wherever the calendars have moved them. A rule
// that moves fires to earlier days also loses those of the days before from. So a caller that plans anew after a change
// of the calendars at from neither loses a fire that has moved to an earlier time, nor has one again that has moved to
// a later time.
func (r *Rule) Since(undecided Date, from time.Time) *Rule {
	if !r.Moves() {
		return r
	}
	later, choice := *r, *r.choice
	if !undecided.IsZero() {
		choice.since = undecided.number()
	}
	if choice.move == MovePrevious {
		offset, _ := r.offset(from.Unix())
		wall := from.Unix() + offset
		day := dayOf(wall)
		if _, more := r.clock(wall - day*daySeconds + 1); !more {
			day++ // the fires of this day are over
		}
		choice.since = max(choice.since, day)
	}
	later.choice = &choice
	return &later
}
