package recurrence

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Zones finds a time zone by its IANA name, as time.LoadLocation does.
type Zones func(name string) (*time.Location, error)

// Changes of the clocks in these years are what Fingerprint tells zone data by. The years are fixed, so that the same data
// have the same fingerprint at any time.
var (
	fingerprintFrom = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	fingerprintTo   = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
)

// Fingerprint tells different data of one time zone apart: it is equal for two locations whose clocks show the same at each
// instant of the years 2020 to 2099. It takes some 100 microseconds.
func Fingerprint(zone *time.Location) string {
	hash := sha256.New()
	rule := Rule{zone: zone}
	var shown int64 // the offset that was written last
	for at := fingerprintFrom; at < fingerprintTo; {
		offset, end := rule.offset(at)
		if at == fingerprintFrom || offset != shown {
			_ = binary.Write(hash, binary.BigEndian, [2]int64{at, offset}) // a hash takes all
			shown = offset
		}
		at = end
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

// ZoneData is the Fingerprint of the rule's zone.
func (r *Rule) ZoneData() string { return Fingerprint(r.zone) }

// Wall is the time that the zone's clocks show at a fire, written as if it were UTC: at the end of a gap the time at which
// the gap began. With other zone data the same time may come at another instant; see Replan. It is the zero time for
// @every, which does not look at clocks.
func (r *Rule) Wall(fire time.Time) time.Time {
	if r.every > 0 || fire.IsZero() {
		return time.Time{}
	}
	offset, _ := r.offset(fire.Unix() - 1)
	return time.Unix(fire.Unix()+offset, 0).UTC()
}

// Replan returns from when to look for the next fire, the instant itself excluded, if the next fire was planned for a wall
// time by zone data that have changed since. The fire is then neither lost nor doubled: a fixed time fires when the clocks
// reach the wall time now. A wildcard expression fires at each instant that matches, from now on at the latest.
func (r *Rule) Replan(wall, now time.Time) time.Time {
	at := wall.Unix() - lookBack
	for {
		offset, end := r.offset(at)
		if reached := max(wall.Unix()-offset, at); reached < end {
			at = reached
			break
		}
		at = end
	}
	from := time.Unix(at, 0).UTC().Add(-time.Nanosecond)
	if !r.fixed && now.Before(from) {
		return now
	}
	return from
}
