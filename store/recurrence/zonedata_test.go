package recurrence

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// zoneOf makes a zone whose clocks follow a POSIX rule for ever, as if it came from a time zone database.
func zoneOf(t testing.TB, name, posix string) *time.Location {
	t.Helper()
	var data bytes.Buffer
	for range 2 { // in 32 bits, which nobody reads, and in 64
		data.WriteString("TZif2" + string(make([]byte, 15)))
		_ = binary.Write(&data, binary.BigEndian, []uint32{0, 0, 0, 0, 1, 4})
		_ = binary.Write(&data, binary.BigEndian, int32(-5*3600))
		data.WriteString("\x00\x00CST\x00")
	}
	data.WriteString("\n" + posix + "\n")
	location, err := time.LoadLocationFromTZData(name, data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return location
}

const (
	summerFromMarch = "CST5CDT,M3.2.0/0,M11.1.0/1"
	summerFromApril = "CST5CDT,M4.1.0/0,M11.1.0/1"
	noSummer        = "CST5"
	allSummer       = "CDT4"
)

func TestFingerprint(t *testing.T) {
	t.Parallel()
	if a, b := Fingerprint(zoneOf(
		t, "A/B", summerFromMarch,
	)), Fingerprint(zoneOf(t, "C/D", summerFromMarch)); a != b || len(a) != 12 {
		t.Errorf("the same clocks: %s and %s", a, b)
	}
	seen := map[string]string{}
	for _, posix := range []string{summerFromMarch, summerFromApril, noSummer, allSummer} {
		print := Fingerprint(zoneOf(t, "A/B", posix))
		if other := seen[print]; other != "" {
			t.Errorf("%s and %s have the same fingerprint", posix, other)
		}
		seen[print] = posix
	}
	for _, pair := range [][2]string{
		{"Europe/Berlin", "Europe/Vienna"}, {"UTC", "Etc/UTC"}, {"America/Havana", "Cuba"},
	} {
		a, b := mustParse(t, "@daily", pair[0]).zone, mustParse(t, "@daily", pair[1]).zone
		if Fingerprint(a) != Fingerprint(b) {
			t.Errorf("%v differ", pair)
		}
	}
	if Fingerprint(
		mustParse(t, "@daily", "Europe/Berlin").zone,
	) == Fingerprint(mustParse(t, "@daily", "Africa/Cairo").zone) {
		t.Error("Berlin and Cairo have the same fingerprint")
	}
}

// TestReplan: a fire that was planned by one set of zone data comes when the clocks of another show its time.
func TestReplan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, expression, before, after, planned, now, want string }{
		{"later now", "0 9 20 3 *", summerFromMarch, summerFromApril,
			"2027-03-20T13:00", "2027-03-01T00:00", "2027-03-20T14:00"},
		{"earlier now", "0 9 20 3 *", summerFromApril, summerFromMarch,
			"2027-03-20T14:00", "2027-03-01T00:00", "2027-03-20T13:00"},
		{"earlier now, and over", "@yearly", noSummer, allSummer,
			"2028-01-01T05:00", "2028-01-01T04:30", "2028-01-01T04:00"},
		{"moved to a workday, and later now", "0 9 20 3 * keep-to=workdays move=next", summerFromMarch, summerFromApril,
			"2027-03-22T13:00", "2027-03-01T00:00", "2027-03-22T14:00"},
		{"not today's again", "0 9 * * *", allSummer, noSummer,
			"2027-06-02T13:00", "2027-06-01T13:30", "2027-06-02T14:00"},
		{"unmoved", "0 9 1 6 *", summerFromMarch, summerFromApril,
			"2027-06-01T13:00", "2027-03-01T00:00", "2027-06-01T13:00"},
		{"no gap any more", "30 0 14 3 *", summerFromMarch, summerFromApril,
			"2027-03-14T05:00", "2027-03-01T00:00", "2027-03-14T05:30"},
		{"a gap since", "30 0 14 3 *", summerFromApril, summerFromMarch,
			"2027-03-14T05:30", "2027-03-01T00:00", "2027-03-14T05:00"},
		{"a wildcard loses nothing", "*/15 * * * *", allSummer, noSummer,
			"2027-06-01T13:15", "2027-06-01T13:05", "2027-06-01T13:15"},
		{"a wildcard that is over", "*/30 9 1 6 *", noSummer, allSummer,
			"2027-06-01T14:00", "2027-06-01T13:20", "2027-06-01T13:00"},
	} {
		zones := func(posix string) Zones {
			return func(name string) (*time.Location, error) { return zoneOf(t, name, posix), nil }
		}
		old, err := ParseIn(c.expression, "America/Havana", zones(c.before))
		if err != nil {
			t.Fatal(err)
		}
		planned, now, want := instant(c.planned+":00Z"), instant(c.now+":00Z"), instant(c.want+":00Z")
		if fire := old.Next(planned.Add(-time.Second)); !fire.Equal(planned) {
			t.Fatalf("%s: by the old data it fires at %s", c.what, fire)
		}
		rule, err := ParseIn(c.expression, "America/Havana", zones(c.after))
		if err != nil {
			t.Fatal(err)
		}
		if got := rule.Next(rule.Replan(old.Wall(planned), now)); !got.Equal(want) {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
		if got := old.Next(old.Replan(old.Wall(planned), now)); !got.Equal(planned) && old.fixed {
			t.Errorf("%s: by unchanged data it is planned for %s", c.what, got)
		}
	}
	if wall := mustParse(t, "@every 90s", "Europe/Berlin").Wall(instant("2027-06-01T13:20:00Z")); !wall.IsZero() {
		t.Errorf("@every has a wall time: %s", wall)
	}
}
