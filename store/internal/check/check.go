// Package check has the rules for arguments that package store and package inspect share. It also converts arguments
// to text, because every driver can bind text. A bad value must be found here, because if Postgres refuses it, the
// caller's transaction is aborted.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxIDBytes is the greatest length of an id, an entity or another short text.
const MaxIDBytes = 512

// ErrInvalid is store.ErrInvalid.
var ErrInvalid = errors.New("invalid")

// Invalid returns the error about a bad argument. It wraps ErrInvalid.
func Invalid(field, rule string, got any) error {
	return fmt.Errorf("%w: %s %s, got %v", ErrInvalid, field, rule, got)
}

// Mark returns an error that wraps ErrInvalid and err, and has the text of err.
func Mark(err error) error { return marked{err} }

type marked struct{ error }

func (m marked) Unwrap() []error { return []error{ErrInvalid, m.error} }

// IsNil tells whether value is nil. It is true also for a nil pointer in an interface, whose methods may panic.
func IsNil(value any) bool {
	inside := reflect.ValueOf(value)
	return value == nil || inside.Kind() == reflect.Pointer && inside.IsNil()
}

// DB refuses a connection that is nil, because it would panic.
func DB(db any) error {
	if IsNil(db) {
		return Invalid("db", "must be a connection or a transaction", fmt.Sprintf("a %T that is nil", db))
	}
	return nil
}

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

// Text checks a short text of one line. It may be empty.
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

// Note checks a text that people write. It may be empty, and may have several lines.
func Note(field, value string) error {
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return Invalid(field, "must be UTF-8 without NUL", fmt.Sprintf("%.100q", value))
	}
	return nil
}

// TimeText returns a time as text. It cuts the time off to the microseconds of Postgres. pgx does the same when an
// application stores the time in a column of its own. Therefore a task that is scheduled again from that column has
// the same time.
func TimeText(field string, at time.Time) (string, error) {
	at = at.UTC().Truncate(time.Microsecond)
	if at.Year() < 1 || at.Year() > 9999 {
		return "", Invalid(field, "must be in the years 1 to 9999", at)
	}
	return at.Format(time.RFC3339Nano), nil
}

// BoundText is TimeText for an optional time. It returns "" for the zero time.
func BoundText(field string, at time.Time) (string, error) {
	if at.IsZero() {
		return "", nil
	}
	return TimeText(field, at)
}

// IntervalText returns a duration as hours, minutes and seconds. It does not use microseconds alone, because Postgres
// 14 cannot read more of them than an hour has.
func IntervalText(d time.Duration) string {
	micros := d.Microseconds()
	seconds := micros / 1e6
	return fmt.Sprintf("%d:%02d:%02d.%06d", seconds/3600, seconds/60%60, seconds%60, micros%1e6)
}

// OrNil returns a pointer to an optional text, and nil for "".
func OrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
