package community

import "time"

// instantOf is the instant at which clocks in the zone show the date and time of local, whose own location is
// ignored. Where they skip it, or show it twice, RFC 5545 (3.3.5) says what a calendar means: a skipped time is
// counted with the offset from before the gap, so that 02:30 becomes 03:30, and a repeated one is the first of the
// two. time.Date promises neither.
func instantOf(local time.Time, zone *time.Location) time.Time {
	fields := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), local.Nanosecond(), time.UTC)
	// No zone is a day off UTC or changes its offset twice within two days: one sample lies before a change, the
	// other after.
	before, after := offsetAt(fields.Add(-24*time.Hour), zone), offsetAt(fields.Add(24*time.Hour), zone)
	earlier, later := fields.Add(-before), fields.Add(-after)
	if !shows(earlier, zone, fields) && shows(later, zone, fields) {
		return later
	}
	return earlier
}

// nextOccurrence is the first repetition of local, every so many days, that starts after the given instant: what the
// calendar shows and the instant it comes to. It counts the repetitions before that one, which are skipped. It counts
// days on the calendar and not hours, so the clock shows the same time on both sides of a change of daylight saving,
// and a day on which that time is skipped does not move the days after it.
func nextOccurrence(local time.Time, zone *time.Location, days int, after time.Time) (next, at time.Time, skipped int) {
	steps := 1
	if passed := after.Sub(instantOf(local, zone)); passed > 0 {
		steps = max(1, int(passed/(time.Duration(days)*24*time.Hour))-1) // near it, from below: clocks change by hours, not days
	}
	for {
		next = local.AddDate(0, 0, steps*days)
		at = instantOf(next, zone)
		if at.After(after) {
			return next, at, steps - 1
		}
		steps++
	}
}

// localOf is what clocks in the zone show at the instant, as a time in UTC: what a Postgres timestamp holds.
func localOf(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
}

func offsetAt(at time.Time, zone *time.Location) time.Duration {
	_, seconds := at.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

func shows(at time.Time, zone *time.Location, fields time.Time) bool {
	return localOf(at, zone).Equal(fields)
}
