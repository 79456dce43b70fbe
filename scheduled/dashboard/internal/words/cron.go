package words

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// Cron says in words when an expression fires, such as "every 15 minutes" or "at 03:00 on Monday". It returns ""
// for an expression that has no short words. The expression must be one that package recurrence accepts.
func Cron(expression string) string {
	if bare, options, err := recurrence.Split(expression); err == nil && !options.IsZero() {
		words := Cron(bare)
		if words != "" {
			words += ", " + strings.TrimSpace(options.Join(""))
		}
		return words
	}
	fields := strings.Fields(strings.ToUpper(expression))
	if len(fields) == 2 && fields[0] == "@EVERY" {
		if period, err := time.ParseDuration(strings.ToLower(fields[1])); err == nil {
			return "every " + strings.ReplaceAll(strings.ReplaceAll(period.String(), "m0s", "m"), "h0m", "h")
		}
	}
	if len(fields) == 1 {
		return map[string]string{
			"@YEARLY":   "at 00:00 on day 1 of the month in January",
			"@ANNUALLY": "at 00:00 on day 1 of the month in January",
			"@MONTHLY":  "at 00:00 on day 1 of the month", "@WEEKLY": "at 00:00 on Sunday",
			"@DAILY": "at 00:00 every day", "@MIDNIGHT": "at 00:00 every day", "@HOURLY": "every hour",
		}[fields[0]]
	}
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) != 6 {
		return ""
	}
	clock, atTimes, ok := clockWords(fields[0], fields[1], fields[2])
	days, daysOK := dayWords(fields[3], fields[5])
	months, monthsOK := setWords(fields[4], monthName)
	switch {
	case !ok || !daysOK || !monthsOK:
		return ""
	case days == "" && months == "" && atTimes:
		return clock + " every day"
	}
	if days != "" {
		clock += " " + days
	}
	if months != "" {
		clock += " in " + months
	}
	return clock
}

var plainNumber = regexp.MustCompile(`^[0-9]+$`)

// clockWords tells the seconds, minutes and hours. atTimes tells that they are times of the day.
func clockWords(second, minute, hour string) (words string, atTimes, ok bool) {
	anyHour := isAny(hour)
	if second != "0" {
		words, ok = stepWords(second, 60, "second")
		return words, false, ok && isAny(minute) && anyHour
	}
	if words, ok = stepWords(minute, 60, "minute"); ok {
		if anyHour {
			return words, false, true
		}
		hours, ok := setWords(hour, hourName)
		if plainNumber.MatchString(hour) {
			return words + " in the hour " + hours, false, ok
		}
		return words + " in the hours " + hours, false, ok && hours != ""
	}
	if !plainNumber.MatchString(minute) {
		minutes, ok := setWords(minute, strconv.Itoa)
		return "at the minutes " + minutes + " of every hour", false, ok && anyHour
	}
	at, _ := strconv.Atoi(minute)
	past := ""
	if at != 0 {
		past = fmt.Sprintf(" at minute %d", at)
	}
	if words, ok = stepWords(hour, 24, "hour"); ok {
		return words + past, false, true
	}
	hours, ok := setWords(hour, func(h int) string { return fmt.Sprintf("%02d:%02d", h, at) })
	if strings.Contains(hours, " to ") {
		return "every hour from " + hours, true, ok && !strings.Contains(hours, ",") && !strings.Contains(hours,
			" and ")
	}
	return "at " + hours, true, ok
}

func isAny(field string) bool { return field == "*" || field == "?" || field == "*/1" }

// stepWords tells a field that fires evenly. A step that does not divide the whole counts anew after it, so it has no
// words.
func stepWords(field string, whole int, unit string) (words string, ok bool) {
	if isAny(field) {
		return "every " + unit, true
	}
	for _, start := range []string{"*/", "0/"} {
		if text, found := strings.CutPrefix(field, start); found {
			step, err := strconv.Atoi(text)
			return fmt.Sprintf("every %d %ss", step, unit), err == nil && step > 1 && whole%step == 0
		}
	}
	return "", false
}

var (
	lastWeekday = regexp.MustCompile(`^([0-7]|[A-Z]{3,})L$`)
	nthWeekday  = regexp.MustCompile(`^([0-7]|[A-Z]{3,})#([1-5])$`)
	nearDay     = regexp.MustCompile(`^([0-9]{1,2})W$`)
	beforeLast  = regexp.MustCompile(`^L-([0-9]{1,2})$`)
	nth         = []string{"", "first", "second", "third", "fourth", "fifth"}
)

// dayWords tells the days of the month and of the week. If both are restricted, a day of either fires.
func dayWords(month, week string) (words string, ok bool) {
	ofMonth, okMonth := monthDayWords(month)
	ofWeek, okWeek := weekDayWords(week)
	if ofMonth != "" && ofWeek != "" {
		return ofMonth + " or " + ofWeek, okMonth && okWeek
	}
	return ofMonth + ofWeek, okMonth && okWeek
}

func monthDayWords(field string) (words string, ok bool) {
	switch found := nearDay.FindStringSubmatch(field); {
	case isAny(field):
		return "", true
	case field == "L":
		return "on the last day of the month", true
	case field == "LW":
		return "on the last weekday of the month", true
	case found != nil:
		return "on the weekday nearest to day " + found[1] + " of the month", true
	}
	if found := beforeLast.FindStringSubmatch(field); found != nil {
		return found[1] + " days before the last of the month", true
	}
	days, ok := setWords(field, strconv.Itoa)
	if plainNumber.MatchString(field) {
		return "on day " + days + " of the month", ok
	}
	return "on days " + days + " of the month", ok
}

func weekDayWords(field string) (words string, ok bool) {
	if isAny(field) {
		return "", true
	}
	if found := lastWeekday.FindStringSubmatch(field); found != nil {
		day, ok := setWords(found[1], dayName)
		return "on the last " + day + " of the month", ok
	}
	if found := nthWeekday.FindStringSubmatch(field); found != nil {
		day, ok := setWords(found[1], dayName)
		n, _ := strconv.Atoi(found[2])
		return "on the " + nth[n] + " " + day + " of the month", ok
	}
	days, ok := setWords(field, dayName)
	return "on " + days, ok
}

// setWords tells a list of values and ranges, such as "Monday to Friday and Sunday". "" stands for any value.
func setWords(field string, name func(int) string) (words string, ok bool) {
	if isAny(field) {
		return "", true
	}
	var parts []string
	for member := range strings.SplitSeq(field, ",") {
		from, to, isRange := strings.Cut(member, "-")
		first, ok := cronNumber(from)
		if !ok {
			return "", false
		}
		text := name(first)
		if isRange {
			last, ok := cronNumber(to)
			if !ok {
				return "", false
			}
			text += " to " + name(last)
		}
		parts = append(parts, text)
	}
	if len(parts) > 6 {
		return "", false
	}
	if last := len(parts) - 1; last > 0 {
		return strings.Join(parts[:last], ", ") + " and " + parts[last], true
	}
	return parts[0], true
}

// cronNumber reads a number, or the name of a month or of a day of the week.
func cronNumber(text string) (value int, ok bool) {
	if plainNumber.MatchString(text) {
		value, err := strconv.Atoi(text)
		return value, err == nil
	}
	if len(text) < 3 {
		return 0, false
	}
	for month := time.January; month <= time.December; month++ {
		if strings.HasPrefix(strings.ToUpper(month.String()), text) {
			return int(month), true
		}
	}
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.HasPrefix(strings.ToUpper(day.String()), text) {
			return int(day), true
		}
	}
	return 0, false
}

func monthName(number int) string { return time.Month(number).String() }

func dayName(number int) string { return time.Weekday(number % 7).String() }

func hourName(hour int) string { return fmt.Sprintf("%02d", hour) }
