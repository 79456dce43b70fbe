package cmd

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// clock tells times, and how far they are from now, in a zone.
type clock struct {
	now  time.Time // the database's
	zone *time.Location
}

const (
	secondLayout = "2006-01-02 15:04:05 MST"
	milliLayout  = "2006-01-02 15:04:05.000 MST"
)

// when is an instant to the second, and how far it is from now: "2026-11-21 18:00:00 CET (in 3h)". "": nil.
func (c clock) when(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.In(c.zone).Format(secondLayout) + " (" + c.relative(*at) + ")"
}

// exact is an instant to the millisecond. "": nil.
func (c clock) exact(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.In(c.zone).Format(milliLayout)
}

// weekday is an instant to the second, with its day of the week.
func (c clock) weekday(at time.Time) string { return at.In(c.zone).Format("Mon " + secondLayout) }

// relative is "in 3h", "3h ago" or "now", rounded down.
func (c clock) relative(at time.Time) string {
	switch distance := at.Sub(c.now); {
	case distance >= time.Second:
		return "in " + rough(distance)
	case distance <= -time.Second:
		return rough(-distance) + " ago"
	}
	return "now"
}

// day and year are those of rough, and of times to come: 24 hours, and 365 of those. They never are a calendar's.
const year = 365 * day

// rough is a duration in the largest unit of which there are at least two.
func rough(d time.Duration) string {
	for _, unit := range []struct {
		name string
		time.Duration
	}{{"y", year}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}} {
		if d >= 2*unit.Duration {
			return fmt.Sprintf("%d%s", d/unit.Duration, unit.name)
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// took is a duration to three digits at most: "1.25s", "340ms".
func took(d time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond} {
		if d >= unit || -d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.Round(time.Microsecond).String()
}

// timeZone takes the name of an IANA zone.
func timeZone(into **time.Location) func(string) error {
	return func(given string) error {
		zone, err := time.LoadLocation(given)
		if err != nil {
			return errors.New("must be an IANA zone, such as Europe/Berlin or UTC")
		}
		*into = zone
		return nil
	}
}

// moment is a time as somebody writes it: absolute, in the zone of --time-zone, or relative to now. Both are only known later.
type moment string

// momentHelp says in the help of a command what a moment may be.
const momentHelp = `A TIME is RFC 3339 (2026-11-21T18:00:00Z), or in the zone of --time-zone (2026-11-21, 2026-11-21 18:00, 2026-11-21
18:00:05), or relative to now by the database's clock: now, +90s, -1h, +2d12h; w and d are 7 times and once 24 hours.`

const momentRule = "must be a time, such as 2026-11-21T18:00:00Z, \"2026-11-21 18:00\", now, -1h or +2d"

// instantOf takes a moment.
func instantOf(into *moment) func(string) error {
	return func(given string) error {
		if _, err := moment(given).at(clock{time.Now(), time.UTC}); err != nil {
			return err
		}
		*into = moment(given)
		return nil
	}
}

// at is the instant that a moment means; zero: none was given.
func (m moment) at(c clock) (time.Time, error) {
	switch text := string(m); {
	case text == "":
		return time.Time{}, nil
	case text == "now":
		return c.now, nil
	case text[0] == '+' || text[0] == '-':
		distance, ok := distanceOf(text[1:])
		if !ok {
			return time.Time{}, errors.New(momentRule)
		}
		if text[0] == '-' {
			distance = -distance
		}
		return c.now.Add(distance), nil
	default:
		return c.absolute(text)
	}
}

// option is the instant of an option, or what is wrong with it.
func (c clock) option(flag string, m moment) (time.Time, error) {
	at, err := m.at(c)
	if err != nil {
		return time.Time{}, usage("--%s %w, got %q", flag, err, string(m))
	}
	return at, nil
}

var distanceParts = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?(.*)$`)

func distanceOf(text string) (time.Duration, bool) {
	parts := distanceParts.FindStringSubmatch(text)
	if parts == nil || text == "" || strings.ContainsAny(parts[3], "+-") {
		return 0, false
	}
	weeks, _ := strconv.Atoi(parts[1]) // "": 0
	days, _ := strconv.Atoi(parts[2])
	var rest time.Duration
	if parts[3] != "" {
		var err error
		if rest, err = time.ParseDuration(parts[3]); err != nil {
			return 0, false
		}
	}
	if days += 7 * weeks; days > 100*365 || rest > 100*year {
		return 0, false
	}
	return time.Duration(days)*day + rest, true
}

// absolute reads a time with a zone, or in the clock's.
func (c clock) absolute(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(layout, text, c.zone); err == nil {
			return c.first(at, layout, text)
		}
	}
	return time.Time{}, errors.New(momentRule)
}

// first is the first of two instants at which clocks show the time, as when they are set back. Where they are set forward, some times
// are never shown, and are refused: nobody can say which other one was meant.
func (c clock) first(at time.Time, layout, text string) (time.Time, error) {
	const second = "2006-01-02T15:04:05.999999999"
	asked, err := time.Parse(layout, text)
	if err != nil || at.Format(second) != asked.Format(second) {
		return time.Time{}, fmt.Errorf("must be a time that clocks in %s show: they are set forward over it", c.zone)
	}
	for _, fold := range []time.Duration{2 * time.Hour, time.Hour, 30 * time.Minute} {
		if earlier := at.Add(-fold); earlier.Format(second) == at.Format(second) {
			return earlier, nil
		}
	}
	return at, nil
}
