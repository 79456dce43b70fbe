package term

import (
	"strings"
	"testing"
	"time"
)

func TestTimesAreToldInTheZoneAndFromNow(t *testing.T) {
	t.Parallel()
	c := Clock{Now: testNow, Zone: berlin(t)}
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
		-200 * Day:             "2026-05-05 20:00:00 CEST (200d ago)",
		2*year + 12*time.Hour:  "2028-11-21 07:00:00 CET (in 2y)",
		-100 * year:            "1926-12-16 19:00:00 CET (100y ago)",
	} {
		at := testNow.Add(distance)
		if got := c.When(&at); got != want {
			t.Errorf("%s: got %q, want %q", distance, got, want)
		}
	}
	at := testNow.Add(123456789)
	if got, want := c.Exact(&at), "2026-11-21 19:00:00.123 CET"; got != want {
		t.Errorf("exact: got %q, want %q", got, want)
	}
	if got := c.When(nil) + c.Exact(nil); got != "" {
		t.Errorf("nil: got %q", got)
	}
}

func TestTook(t *testing.T) {
	t.Parallel()
	var got []string
	for _, d := range []time.Duration{0, 1499, 340 * time.Microsecond, 1254 * time.Microsecond,
		99999 * time.Microsecond, 1256 * time.Millisecond,
		-1256 * time.Millisecond, 83456 * time.Millisecond, 3*time.Hour + 1234*time.Millisecond} {
		got = append(got, Took(d))
	}
	if got, want := strings.Join(got, " "), "0s 1µs 340µs 1.25ms 100ms 1.26s -1.26s 1m23.4s 3h0m0s"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// testNow is the time that the tests of this package go by.
var testNow = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}
