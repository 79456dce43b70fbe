package recurrence_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

func ExampleParse() {
	_, err := recurrence.Parse("0 0 30 2 *", "")
	fmt.Println(errors.Is(err, recurrence.ErrInvalid), err)
	_, err = recurrence.Parse("61 * * * *", "")
	fmt.Println(err)
	_, err = recurrence.Parse("0 9 * * *", "Local")
	fmt.Println(err)
	// Output:
	// true invalid: cron must be able to fire: no such day of the month ever comes, got "0 0 30 2 *"
	// invalid: cron: minute 61 is not in 0-59, in "61 * * * *"
	// invalid: time_zone must be an IANA zone, such as Europe/Berlin or UTC, got "Local"
}

// In New York, on 8 March 2026, the clocks go from 02:00 to 03:00.
func ExampleRule_Next() {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	saturday := time.Date(2026, time.March, 7, 12, 0, 0, 0, newYork)
	for _, expression := range []string{"30 2 * * *", "*/30 2 * * *"} { // a fixed time, a wildcard
		rule, err := recurrence.Parse(expression, "America/New_York")
		if err != nil {
			panic(err)
		}
		fmt.Println(rule.Next(saturday).In(newYork))
	}
	// Output:
	// 2026-03-08 03:00:00 -0400 EDT
	// 2026-03-09 02:00:00 -0400 EDT
}

func ExampleRule_Between() {
	rule, err := recurrence.Parse("@hourly", "")
	if err != nil {
		panic(err)
	}
	missedSince := time.Date(2026, time.June, 1, 8, 0, 0, 0, time.UTC)
	fires, more := rule.Between(missedSince, missedSince.Add(4*time.Hour), 2)
	for _, fire := range fires {
		fmt.Println(fire.Format(time.RFC3339))
	}
	fmt.Println("more:", more)
	fmt.Println(rule.Last(missedSince, missedSince.Add(4*time.Hour)).Format(time.RFC3339))
	// Output:
	// 2026-06-01T09:00:00Z
	// 2026-06-01T10:00:00Z
	// more: true
	// 2026-06-01T12:00:00Z
}

func ExampleRule_Anchored() {
	rule, err := recurrence.Parse("@every 90s", "")
	if err != nil {
		panic(err)
	}
	previous := time.Date(2026, time.June, 1, 9, 0, 7, 0, time.UTC)
	now := previous.Add(10 * time.Minute) // late
	fmt.Println(rule.Anchored(previous).Next(now).Format(time.TimeOnly))
	// Output: 09:10:37
}

// show prints fires on the clocks of their zone.
func show(text, zone string, days map[string]recurrence.Days, after string, most int) {
	rule, err := recurrence.Parse(text, zone)
	if err != nil {
		panic(err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	from, err := time.ParseInLocation(time.DateOnly, after, location)
	if err != nil {
		panic(err)
	}
	fires, _ := rule.With(days).Between(from, from.AddDate(1, 0, 0), most)
	for _, fire := range fires {
		fmt.Println(fire.In(location).Format("Mon 2006-01-02 15:04 MST"))
	}
}

// closingDays are the days of the calendar company.
func closingDays() map[string]recurrence.Days {
	span, err := recurrence.ParseSpan("2027-12-24..2027-12-31")
	if err != nil {
		panic(err)
	}
	span.Note = "closed"
	days, err := recurrence.NewDays([]recurrence.Span{span})
	if err != nil {
		panic(err)
	}
	return map[string]recurrence.Days{"company": days}
}

// Every second Tuesday, also when the clocks have changed in between.
func ExampleOptions_every() {
	show("0 9 * * TUE every=2 from=2027-01-05", "Europe/Berlin", nil, "2027-03-10", 2)
	// Output:
	// Tue 2027-03-16 09:00 CET
	// Tue 2027-03-30 09:00 CEST
}

func ExampleOptions_outOf() {
	show("0 9 * * * out-of=company", "UTC", closingDays(), "2027-12-22", 3)
	// Output:
	// Wed 2027-12-22 09:00 UTC
	// Thu 2027-12-23 09:00 UTC
	// Sat 2028-01-01 09:00 UTC
}

func ExampleOptions_keepTo() {
	show("0 9 * * * keep-to=workdays:mon-thu+sat", "UTC", nil, "2027-01-07", 3)
	// Output:
	// Thu 2027-01-07 09:00 UTC
	// Sat 2027-01-09 09:00 UTC
	// Mon 2027-01-11 09:00 UTC
}

// The first and the last workday of a month on which the company is open.
func ExampleOptions_move() {
	show("0 9 1 * * keep-to=workdays out-of=company move=next", "UTC", closingDays(), "2027-12-31", 2)
	show("0 9 L * * keep-to=workdays out-of=company move=previous", "UTC", closingDays(), "2027-12-01", 2)
	// Output:
	// Mon 2028-01-03 09:00 UTC
	// Tue 2028-02-01 09:00 UTC
	// Thu 2027-12-23 09:00 UTC
	// Mon 2028-01-31 09:00 UTC
}

func ExampleSplit() {
	expression, options, err := recurrence.Split("0 9 * * *  move=next  out-of=school,company")
	if err != nil {
		panic(err)
	}
	fmt.Println(expression, options.OutOf, options.Move)
	fmt.Println(options.Join(expression))
	_, _, err = recurrence.Split("0 9 * * * every=2")
	fmt.Println(err)
	// Output:
	// 0 9 * * * [school company] next
	// 0 9 * * * out-of=company,school move=next
	// invalid: cron option every needs from, the day from which it counts, got "0 9 * * * every=2"
}

func ExampleRule_Explain() {
	rule, err := recurrence.Parse("0 9 * * FRI out-of=company move=previous", "")
	if err != nil {
		panic(err)
	}
	from := time.Date(2027, time.December, 17, 12, 0, 0, 0, time.UTC)
	fires, _ := rule.With(closingDays()).Explain(from, from.AddDate(0, 0, 21), 10)
	for _, fire := range fires {
		fmt.Println(fire.When().Format(time.DateOnly), fire.Moved, fire.LeftOut, fire.Why)
	}
	// Output:
	// 2027-12-23 true false 2027-12-24 is out (company: closed)
	// 2027-12-31 false true 2027-12-31 is out (company: closed), and 2027-12-23 has a fire at this time anyway
	// 2028-01-07 false false
}

func ExampleReadCSV() {
	spans, err := recurrence.ReadCSV(strings.NewReader("from,to,note\n2027-12-24,2027-12-31,closed\n2028-01-06,,Epiphany\n"))
	if err != nil {
		panic(err)
	}
	for _, span := range spans {
		fmt.Println(span, span.Note)
	}
	_, err = recurrence.ReadCSV(strings.NewReader("2027-12-24\n2027-02-29\n"))
	fmt.Println(err)
	// Output:
	// 2027-12-24..2027-12-31 closed
	// 2028-01-06 Epiphany
	// invalid: line 2: date must be a day that exists, such as 2027-12-24, got "2027-02-29"
}
