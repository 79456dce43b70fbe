package recurrence

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Days is an immutable set of days. The zero Days has none.
type Days struct {
	runs  []run // in order, neither overlapping nor adjoining, so that has can search them
	spans []Span
}

// run is the days from to to. Both are included.
type run struct{ from, to int64 }

// NewDays makes a set of the days in spans, which may overlap and have any order. There are at most MaxSpans of
// MaxSpanDays days each. An error wraps ErrInvalid and names the span that is wrong by its index.
func NewDays(spans []Span) (Days, error) {
	if len(spans) > MaxSpans {
		return Days{}, invalid("days", fmt.Sprintf("must be at most %d spans", MaxSpans), fmt.Sprint(len(spans)))
	}
	d := Days{spans: slices.Clone(spans)}
	all := make([]run, len(spans))
	for i, span := range spans {
		if rule := span.fault(); rule != "" {
			return Days{}, invalid(fmt.Sprintf("days[%d]", i), rule, span.String())
		}
		all[i] = run{span.From.number(), span.To.number()}
	}
	slices.SortFunc(all, func(a, b run) int { return cmp.Compare(a.from, b.from) })
	for _, next := range all {
		if last := len(d.runs) - 1; last >= 0 && next.from <= d.runs[last].to+1 {
			d.runs[last].to = max(d.runs[last].to, next.to)
		} else {
			d.runs = append(d.runs, next)
		}
	}
	return d, nil
}

// Has reports whether the day is in the set.
func (d Days) Has(day Date) bool { return d.has(day.number()) }

func (d Days) has(day int64) bool {
	at, _ := slices.BinarySearchFunc(d.runs, day, func(r run, day int64) int { return cmp.Compare(r.to, day) })
	return at < len(d.runs) && d.runs[at].from <= day
}

// Note returns the note of a day. If several spans have the day, it is the first note that is not empty.
func (d Days) Note(day Date) string {
	number := day.number()
	for _, span := range d.spans {
		if span.Note != "" && span.From.number() <= number && number <= span.To.number() {
			return span.Note
		}
	}
	return ""
}

const workdays = "workdays"

var (
	calendarSyntax = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	workdaysSyntax = regexp.MustCompile(`^workdays:` + someDays + `(?:\+` + someDays + `){0,6}$`)
)

const someDays = `(?:mon|tue|wed|thu|fri|sat|sun)(?:-(?:mon|tue|wed|thu|fri|sat|sun))?`

// IsCalendarName reports whether a calendar may have the name: a letter a-z, and at most 62 of a-z, 0-9, _ and -
// after it. A calendar cannot have the name workdays, because that is built in.
func IsCalendarName(name string) bool { return name != workdays && calendarSyntax.MatchString(name) }

// week is a set of days of the week. Bit 0 is Sunday.
type week uint64

func (w week) has(day int64) bool {
	const thursday = 4 // day 0
	return w>>modulo(day+thursday, 7)&1 != 0
}

// readWorkdays reads workdays, or workdays with other days of the week than Monday to Friday.
func readWorkdays(text string) (days week, ok bool) {
	if text == workdays {
		text = workdays + ":mon-fri"
	}
	if !workdaysSyntax.MatchString(text) {
		return 0, false
	}
	field, m := fieldOf[dayOfWeek], members{}
	for part := range strings.SplitSeq(text[len(workdays)+1:], "+") {
		if err := field.readMember(part, &m); err != nil {
			return 0, false
		}
	}
	return week(m.values), true
}

// daySet is Days or a week.
type daySet interface {
	has(day int64) bool
}

// calendar is one that a rule names.
type calendar struct {
	name string
	days daySet // nil if it is in the table and With has not bound it yet
}

func readCalendars(names []string) []calendar {
	calendars := make([]calendar, len(names))
	for i, name := range names {
		calendars[i].name = name
		if days, ok := readWorkdays(name); ok {
			calendars[i].days = days
		}
	}
	return calendars
}

// bind returns the calendars with the days of those in the table.
func bind(calendars []calendar, days map[string]Days) []calendar {
	bound := slices.Clone(calendars)
	for i, one := range bound {
		if IsCalendarName(one.name) {
			bound[i].days = days[one.name]
		}
	}
	return bound
}
