package recurrence

import (
	"time"

	"github.com/robfig/cron/v3"
)

var (
	earliest = time.Time{} // is no fire itself, because the zero time means none
	latest   = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
)

// Rule is a parsed expression in its zone. Parse returns Rules. A Rule is immutable and safe for concurrent use.
type Rule struct {
	spec  *cron.SpecSchedule // it gets wall times, as if they were in UTC
	days  *days              // nil if spec knows the days, too
	fixed bool               // whether it is a fixed-time expression; see the package's comment
	zone  *time.Location

	choice *choice // nil unless the text has options

	every int64 // seconds; 0 unless the expression is @every
	phase int64 // it fires when the Unix seconds modulo every are phase
}

// Anchored returns an @every rule that fires at anchor, and at every whole number of periods before and after it. The
// anchor is cut to the second. Any fire of a rule can be its anchor. A caller that uses the row's previous fire, or
// the row's first time if there is no fire yet, keeps the phase, however late it calls:
//
//	next := rule.Anchored(previous).Next(now)
//
// Without an anchor, or with the zero time, @every counts from 1970-01-01T00:00:00Z. Other expressions ignore the
// anchor.
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

// Next returns the first fire after the given time, in UTC. It returns the zero time if there is none up to the year
// 9999. A rule with options also returns it if it does not fire in the next 20 years and the fire after these is not
// found soon.
func (r *Rule) Next(after time.Time) time.Time {
	if !after.Before(latest) {
		return time.Time{}
	}
	if after.Before(earliest) {
		after = earliest
	}
	at := after.Unix() + 1 // the first whole second after it, because Unix rounds down
	var fire int64
	if r.every > 0 {
		fire = r.nextElapsed(at)
	} else {
		fire = r.nextWall(at)
	}
	if fire > latest.Unix() {
		return time.Time{}
	}
	return time.Unix(fire, 0).UTC()
}

// Between returns the fires after from, up to and including to, in order. It returns the first most of them. more
// reports whether there are further ones.
func (r *Rule) Between(from, to time.Time, most int) (fires []time.Time, more bool) {
	r = r.boundedBy(to)
	for fire := r.Next(from); !fire.IsZero() && !fire.After(to); fire = r.Next(fire) {
		if len(fires) >= most {
			return fires, true
		}
		fires = append(fires, fire)
	}
	return fires, false
}

// Last returns the last fire after from, up to and including to. It returns the zero time if there is none. Last
// takes about forty times as long as Next, however many fires there are.
func (r *Rule) Last(from, to time.Time) time.Time {
	if from.Before(earliest) {
		from = earliest
	}
	if to.After(latest) {
		to = latest
	}
	r = r.boundedBy(to)
	last := time.Time{}
	low, high := from.Unix(), to.Unix() // if the last fire is not found yet, low < fire <= high
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

// modulo returns the remainder that is at least 0 and less than by.
func modulo(value, by int64) int64 {
	return (value%by + by) % by
}
