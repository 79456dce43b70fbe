package recurrence

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Zones returns a time zone by its IANA name, as time.LoadLocation does.
type Zones func(name string) (*time.Location, error)

// Fingerprint distinguishes zone data by the changes of the clocks in these years. The years are fixed, so that the
// same data always have the same fingerprint.
var (
	fingerprintFrom = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	fingerprintTo   = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
)

// Fingerprint returns a short text that distinguishes different data of one time zone. It is equal for two locations
// whose clocks show the same time at each instant of the years 2020 to 2099. It takes about 100 microseconds.
func Fingerprint(zone *time.Location) string {
	hash := sha256.New()
	rule := Rule{zone: zone}
	var shown int64 // the offset that was written last to the hash
	for at := fingerprintFrom; at < fingerprintTo; {
		offset, end := rule.offset(at)
		if at == fingerprintFrom || offset != shown {
			_ = binary.Write(hash, binary.BigEndian, [2]int64{at, offset}) // writing to a hash never fails
			shown = offset
		}
		at = end
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

// ZoneData returns the Fingerprint of the rule's zone.
func (r *Rule) ZoneData() string { return Fingerprint(r.zone) }

// Wall returns the time that the zone's clocks show at a fire, as if it were in UTC. At the end of a gap it returns
// the wall time at which the gap began. With other zone data the same wall time may come at another instant, which
// Replan finds. For @every, which does not depend on clocks, Wall returns the zero time.
func (r *Rule) Wall(fire time.Time) time.Time {
	if r.every > 0 || fire.IsZero() {
		return time.Time{}
	}
	offset, _ := r.offset(fire.Unix() - 1)
	return time.Unix(fire.Unix()+offset, 0).UTC()
}

// Replan serves a fire that was planned for a wall time by zone data that have changed since. It returns the time
// after which the caller looks for the next fire with the present data. That time itself is excluded. The fire is
// then neither lost nor doubled. A fixed-time expression fires when the clocks reach the wall time according to the
// present data. A wildcard expression fires at each instant that matches. For it Replan returns now if now is
// earlier.
//
// Replan is for zone data. After the days of a calendar have changed, look for the next fire after the earlier one of
// now and what Replan returns, because a fire may come before the one that was planned.
func (r *Rule) Replan(wall, now time.Time) time.Time {
	from := time.Unix(r.reached(wall.Unix()), 0).UTC().Add(-time.Nanosecond)
	if !r.fixed && now.Before(from) {
		return now
	}
	return from
}

// reached returns the first instant at which the zone's clocks show a wall time or, if they skip it, a later one.
func (r *Rule) reached(wall int64) int64 {
	for at := wall - lookBack; ; {
		offset, end := r.offset(at)
		if at = max(wall-offset, at); at < end {
			return at
		}
		at = end
	}
}
