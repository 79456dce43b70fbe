package dashboard

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const momentRule = `must be a time, such as 2026-11-21 18:00, 2026-11-21T18:00:00Z, now, +2h or +1d12h`

// moment reads a time as a person writes it: relative to now, with a zone, or in the person's zone. The command line
// has the same rule.
func moment(text string, now time.Time, zone *time.Location) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "now" {
		return now, nil
	}
	if after, ok := strings.CutPrefix(text, "+"); ok {
		distance, err := distanceOf(after)
		if err != nil {
			return time.Time{}, errors.New(momentRule)
		}
		return now.Add(distance), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime,
		time.DateOnly} {
		at, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			continue
		}
		asked, err := time.Parse(layout, text)
		if err == nil && at.Format(time.DateTime) != asked.Format(time.DateTime) {
			return time.Time{}, fmt.Errorf("must be a time that clocks in %s show: they are set forward over it", zone)
		}
		return at, nil
	}
	return time.Time{}, errors.New(momentRule)
}

var distanceParts = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?((?:\d+(?:\.\d+)?(?:h|m|s|ms))*)$`)

const maxDistance = 100 * 365 * 24 * time.Hour

// distanceOf reads a duration, such as 90s, 1h30m or 2d12h. A day is 24 hours, and a week is 7 such days.
func distanceOf(text string) (distance time.Duration, err error) {
	parts := distanceParts.FindStringSubmatch(text)
	if parts == nil || text == "" {
		return 0, errors.New("must be a duration, such as 90s, 1h30m or 2d12h")
	}
	weeks, _ := strconv.Atoi(parts[1]) // "": 0
	days, _ := strconv.Atoi(parts[2])
	if parts[3] != "" {
		if distance, err = time.ParseDuration(parts[3]); err != nil {
			return 0, errors.New("must be a duration, such as 90s, 1h30m or 2d12h")
		}
	}
	if days += 7 * weeks; days > 100*365 || distance > maxDistance {
		return 0, errors.New("must be at most 100 years")
	}
	return distance + time.Duration(days)*24*time.Hour, nil
}

// distanceText writes a duration as distanceOf reads it.
func distanceText(d time.Duration) string {
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

// momentOf reads the time of a form. The field name has it as a browser's input writes it, in the zone of the field
// zone. The field name-in has it relative to now, and wins. The zero time means that the form has neither.
func (v *visit) momentOf(name string) (time.Time, error) {
	text := v.form(name + "-in")
	if text == "" {
		text = v.form(name)
	}
	if strings.TrimSpace(text) == "" {
		return time.Time{}, nil
	}
	zone := v.look.zone
	if given := v.form("zone"); given != "" { // the person may have changed the zone since the page was read
		var err error
		if zone, err = zoneOf(given); err != nil {
			return time.Time{}, notValid("zone must be an IANA time zone, such as Europe/Berlin")
		}
	}
	at, err := moment(text, v.now, zone)
	if err != nil {
		return time.Time{}, notValid(fmt.Sprintf("%s %v, got %.100q", name, err, text))
	}
	return at, nil
}

// notValid is the problem of a form whose field breaks a rule.
func notValid(text string) problem {
	return problem{422, "Not valid", errorView{Text: strings.ToUpper(text[:1]) + text[1:] + "."}}
}
