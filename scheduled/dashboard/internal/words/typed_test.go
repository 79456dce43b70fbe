package words

import (
	"testing"
	"time"
)

func TestTypedTimes(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	for given, want := range map[string]string{
		"":                          "",
		"now":                       "2026-11-21T18:00:00Z",
		" +10m ":                    "2026-11-21T18:10:00Z",
		"-1h30m":                    "2026-11-21T16:30:00Z",
		"+1w1d1h":                   "2026-11-29T19:00:00Z",
		"2026-11-21T18:00:00Z":      "2026-11-21T18:00:00Z",
		"2026-11-21 18:00:00+02:00": "2026-11-21T16:00:00Z",
		"2026-11-21 18:00+01:00":    "2026-11-21T17:00:00Z",
		"2026-11-21T18:00":          "2026-11-21T17:00:00Z", // as an input of type datetime-local sends it
		"2026-07-21 18:00:05":       "2026-07-21T16:00:05Z",
		"2026-11-21":                "2026-11-20T23:00:00Z",
		"2026-10-25 02:30":          "2026-10-25T00:30:00Z", // clocks show it twice
		"2026-03-29 02:30":          "must be a time that clocks in Europe/Berlin show: they are set forward over it",
		"2026-03-29 03:00":          "2026-03-29T01:00:00Z",
		"soon":                      errMoment.Error(),
		"10m":                       errMoment.Error(), // of one without a sign nobody knows which way
		"+":                         errMoment.Error(),
		"+-1h":                      errMoment.Error(),
		"+99999d":                   errMoment.Error(),
		"+2562047h":                 errMoment.Error(),
		"2026-13-01":                errMoment.Error(),
		"2026-11-21 18":             errMoment.Error(),
	} {
		at, err := Time(given, now, zone)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case !at.IsZero():
			got = at.UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}
