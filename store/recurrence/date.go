package recurrence

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Date is a day of the calendar, without a zone. The zero Date is no day.
type Date struct {
	Year  int // 1 to 9999
	Month time.Month
	Day   int
}

// ParseDate reads a day such as 2027-12-24. It refuses days that do not exist, such as 2027-02-29. Its errors wrap
// ErrInvalid.
func ParseDate(text string) (Date, error) {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || at.Year() < 1 {
		return Date{}, invalid("date", "must be a day that exists, such as 2027-12-24", text)
	}
	return DateOf(at), nil
}

// DateOf returns the day that a time shows in its location.
func DateOf(at time.Time) Date {
	year, month, day := at.Date()
	return Date{year, month, day}
}

// IsZero reports whether d is the zero Date.
func (d Date) IsZero() bool { return d == Date{} }

// String writes the day as ParseDate reads it.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day) }

// MarshalText writes the day as String does, and the zero Date as an empty text.
func (d Date) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (d *Date) UnmarshalText(text []byte) (err error) {
	*d = Date{}
	if len(text) > 0 {
		*d, err = ParseDate(string(text))
	}
	return err
}

// number counts days from 1970-01-01, which is 0.
func (d Date) number() int64 {
	return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}

// exists reports whether the calendar has the day.
func (d Date) exists() bool { return d.Year >= 1 && d.Year <= 9999 && dateOf(d.number()) == d }

const daySeconds = 24 * 60 * 60

func midnight(day int64) time.Time { return time.Unix(day*daySeconds, 0).UTC() }

func dateOf(day int64) Date { return DateOf(midnight(day)) }

// dayOf returns the number of the day of a wall time.
func dayOf(wall int64) int64 { return (wall - modulo(wall, daySeconds)) / daySeconds }

const (
	// MaxSpans is the greatest number of spans in Days.
	MaxSpans = 5000
	// MaxSpanDays is the greatest number of days in one Span: ten years.
	MaxSpanDays = 3653
	// MaxNote is the greatest number of characters in a Span's note.
	MaxNote = 200
)

// Span is the days From to To. Both are included.
type Span struct {
	From Date   `json:"from"`
	To   Date   `json:"to"`
	Note string `json:"note,omitempty"` // for people, such as Christmas; at most MaxNote characters, all printable
}

// ParseSpan reads a day such as 2027-12-24, or days such as 2027-12-24..2027-12-31. The Span has no note. Errors wrap
// ErrInvalid.
func ParseSpan(text string) (s Span, err error) {
	first, last, ranged := strings.Cut(text, "..")
	if s.From, err = ParseDate(first); err != nil {
		return Span{}, err
	}
	s.To = s.From
	if ranged {
		if s.To, err = ParseDate(last); err != nil {
			return Span{}, err
		}
	}
	if rule := s.fault(); rule != "" {
		return Span{}, invalid("days", rule, text)
	}
	return s, nil
}

// String writes the days as ParseSpan reads them, without the note.
func (s Span) String() string {
	if s.From == s.To {
		return s.From.String()
	}
	return s.From.String() + ".." + s.To.String()
}

// fault returns the rule that a span breaks, or "".
func (s Span) fault() string {
	switch days := s.To.number() - s.From.number(); {
	case !s.From.exists() || !s.To.exists():
		return "must be days that exist, in the years 1 to 9999"
	case days < 0:
		return "must not end before they begin"
	case days >= MaxSpanDays:
		return fmt.Sprintf("must be at most %d days (ten years) in one span", MaxSpanDays)
	case utf8.RuneCountInString(s.Note) > MaxNote || strings.ContainsFunc(s.Note, unprintable):
		return fmt.Sprintf("must have a note of at most %d printable characters", MaxNote)
	}
	return ""
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
