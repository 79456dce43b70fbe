package webhook

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

var errDown = errors.New("down")

func isSnooze(err error) bool {
	var snooze *handlers.SnoozeError
	return errors.As(err, &snooze)
}

// fail and succeed make n calls that go through.
func (b *breakers) fail(t *testing.T, host string, n int) {
	t.Helper()
	for i := range n {
		if err := b.call(host, func() error { return errDown }); !errors.Is(err, errDown) {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
}

func (b *breakers) succeed(t *testing.T, host string, n int) {
	t.Helper()
	for i := range n {
		if err := b.call(host, func() error { return nil }); err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
}

func (b *breakers) mustBeOpen(t *testing.T, host string, want bool) {
	t.Helper()
	called := false
	err := b.call(host, func() error { called = true; return nil })
	if called == want || isSnooze(err) != want {
		t.Errorf("open: %t, want %t (%v)", !called, want, err)
	}
}

func TestACircuitOpensAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers()
		b.fail(t, "a.example", 19)
		b.succeed(t, "b.example", 1)
		b.fail(t, "a.example", 1)
		err := b.call("a.example", func() error { t.Error("is called"); return nil })
		want := "host a.example does not answer; its circuit is open until " +
			time.Now().Add(30*time.Second).UTC().Format(time.RFC3339) + ": snoozed for "
		if !isSnooze(err) || !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("got %v", err)
		}
		b.mustBeOpen(t, "b.example", false)
		time.Sleep(30 * time.Second)
		b.mustBeOpen(t, "a.example", true)
		time.Sleep(time.Nanosecond)

		// A probe that fails opens the circuit again.
		b.fail(t, "a.example", 1)
		b.mustBeOpen(t, "a.example", true)
		time.Sleep(30*time.Second + 1)

		// Others wait while a probe runs. One that succeeds closes the circuit.
		err = b.call("a.example", func() error {
			err := b.call("a.example", func() error { t.Error("a second probe"); return nil })
			if !isSnooze(err) || !strings.Contains(err.Error(), "a.example does not answer; its circuit waits") {
				t.Errorf("beside the probe: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		b.fail(t, "a.example", 19)
	})
}

func TestACircuitCountsOneMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers()
		b.succeed(t, "half", 10)
		b.fail(t, "half", 10) // not more than half
		b.mustBeOpen(t, "half", false)
		b.fail(t, "half", 2)
		b.mustBeOpen(t, "half", true)

		b.fail(t, "slow", 19)
		time.Sleep(70 * time.Second)
		b.fail(t, "slow", 19)
		b.mustBeOpen(t, "slow", false)
	})
}

func TestWhatSaysNothingAboutTheHostIsNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers()
		for range 100 {
			_ = b.call("a", func() error { return uncountedError{errDown} })
		}
		b.fail(t, "a", 20)
		time.Sleep(30*time.Second + 1)
		// A probe that was ended from outside leaves the place to another.
		if err := b.call("a", func() error { return uncountedError{errDown} }); !errors.Is(err, errDown) {
			t.Error(err)
		}
		b.mustBeOpen(t, "a", false)
	})
}

func TestBreakersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers()
		host := func(i int) string { return fmt.Sprint("host-", i) }
		for i := range maxHosts {
			b.fail(t, host(i), 1)
			time.Sleep(time.Millisecond)
		}
		b.fail(t, host(0), 18)
		b.succeed(t, "new", 1) // takes the place of host-1, which was used the longest time ago
		if len(b.byHost) != maxHosts || b.byHost[host(0)] == nil || b.byHost[host(1)] != nil {
			t.Errorf("%d breakers", len(b.byHost))
		}
		b.fail(t, host(0), 1)
		b.mustBeOpen(t, host(0), true)
		time.Sleep(idleAfter + 1)
		b.succeed(t, "new", 1)
		b.succeed(t, "newer", 1)
		if len(b.byHost) != 2 {
			t.Errorf("%d breakers after a while", len(b.byHost))
		}
	})
}

func TestSnoozesAreSpread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		until  time.Duration
		random float64
		want   time.Duration
	}{
		{30 * time.Second, 0, 30 * time.Second},
		{30 * time.Second, 1, time.Minute},
		{10 * time.Second, 0.5, 25 * time.Second},
		{-time.Hour, 0, time.Second},
		{-time.Hour, 0.5, 16 * time.Second},
	} {
		if got := snoozeFor(noon, noon.Add(test.until), test.random); got != test.want {
			t.Errorf("%s, %g: %s, want %s", test.until, test.random, got, test.want)
		}
	}
}
