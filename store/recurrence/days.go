package recurrence

import (
	"fmt"
	"strconv"
	"time"
)

// monthDay is a day of the month that is counted from the month's end, or a weekday near a day.
type monthDay struct {
	day     int
	fromEnd bool // day counts back from the last day, which is 0
	nearest bool // the weekday, Monday to Friday, of the same month that is nearest to it
}

// weekday is the nth of a day of the week in a month, or the last.
type weekday struct {
	day int
	nth int // 0 means the last
}

// days are the days of an expression with L, W or #. robfig/cron does not know these members.
type days struct {
	month, week members
}

// readDay reads a member with L, W or #. taken reports whether the member is such a member.
func (f field) readDay(member string, m *members) (taken bool, err error) {
	switch f.unit {
	case "month":
		if parts := monthDaySyntax.FindStringSubmatch(member); parts != nil {
			return true, f.readMonthDay(parts[1], parts[2], parts[3] != "", m)
		}
	case "week":
		if parts := weekdaySyntax.FindStringSubmatch(member); parts != nil {
			return true, f.readWeekday(parts[1], parts[2], m)
		}
	}
	return false, nil
}

// readMonthDay reads 15W, or L with an optional count of days before it and an optional W.
func (f field) readMonthDay(near, before string, nearest bool, m *members) error {
	day := monthDay{fromEnd: near == "", nearest: near != "" || nearest}
	switch {
	case near != "":
		day.day, _ = strconv.Atoi(near)
		if err := f.check(day.day); err != nil {
			return err
		}
	case before != "":
		if day.day, _ = strconv.Atoi(before); day.day >= f.high {
			return fmt.Errorf("%s %d after L is not in 0-%d", f.name, day.day, f.high-1)
		}
	}
	m.monthDays = append(m.monthDays, day)
	return nil
}

// readWeekday reads 5L, or 5#2 if nth is given.
func (f field) readWeekday(name, nth string, m *members) error {
	day, err := f.value(name)
	if err != nil {
		return err
	}
	week := 0
	if nth != "" {
		if week, _ = strconv.Atoi(nth); week < 1 || week > 5 {
			return fmt.Errorf("%s %.60q names a week that is not in 1-5", f.name, name+"#"+nth)
		}
	}
	m.weekdays = append(m.weekdays, weekday{day: day % 7, nth: week})
	return nil
}

// match reports whether the expression includes a day. If both fields restrict something, one match is enough, as in
// robfig/cron.
func (d *days) match(at time.Time) bool {
	inMonth, inWeek := d.month.values&(1<<at.Day()) != 0, d.week.values&(1<<at.Weekday()) != 0
	last := at.AddDate(0, 1, -at.Day()).Day()
	for _, day := range d.month.monthDays {
		inMonth = inMonth || day.in(at, last) == at.Day()
	}
	for _, day := range d.week.weekdays {
		inWeek = inWeek || day.is(at, last)
	}
	if d.month.any || d.week.any {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// in returns the day in the month of at. It returns 0 if the month has no such day.
func (d monthDay) in(at time.Time, last int) int {
	day := d.day
	if d.fromEnd {
		day = last - d.day
	}
	if day < 1 || day > last {
		return 0
	}
	if !d.nearest {
		return day
	}
	switch at.AddDate(0, 0, day-at.Day()).Weekday() {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == last {
			return last - 2
		}
		return day + 1
	}
	return day
}

func (w weekday) is(at time.Time, last int) bool {
	if int(at.Weekday()) != w.day {
		return false
	}
	if w.nth == 0 {
		return at.Day() > last-7
	}
	return (at.Day()+6)/7 == w.nth
}
