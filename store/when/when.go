// Package when reads times and lengths of time as people type them. The command line, the dashboard and an
// application's own forms can so take the same texts, and refuse them with the same sentences.
package when

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Help describes the texts that Time takes, for the help of a form or of a command. Its lines have at most 120 columns.
const Help = `RFC 3339 (2026-11-21T18:00:00Z), or a time in your zone (2026-11-21, 2026-11-21 18:00, 2026-11-21
18:00:05, today 18:00, tomorrow 09:00, yesterday), or relative to now (now, +90s, -1h, +2d12h). A day (d) is 24 hours,
and a week (w) is 7 such days.`

// The rules that a wrong text breaks. An error of Time or Length is one of these, or says that clocks skip the time.
var (
	ErrTime = errors.New("must be a time, such as 2026-11-21 18:00, 2026-11-21T18:00:00Z, tomorrow 09:00, now, -1h " +
		"or +2d")
	ErrLength = errors.New("must be a length of time, such as 1500ms, 90s, 1h30m or 2d")
)

const (
	day       = 24 * time.Hour
	year      = 8766 * time.Hour
	maxLength = 100 * year
)

// Time reads a time. A text without a zone of its own is a time in zone, and "now", "+1h" and "-7d" are relative to
// now. The empty text is the zero time.
//
// If clocks in zone show a time twice, because they are set back, Time returns the first of both instants. If they
// never show it, because they are set forward over it, Time refuses it. A day without a time is its midnight, and
// must have one.
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
			return time.Time{}, ErrTime
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
	text = onDate(text, now.In(zone))
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime,
		time.DateOnly} {
		if wall, err := time.Parse(layout, text); err == nil {
			return onClock(wall, zone)
		}
	}
	return time.Time{}, ErrTime
}

// onDate writes the date in the place of today, tomorrow and yesterday.
func onDate(text string, now time.Time) string {
	word, rest, _ := strings.Cut(text, " ")
	days, known := map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1}[word]
	if !known {
		return text
	}
	date := time.Date(now.Year(), now.Month(), now.Day()+days, 12, 0, 0, 0, time.UTC) // every day has a noon
	return strings.TrimSpace(date.Format(time.DateOnly) + " " + rest)
}

// onClock returns the first instant at which clocks in the zone show a time.
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

// Length reads a length of time without a sign, such as 1500ms, 90s or 2d12h, of at most 100 years. A day is 24 hours,
// and a week is 7 such days.
func Length(text string) (time.Duration, error) {
	parts := lengthParts.FindStringSubmatch(text)
	if parts == nil || text == "" || strings.ContainsAny(parts[3], "+-") {
		return 0, ErrLength
	}
	weeks, _ := strconv.Atoi(parts[1]) // "" is 0
	days, _ := strconv.Atoi(parts[2])
	var rest time.Duration
	if parts[3] != "" {
		var err error
		if rest, err = time.ParseDuration(parts[3]); err != nil || rest > maxLength {
			return 0, ErrLength
		}
	}
	if days += 7 * weeks; days > int(maxLength/day) || time.Duration(days)*day+rest > maxLength {
		return 0, ErrLength
	}
	return time.Duration(days)*day + rest, nil
}

// LengthBetween is Length with limits. Its error is the rule with the limits in it.
func LengthBetween(text string, shortest, longest time.Duration) (time.Duration, error) {
	length, err := Length(text)
	if err != nil || length < shortest || length > longest {
		return 0, fmt.Errorf("%s, such as 1500ms, 90s, 1h30m or 2d", LengthRule(shortest, longest))
	}
	return length, nil
}

// LengthRule is the rule of a length of time with limits: "must be between 1µs and 10 years".
func LengthRule(shortest, longest time.Duration) string {
	limit := LengthText(longest)
	if longest%year == 0 {
		limit = fmt.Sprintf("%d years", longest/year)
	}
	return "must be between " + LengthText(shortest) + " and " + limit
}

// LengthText writes a length of time as Length reads it, such as 2d12h.
func LengthText(d time.Duration) string {
	text := ""
	if days := d / day; days > 0 {
		text = strconv.FormatInt(int64(days), 10) + "d"
		d %= day
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
