package community

import (
	"testing"
	"time"
)

func parsed(t *testing.T, layout, text string) time.Time {
	t.Helper()
	at, err := time.Parse(layout, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// What the calendar shows stays the same over a change of daylight saving; the instant moves by the hour.
func TestNextOccurrence(t *testing.T) {
	t.Parallel()
	const calendar = "2006-01-02 15:04"
	for name, test := range map[string]struct {
		local, zone string
		days        int
		after       string // "": the start itself
		next, at    string
		skipped     int
	}{
		"no change":      {"2027-01-04 15:00", "Europe/Berlin", 7, "", "2027-01-11 15:00", "2027-01-11T14:00:00Z", 0},
		"into summer":    {"2027-03-22 15:00", "Europe/Berlin", 7, "", "2027-03-29 15:00", "2027-03-29T13:00:00Z", 0},
		"into winter":    {"2027-10-25 15:00", "Europe/Berlin", 7, "", "2027-11-01 15:00", "2027-11-01T14:00:00Z", 0},
		"a skipped time": {"2027-03-21 02:30", "Europe/Berlin", 7, "", "2027-03-28 02:30", "2027-03-28T01:30:00Z", 0},
		"after a skipped time": {
			"2027-03-28 02:30", "Europe/Berlin", 7, "", "2027-04-04 02:30", "2027-04-04T00:30:00Z", 0,
		},
		"a repeated time is the first": {
			"2027-10-24 02:30", "Europe/Berlin", 7, "", "2027-10-31 02:30", "2027-10-31T00:30:00Z", 0,
		},
		"after a repeated time": {
			"2027-10-31 02:30", "Europe/Berlin", 7, "", "2027-11-07 02:30", "2027-11-07T01:30:00Z", 0,
		},
		"midnight is skipped": {
			"2018-11-03 00:00", "America/Sao_Paulo", 1, "", "2018-11-04 00:00", "2018-11-04T03:00:00Z", 0,
		},
		"half an hour, into summer": {
			"2027-09-26 09:00", "Australia/Lord_Howe", 7, "", "2027-10-03 09:00", "2027-10-02T22:00:00Z", 0,
		},
		"half an hour, into winter": {
			"2027-03-28 09:00", "Australia/Lord_Howe", 7, "", "2027-04-04 09:00", "2027-04-03T22:30:00Z", 0,
		},
		"a skipped day": {"2011-12-29 10:00", "Pacific/Apia", 1, "", "2011-12-30 10:00", "2011-12-30T20:00:00Z", 0},
		"after it, the same instant is out": {
			"2011-12-30 10:00", "Pacific/Apia", 1, "", "2012-01-01 10:00", "2011-12-31T20:00:00Z", 1,
		},
		"no change ever": {"2027-03-28 02:30", "UTC", 1, "", "2027-03-29 02:30", "2027-03-29T02:30:00Z", 0},
		"an outage over the change": {
			"2027-03-01 15:00", "Europe/Berlin", 7, "2027-04-01T00:00:00Z", "2027-04-05 15:00", "2027-04-05T13:00:00Z",
			4,
		},
		"an outage that ends before one": {
			"2027-03-01 15:00", "Europe/Berlin", 7, "2027-03-29T12:59:59Z", "2027-03-29 15:00", "2027-03-29T13:00:00Z",
			3,
		},
		"a long outage": {
			"2001-01-01 15:00", "Europe/Berlin", 1, "2027-07-01T13:00:00Z", "2027-07-02 15:00", "2027-07-02T13:00:00Z",
			9677,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(test.zone)
			if err != nil {
				t.Fatal(err)
			}
			local := parsed(t, calendar, test.local)
			after := instantOf(local, zone)
			if test.after != "" {
				after = parsed(t, time.RFC3339, test.after)
			}
			next, at, skipped := nextOccurrence(local, zone, test.days, after)
			if next.Format(calendar) != test.next || !at.Equal(parsed(t, time.RFC3339, test.at)) ||
				skipped != test.skipped {
				t.Errorf(
					"got %s = %s, %d skipped; want %s = %s, %d", next.Format(calendar), at.UTC().Format(time.RFC3339),
					skipped, test.next, test.at, test.skipped,
				)
			}
		})
	}
}

// Wherever the clocks do not skip it, what was asked for is what they show, and a series only goes forward.
func TestASeriesKeepsItsTime(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia",
		"Pacific/Kiritimati", "Asia/Tehran", "UTC",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range []string{"00:00", "01:30", "02:00", "02:30", "23:59"} {
			local := parsed(t, "2006-01-02 15:04", "2009-12-31 "+start)
			last, moved := instantOf(local, zone), 0
			for range 365 * 10 {
				next, at, _ := nextOccurrence(local, zone, 1, last)
				if !at.After(last) || next.Format("15:04") != start {
					t.Fatalf("%s %s: %s after %s", name, start, at, last)
				}
				if !shows(at, zone, next) {
					moved++
				}
				local, last = next, at
			}
			if moved > 24 { // at most twice a year, and the day that Apia left out
				t.Errorf("%s %s: %d occurrences at another time", name, start, moved)
			}
		}
	}
}
