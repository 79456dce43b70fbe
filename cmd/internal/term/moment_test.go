package term

import (
	"testing"
	"time"
)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestMoments(t *testing.T) {
	t.Parallel()
	c := Clock{Now: testNow, Zone: berlin(t)}
	for given, want := range map[string]string{
		"":                             "",
		"now":                          "2026-11-21T18:00:00Z",
		"+10m":                         "2026-11-21T18:10:00Z",
		"-1h30m":                       "2026-11-21T16:30:00Z",
		"+2d":                          "2026-11-23T18:00:00Z",
		"-1w":                          "2026-11-14T18:00:00Z",
		"+1w1d1h":                      "2026-11-29T19:00:00Z",
		"+0s":                          "2026-11-21T18:00:00Z",
		"+1500ms":                      "2026-11-21T18:00:01.5Z",
		"2026-11-21T18:00:00Z":         "2026-11-21T18:00:00Z",
		"2026-11-21T18:00:00.25+02:00": "2026-11-21T16:00:00.25Z",
		"2026-11-21 18:00:00Z":         "2026-11-21T18:00:00Z",
		"2026-11-21 18:00+01:00":       "2026-11-21T17:00:00Z",
		"2026-11-21 18:00":             "2026-11-21T17:00:00Z",
		"2026-07-21 18:00:05":          "2026-07-21T16:00:05Z",
		"2026-11-21":                   "2026-11-20T23:00:00Z",
		"2026-11-21T18:00":             "2026-11-21T17:00:00Z",
		"2026-10-25 02:30":             "2026-10-25T00:30:00Z", // clocks show it twice
		"2026-10-25 03:00":             "2026-10-25T02:00:00Z",
		"2026-03-29 02:30": "must be a time that clocks in Europe/Berlin show: they are set forward " +
			"over it",
		"2026-03-29 03:00":               "2026-03-29T01:00:00Z",
		"soon":                           momentRule,
		"10m":                            momentRule, // of one without a sign nobody knows which way
		"+":                              momentRule,
		"+-1h":                           momentRule,
		"--1h":                           momentRule,
		"+2d-1h":                         momentRule,
		"+2 d":                           momentRule,
		"+1h2d":                          momentRule,
		"+99999d":                        momentRule,
		"+9999w99999d":                   momentRule,
		"+2562047h":                      momentRule,
		"2026-13-01":                     momentRule,
		"2026-11-21 18":                  momentRule,
		"postgres://user:secret@host/db": momentRule,
	} {
		at, err := Moment(given).At(c)
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
