package recurrence

import (
	"math"
	"time"
	_ "time/tzdata" // a container may have no zone data
)

// lookBack, in seconds, is more than any two wall clocks differ: offsets lie within ±16 hours, and none has changed by more
// than 24. So it is also how long after a change of the offset a wall time can still be one that was shown before.
const lookBack = 48 * 60 * 60

// span is a stretch of time with one offset. Instants are Unix seconds; wall times are the Unix seconds at which a clock in
// UTC shows the same: the instant plus the offset.
type span struct {
	start, end int64 // from start, before end; a start more than lookBack ago is not looked for
	offset     int64
	shown      int64 // the wall times before this one have been shown, or skipped, before start
}

// nextWall is the first instant, from at on, at which an expression that is not @every fires; any one after the year 9999 if
// there is none until then.
func (r *Rule) nextWall(at int64) int64 {
	for at <= latest.Unix() {
		now := r.spanAt(at)
		from := at + now.offset
		if r.fixed {
			from = max(from, now.shown)
			if at == now.start {
				from = now.shown // either the gap's first wall time or the first that is no repetition
			}
		}
		wall, _ := r.match(from)
		if fire := max(wall-now.offset, at); fire < now.end { // max: what was in the gap fires now
			return fire
		}
		// On to the first wall time that may be shown from the span's end on, which may be an earlier one, come round again.
		wall, _ = r.match(now.end - lookBack)
		at = max(now.end, wall-lookBack)
	}
	return math.MaxInt64
}

// calendarStart begins a cycle of the calendar: after 400 years its days come again, on the same days of the week.
var calendarStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()

const calendarYears = 400

// match is the first wall time, from this one on, that the expression's fields describe. There is always one within a cycle
// of the calendar if Parse took the expression; Parse itself asks whether there is.
func (r *Rule) match(from int64) (wall int64, found bool) {
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
	return math.MaxInt64, false
}

// spanAt is the span that contains an instant. It goes forward from lookBack before, since of a span that the zone data do not
// list one by one, ZoneBounds tells the end exactly, but as its start sometimes only that of the year.
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

// offset is the zone's at an instant, and until when it stays so at least.
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
		// On the last day of a leap year ZoneBounds may name the beginning of that day, in UTC: golang/go#81583.
		end = at + 86400 - modulo(at, 86400)
	}
	return int64(seconds), end
}
