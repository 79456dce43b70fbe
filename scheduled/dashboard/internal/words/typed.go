package words

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	errMoment = errors.New("must be a time, such as 2026-11-21 18:00, 2026-11-21T18:00:00Z, now, -1h or +2d")
	errLength = errors.New("must be a length of time, such as 1500ms, 90s, 1h30m or 2d")
)

// Time reads a time as a person types it, and as the commands of tasktable take it. It is in the person's zone, or
// has a zone of its own, or is relative to now. "" is the zero time.
func Time(text string, now time.Time, zone *time.Location) (time.Time, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return time.Time{}, nil
	case text == "now":
		return now, nil
	case text[0] == '+' || text[0] == '-':
		distance, err := Length(text[1:])
		if err != nil {
			return time.Time{}, errMoment
		}
		if text[0] == '-' {
			distance = -distance
		}
		return now.Add(distance), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00",
		"2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime,
		time.DateOnly} {
		if wall, err := time.Parse(layout, text); err == nil {
			return onClock(wall, zone)
		}
	}
	return time.Time{}, errMoment
}

// onClock returns the first instant at which clocks in the zone show a time. They never show a time over which they are
// set forward.
func onClock(wall time.Time, zone *time.Location) (time.Time, error) {
	const second = "2006-01-02T15:04:05.999999999"
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(),
		zone)
	shown := at.Format(second)
	if shown != wall.Format(second) {
		return time.Time{}, fmt.Errorf("must be a time that clocks in %s show: they are set forward over it", zone)
	}
	for _, fold := range []time.Duration{2 * time.Hour, time.Hour, 30 * time.Minute} {
		if earlier := at.Add(-fold); earlier.Format(second) == shown {
			return earlier, nil
		}
	}
	return at, nil
}

var lengthParts = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?(.*)$`)

const maxLength = 100 * 365 * 24 * time.Hour

// Length reads a length of time without a sign, such as 90s or 2d12h. A day is 24 hours.
func Length(text string) (time.Duration, error) {
	parts := lengthParts.FindStringSubmatch(text)
	if parts == nil || text == "" || strings.ContainsAny(parts[3], "+-") {
		return 0, errLength
	}
	weeks, _ := strconv.Atoi(parts[1]) // "" is 0
	days, _ := strconv.Atoi(parts[2])
	var rest time.Duration
	if parts[3] != "" {
		var err error
		if rest, err = time.ParseDuration(parts[3]); err != nil {
			return 0, errLength
		}
	}
	if days += 7 * weeks; days > 100*365 || rest > maxLength {
		return 0, errLength
	}
	return time.Duration(days)*24*time.Hour + rest, nil
}

// LengthText writes a duration as Length reads it.
func LengthText(d time.Duration) string {
	text := ""
	if days := d / (24 * time.Hour); days > 0 {
		text = strconv.FormatInt(int64(days), 10) + "d"
		d %= 24 * time.Hour
	}
	if d == 0 && text != "" {
		return text
	}
	rest := d.String()
	if strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	return text + rest
}
