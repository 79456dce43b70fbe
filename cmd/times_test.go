package cmd

import (
	"strings"
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
	c := clock{now: fixedNow, zone: berlin(t)}
	for given, want := range map[string]string{
		"":                               "",
		"now":                            "2026-11-21T18:00:00Z",
		"+10m":                           "2026-11-21T18:10:00Z",
		"-1h30m":                         "2026-11-21T16:30:00Z",
		"+2d":                            "2026-11-23T18:00:00Z",
		"-1w":                            "2026-11-14T18:00:00Z",
		"+1w1d1h":                        "2026-11-29T19:00:00Z",
		"+0s":                            "2026-11-21T18:00:00Z",
		"+1500ms":                        "2026-11-21T18:00:01.5Z",
		"2026-11-21T18:00:00Z":           "2026-11-21T18:00:00Z",
		"2026-11-21T18:00:00.25+02:00":   "2026-11-21T16:00:00.25Z",
		"2026-11-21 18:00:00Z":           "2026-11-21T18:00:00Z",
		"2026-11-21 18:00+01:00":         "2026-11-21T17:00:00Z",
		"2026-11-21 18:00":               "2026-11-21T17:00:00Z",
		"2026-07-21 18:00:05":            "2026-07-21T16:00:05Z",
		"2026-11-21":                     "2026-11-20T23:00:00Z",
		"2026-11-21T18:00":               "2026-11-21T17:00:00Z",
		"2026-10-25 02:30":               "2026-10-25T00:30:00Z", // clocks show it twice
		"2026-10-25 03:00":               "2026-10-25T02:00:00Z",
		"2026-03-29 02:30":               "must be a time that clocks in Europe/Berlin show: they are set forward over it",
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
		at, err := moment(given).at(c)
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

func TestTimesAreToldInTheZoneAndFromNow(t *testing.T) {
	t.Parallel()
	c := clock{now: fixedNow, zone: berlin(t)}
	for distance, want := range map[time.Duration]string{
		0:                      "2026-11-21 19:00:00 CET (now)",
		999 * time.Millisecond: "2026-11-21 19:00:00 CET (now)",
		time.Second:            "2026-11-21 19:00:01 CET (in 1s)",
		-119 * time.Second:     "2026-11-21 18:58:01 CET (119s ago)",
		2 * time.Minute:        "2026-11-21 19:02:00 CET (in 2m)",
		119 * time.Minute:      "2026-11-21 20:59:00 CET (in 119m)",
		-2 * time.Hour:         "2026-11-21 17:00:00 CET (2h ago)",
		47 * time.Hour:         "2026-11-23 18:00:00 CET (in 47h)",
		48 * time.Hour:         "2026-11-23 19:00:00 CET (in 2d)",
		-200 * day:             "2026-05-05 20:00:00 CEST (200d ago)",
		2*year + 12*time.Hour:  "2028-11-21 07:00:00 CET (in 2y)",
		-100 * year:            "1926-12-16 19:00:00 CET (100y ago)",
	} {
		at := fixedNow.Add(distance)
		if got := c.when(&at); got != want {
			t.Errorf("%s: got %q, want %q", distance, got, want)
		}
	}
	at := fixedNow.Add(123456789)
	if got, want := c.exact(&at), "2026-11-21 19:00:00.123 CET"; got != want {
		t.Errorf("exact: got %q, want %q", got, want)
	}
	if got := c.when(nil) + c.exact(nil); got != "" {
		t.Errorf("nil: got %q", got)
	}
}

func TestTook(t *testing.T) {
	t.Parallel()
	var got []string
	for _, d := range []time.Duration{0, 1499, 340 * time.Microsecond, 1254 * time.Microsecond, 99999 * time.Microsecond, 1256 * time.Millisecond,
		-1256 * time.Millisecond, 83456 * time.Millisecond, 3*time.Hour + 1234*time.Millisecond} {
		got = append(got, took(d))
	}
	if got, want := strings.Join(got, " "), "0s 1µs 340µs 1.25ms 100ms 1.26s -1.26s 1m23.4s 3h0m0s"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
