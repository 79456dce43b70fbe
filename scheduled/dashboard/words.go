package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// relative says how far away a time is. dashboard.js has the same rule, because it keeps the words true.
func relative(distance time.Duration) string {
	text, after := short(distance.Abs()), distance > 0
	switch {
	case distance.Abs() < time.Second:
		return "now"
	case after:
		return "in " + text
	}
	return text + " ago"
}

// short is a duration in its two greatest units at most, such as 3 min, 2 h 5 min or 4 d.
func short(d time.Duration) string {
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

// took is the length of an attempt, to three digits: 340 ms, 1.25 s, 3 min.
func took(given any) string {
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
	return short(d)
}

// count writes a number with spaces between thousands. more says that there are more than were counted.
func count(number any, more bool) string {
	digits := fmt.Sprint(number)
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
