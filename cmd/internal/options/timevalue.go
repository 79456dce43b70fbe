package options

import (
	"errors"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/term"
)

// TimeZone takes the name of an IANA zone.
func TimeZone(into **time.Location) func(string) error {
	return func(given string) error {
		zone, err := time.LoadLocation(given)
		if err != nil {
			return errors.New("must be an IANA zone, such as Europe/Berlin or UTC")
		}
		*into = zone
		return nil
	}
}

// Moment takes a moment.
func Moment(into *term.Moment) func(string) error {
	return func(given string) error {
		if _, err := term.Moment(given).At(term.Clock{Now: time.Now(), Zone: time.UTC}); err != nil {
			return err
		}
		*into = term.Moment(given)
		return nil
	}
}

// Instant returns the instant of an option that takes a moment, or an error that names the option.
func Instant(c term.Clock, flag string, m term.Moment) (time.Time, error) {
	at, err := m.At(c)
	if err != nil {
		return time.Time{}, Usage("--%s %w, got %q", flag, err, string(m))
	}
	return at, nil
}
