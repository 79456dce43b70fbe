// Package words writes times, lengths of time, numbers and cron expressions as people read them, and reads times and
// lengths as people type them. Its functions are pure.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Relative says how far away a time is. dashboard.js has the same rule, because it keeps the words true.
func Relative(distance time.Duration) string {
	text, after := Short(distance.Abs()), distance > 0
	switch {
	case distance.Abs() < time.Second:
		return "now"
	case after:
		return "in " + text
	}
	return text + " ago"
}

// Short is a duration in its two greatest units at most, such as 3 min, 2 h 5 min or 4 d.
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatInt(int64(d/time.Second), 10) + " s"
	case d < time.Hour:
		return strconv.FormatInt(int64(d/time.Minute), 10) + " min"
	case d < 10*time.Hour && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%d h %d min", int(d/time.Hour), int(d%time.Hour/time.Minute))
	case d < 48*time.Hour:
		return strconv.FormatInt(int64(d/time.Hour), 10) + " h"
	}
	return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + " d"
}

// Took is the length of an attempt, to three digits: 340 ms, 1.25 s, 3 min.
func Took(given any) string {
	var d time.Duration
	switch given := given.(type) {
	case time.Duration:
		d = given
	case *time.Duration:
		if given == nil {
			return "–"
		}
		d = *given
	}
	switch {
	case d < 0:
		return "–"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	case d >= time.Second && d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
	}
	return Short(d)
}

// Count writes a number with spaces between thousands. more says that there are more than were counted.
func Count(number any, more bool) string {
	digits := fmt.Sprint(number)
	if more { // several counts that each ended at 10,000 and a few others make 10,005
		digits = digits[:1] + strings.Repeat("0", len(digits)-1)
	}
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	text := strings.Join(append([]string{digits}, parts...), " ")
	if more {
		return "more than " + text
	}
	return text
}
