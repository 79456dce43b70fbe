package recurrence

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// A second implementation, which shares nothing with the package or its libraries: it reads an expression by itself,
// and walks through real time second by second (minute by minute if the expression has no seconds) with the offsets
// written down in a stretch.

type plan struct {
	fields         [6]map[int]bool
	odd            [6][]string // members of the two fields of days that are no sets: 5L, FRI#2, L-1, 15W
	dom, dow, wild bool        // dom, dow: restricted
	months         bool        // the month is restricted
	step           int64
	every, anchor  int64
}

var names = map[string]int{
	"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6, "JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11,
	"DEC": 12, "SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6,
}

// planOf reads an expression known to be good. An @every counts from the anchor.
func planOf(expression string, anchor int64) plan {
	if period, ok := strings.CutPrefix(expression, "@every "); ok {
		every, err := time.ParseDuration(period)
		if err != nil {
			panic(err)
		}
		return plan{every: int64(every / time.Second), anchor: anchor, step: 1}
	}
	switch expression {
	case "@yearly":
		expression = "0 0 1 1 *"
	case "@monthly":
		expression = "0 0 1 * *"
	case "@weekly":
		expression = "0 0 * * 0"
	case "@daily":
		expression = "0 0 * * *"
	case "@hourly":
		expression = "0 * * * *"
	}
	p := plan{step: 1}
	texts := strings.Fields(expression)
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	if texts[0] == "0" {
		p.step = 60
	}
	least, most := [6]int{0, 0, 0, 1, 1, 0}, [6]int{59, 59, 23, 31, 12, 6}
	for i, text := range texts {
		var all, wild bool
		p.odd[i], text = oddMembers(i, text)
		p.fields[i], all, wild = readField(text, least[i], most[i])
		switch {
		case i < 3 && wild:
			p.wild = true
		case i == 3:
			p.dom = !all
		case i == 4:
			p.months = !all
		case i == 5:
			p.dow = !all
		}
	}
	return p
}

func readField(text string, least, most int) (set map[int]bool, all, wild bool) {
	set = map[int]bool{}
	for _, member := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		reach, step, stepped := strings.Cut(member, "/")
		by := 1
		if stepped {
			by = number(step)
		}
		low, high := least, most
		if reach == "*" || reach == "?" {
			all = all || by == 1
			wild = true
		} else {
			first, last, ranged := strings.Cut(reach, "-")
			low = number(first)
			if ranged {
				high = number(last)
			} else if !stepped {
				high = low
			} else if low == 0 {
				wild = true // 0/15 is */15
			}
		}
		if most == 6 && low == 7 {
			low, high = 0, high%7
		}
		if most == 6 && high == 7 {
			if (7-low)%by == 0 {
				set[0] = true
			}
			high = 6
		}
		if low > high { // over the field's end
			for value := low; value <= most+1+high-least; value += by {
				set[least+(value-least)%(most-least+1)] = true
			}
		}
		for value := low; value <= high; value += by {
			set[value] = true
		}
	}
	return set, all, wild
}

// oddMembers takes the members that are no sets out of a field of days.
func oddMembers(field int, text string) (odd []string, rest string) {
	if field != 3 && field != 5 {
		return nil, text
	}
	var plain []string
	for _, member := range strings.Split(strings.ToUpper(text), ",") {
		if field == 3 && strings.ContainsAny(member, "LW") || strings.Contains(member, "#") ||
			len(member) > 1 && strings.HasSuffix(member, "L") {
			odd = append(odd, member)
		} else {
			plain = append(plain, member)
		}
	}
	return odd, strings.Join(plain, ",")
}

// isOdd walks the month of a day to find the day that the member means. It remembers the answers.
func isOdd(member string, day time.Time) bool {
	key := oddDay{member, day.Year()*366 + day.YearDay()}
	if known, ok := oddDays.Load(key); ok {
		return known.(bool)
	}
	is := walkMonth(member, day)
	oddDays.Store(key, is)
	return is
}

type oddDay struct {
	member string
	day    int
}

var oddDays sync.Map

func walkMonth(member string, day time.Time) bool {
	var month []time.Time
	for at := day.AddDate(0, 0, 1-day.Day()); at.Month() == day.Month(); at = at.AddDate(0, 0, 1) {
		month = append(month, at)
	}
	if name, nth, ok := strings.Cut(member, "#"); ok {
		return int(day.Weekday()) == number(name)%7 && (day.Day()+6)/7 == number(nth)
	}
	if name, ok := strings.CutSuffix(member, "L"); ok && name != "" {
		return int(day.Weekday()) == number(name)%7 && day.Day()+7 > len(month)
	}
	text, nearest := strings.CutSuffix(member, "W")
	index := len(month) - 1
	if back, ok := strings.CutPrefix(text, "L"); !ok {
		index = number(text) - 1
	} else if back != "" {
		index -= number(back[1:])
	}
	if index < 0 || index >= len(month) {
		return false
	}
	if !nearest {
		return day.Day() == index+1
	}
	for distance := 0; ; distance++ {
		for _, candidate := range []int{index - distance, index + distance} {
			if candidate >= 0 && candidate < len(month) && month[candidate].Weekday()%6 != 0 {
				return day.Day() == candidate+1
			}
		}
	}
}

func number(text string) int {
	if len(text) >= 3 {
		if value, ok := names[strings.ToUpper(text[:3])]; ok {
			return value
		}
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

// matches takes a wall time, as the Unix seconds at which a clock in UTC shows it.
func (p plan) matches(wall int64) bool {
	second := int(((wall % 86400) + 86400) % 86400)
	if !p.fields[0][second%60] || !p.fields[1][second/60%60] || !p.fields[2][second/3600] {
		return false
	}
	return p.onDay(time.Unix(wall, 0).UTC())
}

// onDay reports whether the fields of days match.
func (p plan) onDay(day time.Time) bool {
	if !p.fields[4][int(day.Month())] {
		return false
	}
	inMonth, inWeek := p.fields[3][day.Day()], p.fields[5][int(day.Weekday())]
	for _, member := range p.odd[3] {
		inMonth = inMonth || isOdd(member, day)
	}
	for _, member := range p.odd[5] {
		inWeek = inWeek || isOdd(member, day)
	}
	if p.dom && p.dow {
		return inMonth || inWeek
	}
	return inMonth && inWeek
}

// firesAt applies the rule for clocks that change, literally.
func (p plan) firesAt(at int64, s stretch) bool {
	if p.every > 0 {
		return (at-p.anchor)%p.every == 0
	}
	if p.wild {
		return p.matches(at + s.offsetAt(at))
	}
	repeated := false
	for _, c := range s.changes {
		changed, before, after := c.at, int64(c.before)*60, int64(c.after)*60
		if at == changed { // Does a time skipped fire now?
			for wall := changed + before; wall < changed+after; wall += p.step {
				if p.matches(wall) {
					return true
				}
			}
		}
		if at >= changed && at < changed+before-after {
			repeated = true
		}
	}
	return !repeated && p.matches(at+s.offsetAt(at))
}

// brute lists the fires with from < fire <= to.
func (p plan) brute(s stretch, from, to int64) []int64 {
	var fires []int64
	for at := from - from%p.step + p.step; at <= to; at += p.step {
		if p.firesAt(at, s) {
			fires = append(fires, at)
		}
	}
	return fires
}
