package webhook

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasktable/tasktable/handlers"
)

// caller makes calls to the circuits of a node, whose time the test moves.
type caller struct {
	*circuits
	t   *testing.T
	log *strings.Builder
	at  time.Time
}

func newCaller(t *testing.T, settings Circuit) *caller {
	t.Helper()
	c := &caller{t: t, log: &strings.Builder{}, at: noon}
	c.circuits = newCircuits(settings, slog.New(slog.NewTextHandler(c.log, nil)))
	c.now = func() time.Time { return c.at }
	return c
}

var errDown = errors.New("down")

// one makes a call. It returns whether the call went through, and else how long the task waits.
func (c *caller) one(at place, task string, said verdict) (went bool, wait time.Duration) {
	c.t.Helper()
	err := c.call(at, task, func() (verdict, string, error) {
		went = true
		return said, "answered 500", nil
	})
	var waits *handlers.WaitError
	if errors.As(err, &waits) == went {
		c.t.Fatalf("went through: %t, and %v", went, err)
	}
	if !went {
		return false, waits.Delay
	}
	return true, 0
}

// some makes n calls of different tasks, all of which go through.
func (c *caller) some(at place, n int, said verdict) {
	c.t.Helper()
	for i := range n {
		if went, _ := c.one(at, fmt.Sprint("some-", i), said); !went {
			c.t.Fatalf("call %d waits", i+1)
		}
	}
}

func (c *caller) mustBeOpen(at place, want bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if isOpen := c.of(at).openFor > 0; isOpen != want {
		c.t.Errorf("open: %t, want %t", isOpen, want)
	}
}

// Open times double with each probe that fails, up to the longest, and begin anew after one that succeeds.
func TestOpenTimesDouble(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{})
	at := place{host: "a.example", path: "/"}
	for range 2 {
		c.some(at, 19, fails)
		c.some(place{host: "b.example", path: "/"}, 1, works)
		c.mustBeOpen(at, false)
		c.some(at, 1, fails)
		for _, seconds := range []int{30, 60, 120, 240, 480, 900, 900} {
			openFor := time.Duration(seconds) * time.Second
			if went, wait := c.one(at, "first", works); went || wait != openFor {
				t.Errorf("went through: %t; the first waits %s, want %s", went, wait, openFor)
			}
			if went, wait := c.one(at, "second", works); went || wait < openFor || wait > 2*openFor {
				t.Errorf("went through: %t; the second waits %s, want up to twice %s", went, wait, openFor)
			}
			c.at = c.at.Add(openFor - 1)
			if went, _ := c.one(at, "early", works); went {
				t.Errorf("a call goes through before %s", openFor)
			}
			c.at = c.at.Add(1)
			if went, _ := c.one(at, fmt.Sprint("probe ", c.at), fails); !went {
				t.Errorf("no probe goes through after %s", openFor)
			}
		}
		c.at = c.at.Add(15 * time.Minute)
		if went, _ := c.one(at, "the last probe", works); !went {
			t.Error("the last probe waits")
		}
		c.mustBeOpen(at, false)
		c.mustBeOpen(place{host: "b.example", path: "/"}, false)
	}
	if n := c.open(); n != 0 {
		t.Errorf("%d circuits are open", n)
	}
	if text := c.log.String(); strings.Count(text, "circuit opened") != 2 || strings.Count(text, "circuit closed") != 2 ||
		!strings.Contains(text, "host=a.example") || !strings.Contains(text, `fault="answered 500"`) {
		t.Errorf("log %s", text)
	}
}

// A circuit is of a host and a name, or of a host and a path. It opens on its own failures alone.
func TestACircuitOpensOnItsOwnFailures(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{})
	down := place{host: "a", path: "/down"}
	c.some(down, 20, fails)
	for _, other := range []place{
		{host: "a", path: "/up"}, {host: "b", path: "/down"}, {host: "a", name: "orders", path: "/down"},
	} {
		c.mustBeOpen(other, false)
		c.some(other, 100, works)
	}
	c.mustBeOpen(down, true)
	for i := range 20 { // whatever the paths are
		c.some(place{host: "a", name: "mail", path: fmt.Sprint("/", i)}, 1, fails)
	}
	c.mustBeOpen(place{host: "a", name: "mail", path: "/new"}, true)
	c.mustBeOpen(place{host: "a", name: "orders"}, false)
	if n := c.open(); n != 2 {
		t.Errorf("%d circuits are open", n)
	}
}

// Paths with ids in them share a circuit, so that a host that is down is left alone.
func TestManyPathsShareACircuit(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{})
	at := func(i int) place { return place{host: "a", path: fmt.Sprint("/users/", i)} }
	for i := range maxPaths + 20 {
		c.some(at(i), 1, fails)
	}
	c.mustBeOpen(at(5000), true)
	c.mustBeOpen(at(0), false)
	c.at = c.at.Add(time.Hour)
	c.some(at(6000), 1, works) // nobody uses the others any more
	c.mustBeOpen(at(6000), false)
}

func TestACircuitCountsOneMinute(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{})
	half, slow := place{host: "half"}, place{host: "slow"}
	c.some(half, 10, works)
	c.some(half, 10, fails) // not more than half
	c.mustBeOpen(half, false)
	c.some(half, 1, fails)
	c.mustBeOpen(half, true)
	c.some(slow, 19, fails)
	c.at = c.at.Add(70 * time.Second)
	c.some(slow, 19, fails)
	c.mustBeOpen(slow, false)
	c.some(place{host: "uncounted"}, 100, nothing)
	c.some(place{host: "uncounted"}, 19, fails)
	c.mustBeOpen(place{host: "uncounted"}, false)
}

// While a probe runs, all others wait. One that was ended from outside, or panics, leaves its place to another.
func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{})
	at := place{host: "a"}
	c.some(at, 20, fails)
	c.at = c.at.Add(30 * time.Second)
	_ = c.call(at, "probe", func() (verdict, string, error) {
		if went, wait := c.one(at, "other", works); went || wait < time.Second {
			t.Errorf("beside the probe: %t, %s", went, wait)
		}
		return nothing, "", errDown
	})
	func() {
		defer func() { _ = recover() }()
		_ = c.call(at, "other", func() (verdict, string, error) { panic("oh") })
	}()
	c.some(at, 1, works)
	c.mustBeOpen(at, false)
}

// Of the tasks that wait for one circuit each probes once, before one probes again. So one that fails does not starve
// one that would succeed, and no task probes twice in a row while others wait.
func TestProbesAreTakenInTurn(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{MaxOpen: 30 * time.Second})
	at := place{host: "a"}
	c.some(at, 20, fails)
	const tasks = 10
	back := map[string]time.Time{}
	for i := range tasks {
		back[fmt.Sprint(i)] = c.at.Add(time.Duration(rand.Int64N(int64(time.Minute))))
	}
	var probes []string
	for len(probes) < 5*tasks {
		next := ""
		for task, at := range back {
			if next == "" || at.Before(back[next]) {
				next = task
			}
		}
		c.at = back[next]
		if went, wait := c.one(at, next, fails); went {
			probes = append(probes, next)
			back[next] = c.at.Add(10 * time.Second) // its own backoff
		} else {
			back[next] = c.at.Add(wait)
		}
	}
	for round := range 5 {
		seen := map[string]bool{}
		for _, task := range probes[round*tasks : (round+1)*tasks] {
			seen[task] = true
		}
		if len(seen) != tasks {
			t.Errorf("round %d: %d of %d tasks have probed: %v", round+1, len(seen), tasks, probes)
		}
	}
	for i := range len(probes) - 1 {
		if probes[i] == probes[i+1] {
			t.Errorf("task %s probes twice in a row: %v", probes[i], probes)
		}
	}
}

// A task does not wait for one that never comes back.
func TestAGoneTaskLosesItsTurn(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{MaxOpen: 30 * time.Second})
	at := place{host: "a"}
	c.some(at, 20, fails)
	c.one(at, "gone", fails)
	c.at = c.at.Add(30 * time.Second)
	if went, _ := c.one(at, "a", fails); !went {
		t.Fatal("the first probe waits")
	}
	c.at = c.at.Add(30 * time.Second)
	if went, _ := c.one(at, "a", fails); went {
		t.Error("probes twice in a row while another waits")
	}
	c.at = c.at.Add(time.Minute)
	if went, _ := c.one(at, "a", fails); !went {
		t.Error("waits for a task that is gone")
	}
}

func TestCircuitsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{})
	at := func(i int) place { return place{host: fmt.Sprint("host-", i)} }
	c.some(at(1), 20, fails)
	for i := range maxCircuits {
		c.one(at(i), "t", fails)
		c.at = c.at.Add(time.Millisecond)
	}
	c.one(at(0), "t", fails)
	c.one(place{host: "new"}, "t", works) // takes the place of host-2, which is closed and was used the longest time ago
	key := func(i int) placeKey { return placeKey{host: at(i).host, path: max(maphash.String(c.seed, ""), 1)} }
	if len(c.all) != maxCircuits || c.all[key(0)] == nil || c.all[key(1)] == nil || c.all[key(2)] != nil {
		t.Errorf("%d circuits", len(c.all))
	}
	c.at = c.at.Add(time.Hour)
	c.some(place{host: "newer"}, 1, works)
	if len(c.all) != 1 || len(c.paths) != 1 || c.open() != 0 {
		t.Errorf("%d circuits after a while, %d of them open", len(c.all), c.open())
	}
	for i := range 3 * maxTurns {
		c.some(place{host: "busy"}, max(20-i, 0)/20*20, fails)
		c.one(place{host: "busy"}, fmt.Sprint(i), fails)
	}
	if n := len(c.of(place{host: "busy"}).turns); n != maxTurns {
		t.Errorf("%d turns", n)
	}
}

func TestACircuitThatIsOff(t *testing.T) {
	t.Parallel()
	c := newCaller(t, Circuit{Off: true})
	c.some(place{host: "a"}, 1000, fails)
	if len(c.all) != 0 {
		t.Errorf("%d circuits", len(c.all))
	}
}

// The settings decide when a circuit opens and for how long.
func TestACircuitIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuits(Circuit{Calls: 2, Open: time.Second, MaxOpen: 3 * time.Second}, slog.New(slog.DiscardHandler))
		failing := func() (verdict, string, error) { return fails, "does not answer", errDown }
		at := place{host: "a", name: "orders"}
		for range 2 {
			_ = c.call(at, "x", failing)
		}
		for _, openFor := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			var waits *handlers.WaitError
			err := c.call(at, "x", failing)
			if want := "host a does not answer, and its circuit orders is open"; !errors.As(err, &waits) ||
				waits.Delay != openFor || err.Error() != want {
				t.Errorf("%v, %+v", err, waits)
			}
			time.Sleep(openFor)
			if err := c.call(at, "x", failing); !errors.Is(err, errDown) {
				t.Errorf("the probe: %v", err)
			}
		}
	})
}
