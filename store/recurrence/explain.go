package recurrence

import (
	"fmt"
	"time"
)

// Fire is a fire of a rule, or one that the rule's calendars leave out.
type Fire struct {
	At      time.Time // the zero time if the fire is left out
	From    time.Time // when the expression would fire without calendars; At unless the fire is moved or left out
	Moved   bool
	LeftOut bool
	Why     string // why it is moved or left out, such as "2027-12-24 is out (company: closed)"
}

// When returns At, or From if the fire is left out.
func (f Fire) When() time.Time {
	if f.LeftOut {
		return f.From
	}
	return f.At
}

// Explain returns the fires after from, up to and including to, as Between does, and among them the fires that the
// calendars leave out. They are in the order of When. It returns the first most of them. more reports whether there
// are further ones. A fire that moves to the time of another is left out, because both are one. Fires that the option
// every leaves out are not told.
func (r *Rule) Explain(from, to time.Time, most int) (fires []Fire, more bool) {
	for {
		at := r.Next(from)
		last := at.IsZero() || at.After(to)
		until := at
		if last {
			until = to
		}
		fires = r.appendLeftOut(fires, from, until, most)
		if !last {
			fires = append(fires, r.explain(at))
		}
		if len(fires) > most {
			return fires[:max(most, 0)], true
		}
		if last {
			return fires, false
		}
		from = at
	}
}

// explain tells whether a fire has moved, and from where.
func (r *Rule) explain(at time.Time) Fire {
	fire := Fire{At: at, From: at}
	if r.choice == nil || r.choice.move == "" {
		return fire
	}
	wall := r.wallOf(at)
	day := dayOf(wall)
	source := r.search().movedFrom(day)
	if source != day {
		fire.Moved, fire.Why = true, r.choice.whyOut(source)
		fire.From = time.Unix(r.reached(wall+(source-day)*daySeconds), 0).UTC()
	}
	return fire
}

// movedFrom returns the day whose fires a day has: the day itself, or else the nearest.
func (s *search) movedFrom(day int64) int64 {
	if s.isSource(day) {
		return day
	}
	if s.move == MovePrevious {
		return s.source(day)
	}
	source := day - 1
	for !s.isSource(source) && source > day-MaxMoveDays {
		source--
	}
	return source
}

// appendLeftOut appends the fires after from, up to and including to, that are left out, until there are more than
// most.
func (r *Rule) appendLeftOut(fires []Fire, from, to time.Time, most int) []Fire {
	if r.choice == nil || len(r.choice.out)+len(r.choice.keep) == 0 {
		return fires
	}
	plain := r.withoutCalendars()
	known, why := int64(never), ""
	for len(fires) <= most {
		at := plain.Next(from)
		if at.IsZero() || at.After(to) {
			break
		}
		day := dayOf(plain.wallOf(at))
		if day != known {
			known, why = day, r.search().whyLeftOut(day)
		}
		if from = at; why != "" {
			fires = append(fires, Fire{From: at, LeftOut: true, Why: why})
		}
	}
	return fires
}

func (r *Rule) withoutCalendars() *Rule {
	plain, choice := *r, *r.choice
	choice.out, choice.keep, choice.move = nil, nil, ""
	plain.choice = &choice
	return &plain
}

// wallOf returns the wall time for which a fire is. At the end of a gap it is the first one that the gap skips.
func (r *Rule) wallOf(fire time.Time) int64 {
	at := fire.Unix()
	if r.every > 0 || !r.fixed {
		offset, _ := r.offset(at)
		return at + offset
	}
	offset, _ := r.offset(at - 1)
	wall, _ := r.match(at + offset)
	return wall
}

// whyLeftOut says why the fires of a day are left out. It returns "" if they are not.
func (s *search) whyLeftOut(day int64) string {
	if s.in(day) {
		return ""
	}
	why := s.whyOut(day)
	var to int64
	var found, taken bool
	switch s.move {
	case MoveNext:
		if to = s.firstIn(day); to == never || to-day > MaxMoveDays {
			return fmt.Sprintf("%s, and no day of the %d after it is in", why, MaxMoveDays)
		}
		taken = s.source(day+1) <= to
	case MovePrevious:
		if to, found = s.lastIn(day); !found {
			if s.from > day-MaxMoveDays {
				return fmt.Sprintf("%s, and no earlier day is in, because the first is from=%s", why, dateOf(s.from))
			}
			return fmt.Sprintf("%s, and no day of the %d before it is in", why, MaxMoveDays)
		}
		taken = s.source(to) < day
	default:
		return why
	}
	if taken {
		return fmt.Sprintf("%s, and %s has a fire at this time anyway", why, dateOf(to))
	}
	return ""
}

// whyOut names the first calendar because of which a day is out.
func (c *choice) whyOut(day int64) string {
	because := ""
	for _, one := range c.keep {
		if one.days != nil && !one.days.has(day) {
			because = "not in " + one.name
		}
	}
	for _, one := range c.out {
		if one.days == nil || !one.days.has(day) {
			continue
		}
		because = one.name
		if days, ok := one.days.(Days); ok {
			if note := days.Note(dateOf(day)); note != "" {
				because += ": " + note
			}
		}
		break
	}
	return fmt.Sprintf("%s is out (%s)", dateOf(day), because)
}
