package community

import "time"

// instantOf returns the instant at which clocks in the zone show the date and time of local. The location of local is
// ignored. Clocks may skip a time, or show it twice. For these cases instantOf follows RFC 5545 (3.3.5): a skipped
// time is counted with the offset from before the gap, so that 02:30 becomes 03:30, and a repeated time is the first
// of the two. time.Date promises neither.
func instantOf(local time.Time, zone *time.Location) time.Time {
	fields := localOf(local, local.Location())
	// No zone is a day off UTC, and no zone changes its offset twice within two days. So if the offset changes, one
	// sample lies before the change and the other after it.
	before, after := offsetAt(fields.Add(-24*time.Hour), zone), offsetAt(fields.Add(24*time.Hour), zone)
	earlier, later := fields.Add(-before), fields.Add(-after)
	if !shows(earlier, zone, fields) && shows(later, zone, fields) {
		return later
	}
	return earlier
}

// nextOccurrence finds the first repetition of local that starts after the given instant. It returns the local time
// and the instant of that repetition, and the number of repetitions that were skipped before it. It adds calendar
// days and not hours. So clocks show the same time before and after a change of daylight saving time, and a day on
// which clocks skip that time does not move the days after it.
func nextOccurrence(local time.Time, zone *time.Location, days int, after time.Time) (next, at time.Time, skipped int) {
	steps := 1
	if passed := after.Sub(instantOf(local, zone)); passed > 0 {
		// Start one step early, because a change of the clocks can make days longer or shorter by hours.
		steps = max(1, int(passed/(time.Duration(days)*24*time.Hour))-1)
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

// localOf returns the date and time that clocks in the zone show at the instant, as a time in UTC. A Postgres
// timestamp holds such a time.
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
