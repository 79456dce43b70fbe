package recurrence

import (
	"strconv"
	"strings"
	"time"
)

// lastYear is the last year to which a yearly event without an end is expanded.
const lastYear = 2100

// yearly is a rule by which an event of an iCalendar file returns.
type yearly struct {
	interval int
	count    int  // 0 means no bound
	until    Date // zero means no bound
}

// readYearly reads the RRULE of an event that begins on a day.
func readYearly(text string, from Date) (rule yearly, err error) {
	rule.interval = 1
	frequency := false
	for part := range strings.SplitSeq(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		understood := true
		switch name {
		case "FREQ":
			frequency = value == "YEARLY"
			understood = frequency
		case "INTERVAL":
			rule.interval, understood = positive(value)
		case "COUNT":
			rule.count, understood = positive(value)
		case "UNTIL":
			var at time.Time
			at, err = time.Parse("20060102", value[:min(len(value), len("20060102"))])
			rule.until, understood = DateOf(at), err == nil
		case "BYMONTH":
			understood = value == strconv.Itoa(int(from.Month))
		case "BYMONTHDAY":
			understood = value == strconv.Itoa(from.Day)
		case "WKST":
		default:
			understood = false
		}
		if !understood {
			return yearly{}, invalid("RRULE", yearlyForm, part)
		}
	}
	if !frequency {
		return yearly{}, invalid("RRULE", yearlyForm, text)
	}
	return rule, nil
}

const yearlyForm = "must be FREQ=YEARLY, with no more than INTERVAL (1 to 1000), COUNT (1 to 1000), UNTIL, and " +
	"BYMONTH and BYMONTHDAY of the event's first day: write an event for each day"

func positive(text string) (number int, ok bool) {
	number, err := strconv.Atoi(text)
	return number, err == nil && number >= 1 && number <= 1000
}

// expand returns the event of each year. A 29 February returns in leap years only.
func (y yearly) expand(first Span) (spans []Span) {
	length := first.To.number() - first.From.number()
	for year := first.From.Year; year <= max(lastYear, first.From.Year); year += y.interval {
		from := Date{year, first.From.Month, first.From.Day}
		if !from.exists() {
			continue
		}
		if !y.until.IsZero() && from.number() > y.until.number() || y.count > 0 && len(spans) == y.count {
			break
		}
		spans = append(spans, Span{from, dateOf(from.number() + length), first.Note})
	}
	return spans
}
