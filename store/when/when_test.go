package when_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/when"
)

func TestTime(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	wrong := when.ErrTime.Error()
	const skipped = "must be a time that clocks in Europe/Berlin show: they are set forward over it"
	for given, want := range map[string]string{
		"":                               "",
		"now":                            "2026-11-21T18:00:00Z",
		"+10m":                           "2026-11-21T18:10:00Z",
		" +10m ":                         "2026-11-21T18:10:00Z",
		"-1h30m":                         "2026-11-21T16:30:00Z",
		"+2d":                            "2026-11-23T18:00:00Z",
		"-1w":                            "2026-11-14T18:00:00Z",
		"+1w1d1h":                        "2026-11-29T19:00:00Z",
		"+0s":                            "2026-11-21T18:00:00Z",
		"+1500ms":                        "2026-11-21T18:00:01.5Z",
		"today":                          "2026-11-20T23:00:00Z",
		"today 18:00":                    "2026-11-21T17:00:00Z",
		"tomorrow 09:00":                 "2026-11-22T08:00:00Z",
		"tomorrow 09:00:05":              "2026-11-22T08:00:05Z",
		"yesterday":                      "2026-11-19T23:00:00Z",
		"2026-11-21T18:00:00Z":           "2026-11-21T18:00:00Z",
		"2026-11-21T18:00:00.25+02:00":   "2026-11-21T16:00:00.25Z",
		"2026-11-21 18:00:00Z":           "2026-11-21T18:00:00Z",
		"2026-11-21 18:00+01:00":         "2026-11-21T17:00:00Z",
		"2026-11-21 18:00":               "2026-11-21T17:00:00Z",
		"2026-07-21 18:00:05":            "2026-07-21T16:00:05Z",
		"2026-11-21":                     "2026-11-20T23:00:00Z",
		"2026-11-21T18:00":               "2026-11-21T17:00:00Z", // as an input of type datetime-local sends it
		"2026-10-25 02:30":               "2026-10-25T00:30:00Z", // clocks show it twice
		"2026-10-25 03:00":               "2026-10-25T02:00:00Z",
		"2026-03-29 02:30":               skipped,
		"2026-03-29 03:00":               "2026-03-29T01:00:00Z",
		"soon":                           wrong,
		"tomorrow 25:00":                 wrong,
		"tomorrow +1h":                   wrong,
		"10m":                            wrong, // of one without a sign nobody knows which way
		"+":                              wrong,
		"+-1h":                           wrong,
		"--1h":                           wrong,
		"+2d-1h":                         wrong,
		"+2 d":                           wrong,
		"+1h2d":                          wrong,
		"+99999d":                        wrong,
		"+9999w99999d":                   wrong,
		"+2562047h":                      wrong,
		"2026-13-01":                     wrong,
		"2026-11-21 18":                  wrong,
		"postgres://user:secret@host/db": wrong,
	} {
		at, err := when.Time(given, now, zone)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case !at.IsZero():
			got = at.UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

// A day on which clocks change is the day after the one before it, though it is shorter, or has no midnight.
func TestDaysOnWhichClocksChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, now, given, want string }{
		{"Europe/Berlin", "2026-03-28T23:30:00+01:00", "tomorrow 09:00", "2026-03-29T07:00:00Z"},
		{"Europe/Berlin", "2026-03-28T12:00:00+01:00", "tomorrow 02:30",
			"must be a time that clocks in Europe/Berlin show: they are set forward over it"},
		{"Europe/Berlin", "2026-10-25T00:30:00+02:00", "tomorrow 09:00", "2026-10-26T08:00:00Z"},
		{"Africa/Cairo", "2026-04-23T12:00:00+02:00", "tomorrow", // clocks go from 00:00 to 01:00
			"must be a time that clocks in Africa/Cairo show: they are set forward over it"},
		{"Australia/Lord_Howe", "2026-04-01T00:00:00+11:00", "2026-04-05 01:45", "2026-04-04T14:45:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		at, err := when.Time(c.given, now, zone)
		got := at.UTC().Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s at %s: got %q, want %q", c.given, c.now, got, c.want)
		}
	}
}

// Each length is read as it is written, up to 100 years.
func TestLength(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"0": "0s", "1µs": "1µs", "1500ms": "1.5s", "90s": "1m30s", "1h30m": "1h30m", "2d": "2d", "2d12h": "2d12h",
		"1w1d": "8d",
		"36h":  "1d12h", "36525d": "36525d", "876600h": "36525d", "1.5h": "1h30m",
		"":    "",
		"-1h": "", "+1h": "", "1": "", "1y": "", "1h2d": "", "36526d": "", "876600h1s": "", "36525d1s": "",
		"9999w99999d": "",
		"1d-1h":       "", "2 d": "",
	} {
		d, err := when.Length(given)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q: %s, want an error", given, d)
		case want != "" && (err != nil || when.LengthText(d) != want):
			t.Errorf("%q: %s, %v, want %s", given, when.LengthText(d), err, want)
		}
		if again, err := when.Length(when.LengthText(d)); err != nil || again != d {
			t.Errorf("%s: read as %s, %v", when.LengthText(d), again, err)
		}
	}
}
