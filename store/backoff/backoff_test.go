package backoff_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/backoff"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]backoff.Policy{
		"1m":                       {First: time.Minute, Factor: 1, Max: 24 * time.Hour},
		"48h":                      {First: 48 * time.Hour, Factor: 1, Max: 48 * time.Hour},
		"5s x2":                    {First: 5 * time.Second, Factor: 2, Max: 24 * time.Hour},
		"5s x1.5 max 30s":          {First: 5 * time.Second, Factor: 1.5, Max: 30 * time.Second},
		"9999h x10.99 jitter 100%": {First: 9999 * time.Hour, Factor: 10.99, Max: 9999 * time.Hour, Jitter: 1},
		"10s x3 max 1h jitter 25%": backoff.Default(),
		"1s jitter 0%":             {First: time.Second, Factor: 1, Max: 24 * time.Hour},
	} {
		if got, err := backoff.Parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "0s", "01s", "10000s", "1d", "1m30s", "-1s", "1.5s", "1s x0", "1s x0.5", "1s x11",
		"1s x2.555", "1s  x2", "1s jitter 5% x2", "1s jitter 101%", "1s jitter 5", "1s max", "1s max 0s", " 1s", "1s ", "1s\n", "1S"} {
		if got, err := backoff.Parse(text); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %+v, %v, want an error", text, got, err)
		}
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	policy, err := backoff.Parse("10s x3 max 1h jitter 25%")
	if err != nil {
		t.Fatal(err)
	}
	for attempt, want := range map[int]time.Duration{
		-1: 10 * time.Second, 1: 10 * time.Second, 2: 30 * time.Second, 3: 90 * time.Second, 6: 2430 * time.Second,
		7: time.Hour, 1000: time.Hour,
	} {
		if got := policy.Wait(attempt, 0); got != want {
			t.Errorf("after attempt %d: %s, want %s", attempt, got, want)
		}
		if got := policy.Wait(attempt, 1); got != want*5/4 {
			t.Errorf("after attempt %d, with the whole random part: %s, want %s", attempt, got, want*5/4)
		}
	}
	// The wait is bounded by what the syntax allows, so it never overflows.
	policy.First, policy.Max, policy.Factor, policy.Jitter = 9999*time.Hour, 9999*time.Hour, 10.99, 1
	if got := policy.Wait(1000, 1); got != 2*9999*time.Hour {
		t.Errorf("the longest: %s", got)
	}
}
