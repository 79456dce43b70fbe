package recurrence

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// field describes one of the six fields of an expression.
type field struct {
	name      string
	low, high int
	most      int    // the greatest number that may be written, because 7 is Sunday
	names     string // the long names of low, low+1 and so on; "" if there are none
	forms     string // the forms of a member other than a value
	unit      string // the time after which the field begins again
}

const plainForms = "a range a-b or *, each with an optional /step"

var fieldOf = [6]field{
	{"second", 0, 59, 59, "", plainForms, "minute"},
	{"minute", 0, 59, 59, "", plainForms, "hour"},
	{"hour", 0, 23, 23, "", plainForms, "day"},
	{"day of month", 1, 31, 31, "", "a range a-b or * (each with an optional /step), L, L-2, 15W or LW", "month"},
	{"month", 1, 12, 12, "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
		plainForms, "year"},
	{"day of week", 0, 6, 7, "SUNDAY MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY",
		"a range a-b or * (each with an optional /step), 5L or 5#2", "week"},
}

const (
	dayOfMonth = 3
	dayOfWeek  = 5
)

var (
	rangeSyntax = regexp.MustCompile(
		`^(?:[*?]|([0-9]{1,9}|[A-Za-z]+)(?:-([0-9]{1,9}|[A-Za-z]+))?)(?:/([0-9]{1,9}))?$`)
	monthDaySyntax = regexp.MustCompile(`^(?:([0-9]{1,9})[Ww]|[Ll](?:-([0-9]{1,9}))?([Ww]?))$`)
	weekdaySyntax  = regexp.MustCompile(`^([0-9]{1,9}|[A-Za-z]*[A-KM-Za-km-z])(?:[Ll]|#([0-9]{1,9}))$`)
	chanceSyntax   = regexp.MustCompile(`~|^[Hh](?:[/(]|$)`)
	wildSyntax     = regexp.MustCompile(`^(?:[*?]|0+/)`)
)

// members is the result of reading a field.
type members struct {
	values    uint64 // bit n is set for the value n
	any       bool   // the field has *, ? or */1, and therefore restricts nothing
	wild      bool   // the field has *, ? or a step from its least value
	monthDays []monthDay
	weekdays  []weekday
}

// read reads the text of a field.
func (f field) read(text string) (m members, err error) {
	for member := range strings.SplitSeq(text, ",") {
		if err := f.readMember(member, &m); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (f field) readMember(member string, m *members) error {
	if chanceSyntax.MatchString(member) {
		return fmt.Errorf("%s %.60q takes a time by chance: fix it, and spread tasks by their jitter", f.name, member)
	}
	if taken, err := f.readDay(member, m); taken || err != nil {
		return err
	}
	parts := rangeSyntax.FindStringSubmatch(member)
	if parts == nil {
		return fmt.Errorf("%s %.60q is not a value, %s", f.name, member, f.forms)
	}
	star, first, last, step := parts[1] == "", f.low, f.high, 1
	var err error
	if !star {
		if first, err = f.value(parts[1]); err != nil {
			return err
		}
		if parts[2] != "" {
			if last, err = f.value(parts[2]); err != nil {
				return err
			}
		} else if parts[3] == "" {
			last = first
		}
	}
	if parts[3] != "" {
		if step, err = f.step(parts[3]); err != nil {
			return err
		}
	}
	m.add(f, first, last, step)
	m.any = m.any || star && step == 1
	m.wild = m.wild || wildSyntax.MatchString(member)
	return nil
}

// add adds the values of a range. A range that ends before it begins continues at the beginning of the field, as
// FRI-MON and 22-2 do.
func (m *members) add(f field, first, last, step int) {
	count := f.high - f.low + 1
	if first > f.high { // Sunday as 7
		first -= count
		last %= count
	}
	if last < first {
		last += count
	}
	for value := first; value <= last; value += step {
		m.values |= 1 << (f.low + (value-f.low)%count)
	}
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	if number, err := strconv.Atoi(text); err == nil {
		return number, f.check(number)
	}
	upper := strings.ToUpper(text)
	for i, name := range strings.Fields(f.names) {
		if upper == name || upper == name[:3] {
			return f.low + i, nil
		}
	}
	if f.unit == "month" && (upper == "L" || upper == "LW") {
		return 0, fmt.Errorf("%s %.60q takes no range and no step", f.name, text)
	}
	if f.names == "" {
		return 0, fmt.Errorf("%s %.60q is not a number in %d-%d", f.name, text, f.low, f.most)
	}
	if f.unit == "week" && upper == "L" {
		return 0, fmt.Errorf("%s %.60q is not taken: write SAT for Saturday, FRIL for the last Friday of the month",
			f.name, text)
	}
	name := strings.Fields(f.names)[0]
	return 0, fmt.Errorf("%s %.60q is neither a number in %d-%d nor a name, such as %s or %s",
		f.name, text, f.low, f.most, name[:3], name)
}

func (f field) check(number int) error {
	if number < f.low || number > f.most {
		return fmt.Errorf("%s %d is not in %d-%d", f.name, number, f.low, f.most)
	}
	return nil
}

func (f field) step(text string) (int, error) {
	step, err := strconv.Atoi(text)
	count := f.high - f.low + 1
	if err != nil || step < 1 || step > count {
		return 0, fmt.Errorf("%s step %d is not in 1-%d: a step counts anew in each %s", f.name, step, count, f.unit)
	}
	return step, nil
}

// text returns the field as robfig/cron reads it.
func (m members) text() string {
	if m.any {
		return "*"
	}
	var values []string
	for value := range 60 {
		if m.values&(1<<value) != 0 {
			values = append(values, strconv.Itoa(value))
		}
	}
	return strings.Join(values, ",")
}
