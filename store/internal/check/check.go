// Package check has the rules that package store and package inspect share for the arguments of their calls, and how an
// argument becomes a text that every driver can bind. A value that Postgres refuses would end the caller's transaction.
package check

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxIDBytes is how long an id, an entity or another short text may be.
const MaxIDBytes = 512

// ErrInvalid is store.ErrInvalid.
var ErrInvalid = errors.New("invalid")

// Invalid is the error about a bad argument. It wraps ErrInvalid.
func Invalid(field, rule string, got any) error {
	return fmt.Errorf("%w: %s %s, got %v", ErrInvalid, field, rule, got)
}

// Mark makes an ErrInvalid of an error whose text says enough.
func Mark(err error) error { return marked{err} }

type marked struct{ error }

func (m marked) Unwrap() []error { return []error{ErrInvalid, m.error} }

// ID checks the id of a task.
func ID(id string) error {
	if err := Text("id", id); err != nil {
		return err
	}
	if id == "" {
		return Invalid("id", "must be 1 to 512 bytes without control characters", "an empty one")
	}
	return nil
}

// Text checks a short text in one line. It may be empty.
func Text(field, value string) error {
	const rule = "must be at most 512 bytes of UTF-8 without control characters"
	if len(value) > MaxIDBytes {
		return Invalid(field, rule, fmt.Sprintf("%d bytes", len(value)))
	}
	if !utf8.ValidString(value) {
		return Invalid(field, rule, fmt.Sprintf("%q", value))
	}
	for _, r := range value {
		if unicode.IsControl(r) {
			return Invalid(field, rule, fmt.Sprintf("%q", value))
		}
	}
	return nil
}

// Note checks a text that people write. It may have lines.
func Note(field, value string) error {
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return Invalid(field, "must be UTF-8 without NUL", fmt.Sprintf("%.100q", value))
	}
	return nil
}

// TimeText is a time as a text. It cuts the time off to Postgres's microseconds, as pgx does when an application
// stores the time in a column of its own. So a task that is scheduled from that column again has the same time.
func TimeText(field string, at time.Time) (string, error) {
	at = at.UTC().Truncate(time.Microsecond)
	if at.Year() < 1 || at.Year() > 9999 {
		return "", Invalid(field, "must be in the years 1 to 9999", at)
	}
	return at.Format(time.RFC3339Nano), nil
}

// BoundText is TimeText of a time that need not be given. Of the zero time it is "".
func BoundText(field string, at time.Time) (string, error) {
	if at.IsZero() {
		return "", nil
	}
	return TimeText(field, at)
}

// IntervalText is a duration in hours, minutes and seconds, because Postgres 14 reads no number of microseconds above
// an hour's.
func IntervalText(d time.Duration) string {
	micros := d.Microseconds()
	seconds := micros / 1e6
	return fmt.Sprintf("%d:%02d:%02d.%06d", seconds/3600, seconds/60%60, seconds%60, micros%1e6)
}

// OrNil is a text that need not be given. Of "" it is nil.
func OrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
