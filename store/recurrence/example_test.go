package recurrence_test

import (
	"errors"
	"fmt"
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
