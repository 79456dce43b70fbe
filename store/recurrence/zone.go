package recurrence

import (
	"math"
	"time"
	_ "time/tzdata" // a container may have no zone data
)

// lookBack is more than any two wall clocks differ, in seconds. Offsets lie within ±16 hours, and none has changed by
// more than 24 hours. Therefore lookBack is also the time after a change of the offset within which wall times may be
// shown again.
const lookBack = 48 * 60 * 60

// span is a stretch of time with one offset. Instants are Unix seconds. Wall times are Unix seconds, too: the wall
// time of an instant is the instant plus the offset.
type span struct {
	start, end int64 // end is not included; a start of more than lookBack ago may be later than the real one
	offset     int64
	shown      int64 // all wall times before this one were shown or skipped before start
}

// nextWall returns the first instant, at or after at, at which an expression other than @every fires. If there is
// none up to the year 9999, or none soon enough for a rule with options, it returns some later instant.
func (r *Rule) nextWall(at int64) int64 {
	for at <= latest.Unix() {
		now := r.spanAt(at)
		from := at + now.offset
		if r.fixed {
			from = max(from, now.shown)
			if at == now.start {
				from = now.shown // the first wall time of the gap, or the first that is not repeated
			}
		}
		wall, _ := r.match(from)
		if fire := max(wall-now.offset, at); fire < now.end { // max, because the times in the gap fire now
			return fire
		}
		// Continue at the first matching wall time that the zone may show after the span's end. That may be an
		// earlier wall time that is repeated.
		wall, _ = r.match(now.end - lookBack)
		at = max(now.end, wall-lookBack)
	}
	return never
}

// never is later than every fire. An offset can be added to it.
const never = math.MaxInt64 / 2

// calendarStart begins a cycle of the calendar. After 400 years its days return on the same days of the week.
var calendarStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()

const calendarYears = 400

// match returns the first wall time, at or after from, that the fields of the expression match. If Parse accepts an
// expression, there is one within each cycle of the calendar. Parse calls match to find that out.
func (r *Rule) match(from int64) (wall int64, found bool) {
	if r.choice != nil {
		return r.matchChosen(from)
	}
	at := time.Unix(from-1, 0).UTC()
	for end := at.AddDate(calendarYears, 0, 1); at.Before(end); {
		next := r.spec.Next(at)
		switch {
		case next.IsZero():
			// robfig/cron gives up at the end of the fifth year from now. A leap day may be eight years away.
			at = time.Date(at.Year()+5, time.December, 31, 23, 59, 59, 0, time.UTC)
		case r.days == nil || r.days.match(next):
			return next.Unix(), true
		default:
			at = time.Date(next.Year(), next.Month(), next.Day(), 23, 59, 59, 0, time.UTC)
		}
	}
	return never, false
}

// spanAt returns the span that contains an instant. It searches forward from lookBack before the instant. For a span
// that the zone data do not list one by one, ZoneBounds gives the exact end, but its start is sometimes only that of
// the year.
func (r *Rule) spanAt(at int64) span {
	shown := int64(math.MinInt64)
	start := at - lookBack
	for {
		offset, end := r.offset(start)
		if end > at {
			return span{start: start, end: end, offset: offset, shown: shown}
		}
		shown = max(shown, end+offset)
		start = end
	}
}

// offset returns the zone's offset at an instant, and an instant until which the offset stays the same at least.
func (r *Rule) offset(at int64) (offset, end int64) {
	instant := time.Unix(at, 0).In(r.zone)
	_, seconds := instant.Zone()
	_, bound := instant.ZoneBounds()
	switch {
	case bound.IsZero():
		end = math.MaxInt64
	case bound.After(instant):
		end = bound.Unix()
	default:
		// On the last day of a leap year ZoneBounds may return the beginning of that day, in UTC. See
		// golang/go#81583.
		end = at + 86400 - modulo(at, 86400)
	}
	return int64(seconds), end
}
