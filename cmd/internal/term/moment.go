package term

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Moment is a time as a person writes it. It may be absolute, in the zone of --time-zone, or relative to now. The zone
// and the time are known only when the command runs.
type Moment string

// MomentHelp describes a moment in the help of a command.
const MomentHelp = `A TIME is RFC 3339 (2026-11-21T18:00:00Z), or a time in the zone of --time-zone (2026-11-21,
2026-11-21 18:00, 2026-11-21 18:00:05), or relative to now by the clock of the database (now, +90s, -1h, +2d12h). A day
(d) is 24 hours, and a week (w) is 7 such days.`

const momentRule = "must be a time, such as 2026-11-21T18:00:00Z, \"2026-11-21 18:00\", now, -1h or +2d"

// At returns the instant that the moment means, or the zero time for an empty moment.
func (m Moment) At(c Clock) (time.Time, error) {
	switch text := string(m); {
	case text == "":
		return time.Time{}, nil
	case text == "now":
		return c.Now, nil
	case text[0] == '+' || text[0] == '-':
		distance, ok := ParseDistance(text[1:])
		if !ok {
			return time.Time{}, errors.New(momentRule)
		}
		if text[0] == '-' {
			distance = -distance
		}
		return c.Now.Add(distance), nil
	default:
		return c.absolute(text)
	}
}

var distanceParts = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?(.*)$`)

// ParseDistance reads a duration without a sign, as 90s or 2d12h. ok is false for anything else.
func ParseDistance(text string) (distance time.Duration, ok bool) {
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
	return time.Duration(days)*Day + rest, true
}

// absolute reads a time with a zone, or in the clock's.
func (c Clock) absolute(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00",
		"2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly, "2006-01-02T15:04:05",
		"2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(layout, text, c.Zone); err == nil {
			return c.first(at, layout, text)
		}
	}
	return time.Time{}, errors.New(momentRule)
}

// first returns the first of two instants at which clocks show the time, because they are set back. It refuses a time
// that clocks never show, because they are set forward over it.
func (c Clock) first(at time.Time, layout, text string) (time.Time, error) {
	const second = "2006-01-02T15:04:05.999999999"
	asked, err := time.Parse(layout, text)
	if err != nil || at.Format(second) != asked.Format(second) {
		return time.Time{}, fmt.Errorf("must be a time that clocks in %s show: they are set forward over it", c.Zone)
	}
	for _, fold := range []time.Duration{2 * time.Hour, time.Hour, 30 * time.Minute} {
		if earlier := at.Add(-fold); earlier.Format(second) == at.Format(second) {
			return earlier, nil
		}
	}
	return at, nil
}
