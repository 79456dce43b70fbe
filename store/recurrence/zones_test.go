package recurrence

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// change is one change of a zone's offset; offsets are in minutes east of UTC.
type change struct {
	at            int64 // the first instant of the new offset, in Unix seconds
	before, after int
}

// in is a stretch with changes such as "2026-03-08T07:00:00Z -240": the instant, and the offset from then on.
func in(zone string, from, to int64, offset int, changes ...string) stretch {
	s := stretch{zone: zone, from: from, to: to, offset: offset}
	for _, text := range changes {
		at, after, _ := strings.Cut(text, " ")
		minutes, _ := strconv.Atoi(after)
		s.changes = append(s.changes, change{utc(at), offset, minutes})
		offset = minutes
	}
	return s
}

// stretch is some time in a zone, with all that its wall clocks do then. The changes are written down from the rules
// of the IANA time zone database, which the comments cite, and TestStretches compares them with what
// time.LoadLocation knows.
type stretch struct {
	zone     string
	from, to int64 // from < fire <= to, in Unix seconds
	offset   int   // at from, in minutes
	changes  []change
}

var (
	begin2026, end2026 = utc("2025-12-31T23:59:59Z"), utc("2026-12-31T23:59:59Z")
	begin2028, end2028 = utc("2027-12-31T23:59:59Z"), utc("2028-12-31T23:59:59Z")
)

// Whole years: 2026, and 2028 for its leap day.
var years = []stretch{
	in("UTC", begin2026, end2026, 0),
	in("UTC", begin2028, end2028, 0),
	// Rule US 2007 max - Mar Sun>=8 2:00 1:00 D
	// Rule US 2007 max - Nov Sun>=1 2:00 0    S    Zone America/New_York -5:00 US E%sT
	in("America/New_York", begin2026, end2026, -300, "2026-03-08T07:00:00Z -240", "2026-11-01T06:00:00Z -300"),
	in("America/New_York", begin2028, end2028, -300, "2028-03-12T07:00:00Z -240", "2028-11-05T06:00:00Z -300"),
	// Rule EU 1981 max - Mar lastSun 1:00u 1:00 S
	// Rule EU 1996 max - Oct lastSun 1:00u 0    -  Zone Europe/Berlin 1:00 EU CE%sT
	in("Europe/Berlin", begin2026, end2026, 60, "2026-03-29T01:00:00Z +120", "2026-10-25T01:00:00Z +60"),
	in("Europe/Berlin", begin2028, end2028, 60, "2028-03-26T01:00:00Z +120", "2028-10-29T01:00:00Z +60"),
	// Rule LH 2008 max - Apr Sun>=1 2:00 0    -
	// Rule LH 2008 max - Oct Sun>=1 2:00 0:30 -    Zone Australia/Lord_Howe 10:30 LH +1030/+11
	in("Australia/Lord_Howe", begin2026, end2026, 660, "2026-04-04T15:00:00Z +630", "2026-10-03T15:30:00Z +660"),
	in("Australia/Lord_Howe", begin2028, end2028, 660, "2028-04-01T15:00:00Z +630", "2028-09-30T15:30:00Z +660"),
	// Midnight does not exist in March; 23:00 to 24:00 comes twice in October.
	// Rule Lebanon 1993 max - Mar lastSun 0:00 1:00 S
	// Rule Lebanon 1999 max - Oct lastSun 0:00 0    -  Zone Asia/Beirut 2:00 Lebanon EE%sT
	in("Asia/Beirut", begin2026, end2026, 120, "2026-03-28T22:00:00Z +180", "2026-10-24T21:00:00Z +120"),
	in("Asia/Beirut", begin2028, end2028, 120, "2028-03-25T22:00:00Z +180", "2028-10-28T21:00:00Z +120"),
}

// The days around rarer changes.
var oddities = []stretch{
	// Rule Egypt 2023 max - Apr lastFri 0:00  1:00 S
	// Rule Egypt 2023 max - Oct lastThu 24:00 0    -  Zone Africa/Cairo 2:00 Egypt EE%sT
	in("Africa/Cairo", utc("2026-04-20T00:00:00Z"), utc("2026-04-27T00:00:00Z"), 120, "2026-04-23T22:00:00Z +180"),
	in("Africa/Cairo", utc("2026-10-26T00:00:00Z"), utc("2026-11-03T00:00:00Z"), 180, "2026-10-29T21:00:00Z +120"),
	// Rule Brazil 2016 2019 - Feb Sun>=15 0:00 0    -
	// Rule Brazil 2018 only - Nov Sun>=1  0:00 1:00 -  Zone America/Sao_Paulo -3:00 Brazil -03/-02
	in("America/Sao_Paulo", utc("2018-02-15T00:00:00Z"), utc("2018-02-20T00:00:00Z"), -120,
		"2018-02-18T02:00:00Z -180"),
	in("America/Sao_Paulo", utc("2018-10-31T00:00:00Z"), utc("2018-11-06T00:00:00Z"), -180,
		"2018-11-04T03:00:00Z -120"),
	// Zone Pacific/Apia -11:00 WS -11/-10 2011 Dec 29 24:00; 13:00 WS +13/+14, with summer time on: 30
	// December is left out.
	in("Pacific/Apia", utc("2011-12-26T00:00:00Z"), utc("2012-01-03T00:00:00Z"), -600, "2011-12-30T10:00:00Z +840"),
	// Zone Pacific/Kwajalein -12:00 - -12 1993 Aug 20 24:00; 12:00 - +12: 21 August is left out.
	in("Pacific/Kwajalein", utc("1993-08-18T00:00:00Z"), utc("1993-08-25T00:00:00Z"), -720,
		"1993-08-21T12:00:00Z +720"),
	// Zone Pacific/Kwajalein 11:00 - +11 1969 Oct; -12:00 - -12: 23 hours come twice.
	in("Pacific/Kwajalein", utc("1969-09-27T00:00:00Z"), utc("1969-10-04T00:00:00Z"), 660, "1969-09-30T13:00:00Z -720"),
	// Base offsets that changed. Zone Asia/Pyongyang 9:00 - KST 2015 Aug 15 00:00; 8:30 - KST 2018 May 4
	// 23:30; 9:00 - KST
	in("Asia/Pyongyang", utc("2015-08-12T00:00:00Z"), utc("2015-08-18T00:00:00Z"), 540, "2015-08-14T15:00:00Z +510"),
	in("Asia/Pyongyang", utc("2018-05-02T00:00:00Z"), utc("2018-05-07T00:00:00Z"), 510, "2018-05-04T15:00:00Z +540"),
	// Zone America/Caracas -4:30 - -0430 2016 May 1 2:30; -4:00 - -04
	in("America/Caracas", utc("2016-04-28T00:00:00Z"), utc("2016-05-04T00:00:00Z"), -270, "2016-05-01T07:00:00Z -240"),
	// Rule Troll 2005 max - Mar lastSun 1:00u 2:00 +02
	// Rule Troll 2004 max - Oct lastSun 1:00u 0:00 +00  Zone Antarctica/Troll 0:00 Troll %s
	in("Antarctica/Troll", utc("2026-03-26T00:00:00Z"), utc("2026-04-01T00:00:00Z"), 0, "2026-03-29T01:00:00Z +120"),
	in("Antarctica/Troll", utc("2026-10-22T00:00:00Z"), utc("2026-10-28T00:00:00Z"), 120, "2026-10-25T01:00:00Z +0"),
	// The last day of a leap year beyond the transitions that the zone data list one by one (golang/go#81583).
	in("America/New_York", utc("2040-12-28T00:00:00Z"), utc("2041-01-03T00:00:00Z"), -300),
	in("Australia/Lord_Howe", utc("2096-12-28T00:00:00Z"), utc("2097-01-03T00:00:00Z"), 660),
}

// offsetAt is the offset in seconds that the literals say.
func (s stretch) offsetAt(at int64) int64 {
	minutes := s.offset
	for _, c := range s.changes {
		if at >= c.at {
			minutes = c.after
		}
	}
	return int64(minutes) * 60
}

func utc(text string) int64 {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at.Unix()
}

// stamp writes an instant as RFC 3339 in UTC.
func stamp(at int64) string {
	return time.Unix(at, 0).UTC().Format(time.RFC3339)
}

func TestStretches(t *testing.T) {
	for _, s := range append(years[:len(years):len(years)], oddities...) {
		location, err := time.LoadLocation(s.zone)
		if err != nil {
			t.Fatal(err)
		}
		check := func(at int64) {
			if _, offset := time.Unix(at, 0).In(location).Zone(); int64(offset) != s.offsetAt(at) {
				t.Errorf(
					"%s at %s: the zone data say %d, the literals %d seconds", s.zone, stamp(at), offset,
					s.offsetAt(at),
				)
			}
		}
		for at := s.from; at <= s.to; at += 3600 {
			check(at)
		}
		for _, c := range s.changes {
			check(c.at - 1)
			check(c.at)
		}
	}
}

// TestOffset: what is made of ZoneBounds agrees with Zone at every hour, and gets on.
func TestOffset(t *testing.T) {
	for _, zone := range []string{
		"America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Nuuk", "Pacific/Apia", "UTC",
	} {
		rule := mustParse(t, "0 0 * * *", zone)
		for _, year := range []int{2011, 2040, 2096} {
			from := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
			var offset, end int64
			for at := from; at < from+370*86400; at += 3600 {
				if at == from || at >= end {
					if offset, end = rule.offset(at); end <= at {
						t.Fatalf("%s at %s: the offset ends before", zone, stamp(at))
					}
				}
				if _, want := time.Unix(at, 0).In(rule.zone).Zone(); int64(want) != offset {
					t.Fatalf("%s at %s: offset %d, want %d", zone, stamp(at), offset, want)
				}
			}
		}
	}
}

func mustParse(t testing.TB, expression, zone string) *Rule {
	t.Helper()
	rule, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}
