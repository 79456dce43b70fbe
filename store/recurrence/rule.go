package recurrence

import (
	"time"

	"github.com/robfig/cron/v3"
)

var (
	earliest = time.Time{} // no fire itself: it means none
	latest   = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
)

// Rule is a parsed expression in its zone. Parse makes it, and it does not change.
type Rule struct {
	spec  *cron.SpecSchedule // asked about wall times, written as if they were UTC
	days  *days              // nil: spec knows the days, too
	fixed bool               // a fixed-time expression; see the package's comment
	zone  *time.Location

	every int64 // seconds; 0 unless the expression is @every
	phase int64 // when it fires: at these Unix seconds modulo every
}

// Anchored gives an @every rule its phase: the rule returned fires at anchor and every whole number of periods after and
// before it, the anchor cut to the second. Any of its fires is as good an anchor as another, so a caller that anchors at the
// row's previous fire (at the row's first time, while there is none) keeps the phase, however late it is:
//
//	next := rule.Anchored(previous).Next(now)
//
// Without an anchor, or with the zero time, @every counts from 1970-01-01T00:00:00Z. Other expressions need no anchor and
// ignore it.
func (r *Rule) Anchored(anchor time.Time) *Rule {
	if r.every == 0 {
		return r
	}
	anchored := *r
	anchored.phase = 0
	if !anchor.IsZero() {
		anchored.phase = modulo(anchor.Unix(), r.every)
	}
	return &anchored
}

// Next is the first fire strictly after the given time, in UTC; the zero time if there is none up to the year 9999.
func (r *Rule) Next(after time.Time) time.Time {
	if !after.Before(latest) {
		return time.Time{}
	}
	if after.Before(earliest) {
		after = earliest
	}
	at := after.Unix() + 1 // the first whole second after it, as Unix rounds down
	var fire int64
	if r.every > 0 {
		fire = at + modulo(r.phase-at, r.every)
	} else {
		fire = r.nextWall(at)
	}
	if fire > latest.Unix() {
		return time.Time{}
	}
	return time.Unix(fire, 0).UTC()
}

// Between lists the fires after from and up to and including to, in order: the first most of them. It also says whether there
// are more, which are those after the last one listed.
func (r *Rule) Between(from, to time.Time, most int) (fires []time.Time, more bool) {
	for fire := r.Next(from); !fire.IsZero() && !fire.After(to); fire = r.Next(fire) {
		if len(fires) >= most {
			return fires, true
		}
		fires = append(fires, fire)
	}
	return fires, false
}

// Last is the last fire after from and up to and including to; the zero time if there is none. It takes some forty times as
// long as Next, however many fires there are.
func (r *Rule) Last(from, to time.Time) time.Time {
	if from.Before(earliest) {
		from = earliest
	}
	if to.After(latest) {
		to = latest
	}
	last := time.Time{}
	low, high := from.Unix(), to.Unix() // the last fire, if it is not yet found, is after low and not after high
	for low < high {
		middle := low + (high-low)/2
		fire := r.Next(time.Unix(middle, 0))
		if fire.IsZero() || fire.After(to) {
			high = middle
		} else {
			last, low = fire, fire.Unix()
		}
	}
	return last
}

// modulo is at least 0 and less than by.
func modulo(value, by int64) int64 {
	return (value%by + by) % by
}
