package recurrence

import (
	"slices"
	"time"
)

// unit is days, weeks or months, which the option every counts.
type unit int

const (
	unitDay unit = iota
	unitWeek
	unitMonth
)

// choice is what the options choose among the days of an expression. It works on the days of the calendar, before the
// zone's clocks are asked. Therefore the rules for clocks that change hold for a moved fire as for any other.
type choice struct {
	unit   unit
	every  int64 // 1 unless each Nth unit counts
	origin int64 // the index of the unit that counts from
	from   int64 // the first day on which it may fire
	since  int64 // the fires of earlier days are left out; see Rule.Since
	out    []calendar
	keep   []calendar
	move   Move
	until  int64 // the last day on which somebody asks for a fire
}

// The days of the years 1 to 9999, and some around them, because a zone may show a day earlier or later than UTC.
var (
	firstDay = Date{1, time.January, 1}.number() - 2
	lastDay  = Date{9999, time.December, 31}.number() + 2
)

func newChoice(o Options, dayOfMonth, dayOfWeek, month members) (*choice, error) {
	c := &choice{every: 1, from: firstDay, since: firstDay, until: lastDay, move: o.Move}
	c.out, c.keep = readCalendars(o.OutOf), readCalendars(o.KeepTo)
	if o.Every <= 1 {
		return c, nil
	}
	switch {
	case !dayOfMonth.any && !dayOfWeek.any:
		return nil, invalid("cron", "option every must not go with both a day of month and a day of week, because it "+
			"would be unclear whether it counts weeks or months", o.Join(""))
	case !dayOfWeek.any:
		c.unit = unitWeek
	case !dayOfMonth.any || !month.any:
		c.unit = unitMonth
	}
	c.every, c.from = int64(o.Every), o.From.number()
	c.origin = c.index(c.from)
	return c, nil
}

const monday = -3 // the number of a Monday: day 0, 1970-01-01, is a Thursday

// index returns the number of the unit that contains a day.
func (c *choice) index(day int64) int64 {
	switch c.unit {
	case unitWeek:
		return (day - monday - modulo(day-monday, 7)) / 7
	case unitMonth:
		date := dateOf(day)
		return int64(date.Year)*12 + int64(date.Month) - 1
	default:
		return day
	}
}

// counts returns the first day, at or after day, that is in a unit that counts.
func (c *choice) counts(day int64) int64 {
	day = max(day, c.from, c.since)
	if c.every == 1 {
		return day
	}
	index := c.index(day)
	passed := modulo(index-c.origin, c.every)
	if passed == 0 {
		return day
	}
	index += c.every - passed
	switch c.unit {
	case unitWeek:
		return index*7 + monday
	case unitMonth:
		return Date{int(index / 12), time.Month(index%12 + 1), 1}.number()
	default:
		return index
	}
}

// in reports whether the calendars leave a day in. A calendar that is not bound is not asked.
func (c *choice) in(day int64) bool {
	for _, one := range c.out {
		if one.days != nil && one.days.has(day) {
			return false
		}
	}
	for _, one := range c.keep {
		if one.days != nil && !one.days.has(day) {
			return false
		}
	}
	return true
}

// Calendars returns the names of the calendars that the rule needs, in alphabetical order. They are those that With
// binds. The built-in workdays is not among them.
func (r *Rule) Calendars() []string {
	var names []string
	if r.choice != nil {
		for _, one := range slices.Concat(r.choice.out, r.choice.keep) {
			if IsCalendarName(one.name) {
				names = append(names, one.name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// HasCalendars reports whether the rule's text names calendars, be it only workdays.
func (r *Rule) HasCalendars() bool {
	return r.choice != nil && len(r.choice.out)+len(r.choice.keep) > 0
}

// With returns the rule with the days of its calendars by their names. A calendar that is missing has no days. A rule
// that With has not returned knows workdays only, and fires as if its text did not name the other calendars.
func (r *Rule) With(days map[string]Days) *Rule {
	if r.choice == nil {
		return r
	}
	bound, choice := *r, *r.choice
	choice.out, choice.keep = bind(choice.out, days), bind(choice.keep, days)
	bound.choice = &choice
	return &bound
}

// MaxYears is after how many years a fire does not count, because nobody plans for so long.
const MaxYears = 20

// NeverFires reports whether a rule has no fire within MaxYears after a time. It takes a few milliseconds at most.
func (r *Rule) NeverFires(after time.Time) bool {
	next := r.Next(after)
	return next.IsZero() || next.After(after.AddDate(MaxYears, 0, 0))
}

// mostSteps bounds a search. A step passes over a day at least, or finds out that a day is none. Therefore the search
// covers MaxYears, however few days are in.
const mostSteps = 3 * MaxYears * 366

// search looks for days on which a rule with options fires.
type search struct {
	*choice
	rule  *Rule
	steps int // that are left
}

func (r *Rule) search() *search { return &search{choice: r.choice, rule: r, steps: mostSteps} }

// boundedBy returns the rule for a caller who asks for no fire after to. Then a rule whose later days are all out
// costs no long search.
func (r *Rule) boundedBy(to time.Time) *Rule {
	if r.choice == nil || !to.Before(latest) {
		return r
	}
	const zones = 3 // days that a zone's clocks may show before UTC does, and more
	bounded, choice := *r, *r.choice
	choice.until = min(choice.until, dayOf(to.Unix())+MaxMoveDays+zones)
	bounded.choice = &choice
	return &bounded
}

// source returns the first day, at or after day, on which the expression fires in a unit that counts, whatever the
// calendars say.
func (s *search) source(day int64) int64 {
	for ; s.steps > 0 && day <= s.until; s.steps-- {
		switch counting := s.counts(day); {
		case counting > day:
			day = counting
		case s.rule.firesOn(day):
			return day
		default:
			day++
		}
	}
	return never
}

// firstIn returns the first day, at or after day, that the calendars leave in.
func (s *search) firstIn(day int64) int64 {
	for ; s.steps > 0 && day <= s.until; s.steps-- {
		if s.in(day) {
			return day
		}
		day++
	}
	return never
}

// lastIn returns the last day, at or before day, that is in and not too far away. There may be none.
func (s *search) lastIn(day int64) (last int64, found bool) {
	for last = day; last >= max(day-MaxMoveDays, s.from); last-- {
		if s.in(last) {
			return last, true
		}
		s.steps--
	}
	return 0, false
}

// target returns the first day, at or after day, on which the rule fires, be it by a move of at most MaxMoveDays. An
// earlier source never moves to a later day than a later source. Therefore the first source that reaches day is the
// one.
func (s *search) target(day int64) int64 {
	source := s.source(s.firstSource(day))
	for source < never {
		switch s.move {
		case MoveNext:
			in := s.firstIn(source)
			if in == never || in-source <= MaxMoveDays {
				return in
			}
			source = s.source(in - MaxMoveDays)
		case MovePrevious:
			if last, found := s.lastIn(source); found && last >= day {
				return last
			}
			source = s.source(s.firstIn(source)) // none before it reaches day
		default:
			in := s.firstIn(source)
			if in == source {
				return in
			}
			source = s.source(in)
		}
	}
	return never
}

// firstSource returns the first day from which a fire may come to day or a later day.
func (s *search) firstSource(day int64) int64 {
	first := day
	if s.move == MoveNext {
		for first > day-MaxMoveDays && !s.in(first-1) {
			first--
			s.steps--
		}
	}
	return first
}

// isSource reports whether source returns the day itself.
func (s *search) isSource(day int64) bool { return s.counts(day) == day && s.rule.firesOn(day) }

// firesOn reports whether the fields of the expression match a day.
func (r *Rule) firesOn(day int64) bool {
	at := midnight(day)
	return r.spec.Month>>at.Month()&1 != 0 && r.days.match(at)
}

// matchChosen is match for a rule with options. It finds nothing if the search takes too many steps.
func (r *Rule) matchChosen(from int64) (wall int64, found bool) {
	day := dayOf(from)
	search := r.search()
	target := search.target(day)
	if target == day {
		if clock, found := r.clock(from - day*daySeconds); found {
			return day*daySeconds + clock, true
		}
		target = search.target(day + 1)
	}
	if target == never {
		return never, false
	}
	clock, _ := r.clock(0)
	return target*daySeconds + clock, true
}

// clock returns the first second of a day, at or after from, that the fields match.
func (r *Rule) clock(from int64) (second int64, found bool) {
	for second = from; second < daySeconds; {
		hour, minute := second/3600, second/60
		switch {
		case r.spec.Hour>>hour&1 == 0:
			second = (hour + 1) * 3600
		case r.spec.Minute>>(minute%60)&1 == 0:
			second = (minute + 1) * 60
		case r.spec.Second>>(second%60)&1 == 0:
			second++
		default:
			return second, true
		}
	}
	return 0, false
}

// nextElapsed returns the first instant, at or after at, at which an @every expression fires on a day that is in.
func (r *Rule) nextElapsed(at int64) int64 {
	fire := at + modulo(r.phase-at, r.every)
	if r.choice == nil {
		return fire
	}
	search := r.search()
	for fire <= latest.Unix() {
		offset, end := r.offset(fire)
		day := dayOf(fire + offset)
		in := search.firstIn(day)
		if in == day {
			return fire
		}
		if in == never {
			break
		}
		// Until the zone shows the day that is in, or changes its offset, it shows days that are out.
		at = min(in*daySeconds-offset, end)
		fire = at + modulo(r.phase-at, r.every)
	}
	return never
}
