package term

import (
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store/when"
)

// Clock tells times, and how far they are from now, in a zone.
type Clock struct {
	Now  time.Time // the database's
	Zone *time.Location
}

const (
	secondLayout = "2006-01-02 15:04:05 MST"
	milliLayout  = "2006-01-02 15:04:05.000 MST"
)

// When is an instant to the second, with its distance from now, as in "2026-11-21 18:00:00 CET (in 3h)". It is "" for
// nil.
func (c Clock) When(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.In(c.Zone).Format(secondLayout) + " (" + c.Relative(*at) + ")"
}

// Exact is an instant to the millisecond. It is "" for nil.
func (c Clock) Exact(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.In(c.Zone).Format(milliLayout)
}

// Weekday is an instant to the second, with its day of the week.
func (c Clock) Weekday(at time.Time) string { return at.In(c.Zone).Format("Mon " + secondLayout) }

// Relative is "in 3h", "3h ago" or "now", rounded down.
func (c Clock) Relative(at time.Time) string {
	switch distance := at.Sub(c.Now); {
	case distance >= time.Second:
		return "in " + rough(distance)
	case distance <= -time.Second:
		return rough(-distance) + " ago"
	}
	return "now"
}

// A day is 24 hours, and a year 365 days. Neither is a calendar's.
const (
	Day  = 24 * time.Hour
	year = 365 * Day
)

// rough is a duration in the largest unit that fits at least twice.
func rough(d time.Duration) string {
	for _, unit := range []struct {
		name string
		time.Duration
	}{{"y", year}, {"d", Day}, {"h", time.Hour}, {"m", time.Minute}} {
		if d >= 2*unit.Duration {
			return fmt.Sprintf("%d%s", d/unit.Duration, unit.name)
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// Took is a duration to at most three digits, as "1.25s" or "340ms".
func Took(d time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond} {
		if d >= unit || -d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.Round(time.Microsecond).String()
}

// Moment is a time as a person writes it. It may be absolute, in the zone of --time-zone, or relative to now. The zone
// and the time are known only when the command runs.
type Moment string

// MomentHelp describes a moment in the help of a command.
const MomentHelp = "A TIME is " + when.Help + ` Your zone is that of --time-zone, and now is that of the database.`

// At returns the instant that the moment means, or the zero time for an empty moment.
func (m Moment) At(c Clock) (time.Time, error) { return when.Time(string(m), c.Now, c.Zone) }
