//go:build unix

package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// The environment of make torture. steerVariable has the rest of the settings as JSON: what a run is to be steered at.
const (
	secondsVariable = "TASKTABLE_TORTURE_SECONDS"
	seedVariable    = "TASKTABLE_TORTURE_SEED"
	steerVariable   = "TASKTABLE_TORTURE_STEER"
)

// settings are what a run is like.
type settings struct {
	Length   time.Duration
	Seed     uint64
	Nodes    int
	Writers  int
	Callers  int            // writers that work over HTTP
	Pace     time.Duration  // of each writer, between two transactions
	Bulk     int            // about how many tasks a herd has
	Slots    int            // of each node's default queue
	Work     map[string]int // weights of what writers do; nil: allWork
	Chores   map[string]int // weights of what single tasks do; nil: allChores
	Faults   map[string]int // weights of the faults; nil: allFaults
	Alone    bool           // each fault alone, to be measured
	Frozen   time.Duration  // how long a node is frozen; 0: up to three leases
	Hold     time.Duration  // how long a writer keeps rows of running tasks locked at most; 0: a second or so
	Millis   int            // how long single tasks work, if they do nothing special; 0: a little
	Expiring int            // of single tasks one in so many has an expiration
	// Expected is how long single tasks are expected to take, which makes their leases.
	Expected time.Duration
	Skewed   bool          // the nodes' clocks are wrong; needs a build of its own
	Patience time.Duration // how long what is left may take once everything is mended
}

// shortRun is how long the run of an ordinary go test is.
const shortRun = 10 * time.Second

func readSettings() (settings, error) {
	s := settings{
		Length: shortRun, Seed: rand.Uint64N(1_000_000), Nodes: 4, Writers: 3, Callers: 2, Pace: 15 * time.Millisecond,
		Bulk: 60, Slots: 20, Expiring: expiringTasks, Expected: expectedTime, Patience: quietLimit,
	}
	if text := os.Getenv(steerVariable); text != "" {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return s, fmt.Errorf("%s: %w", steerVariable, err)
		}
	}
	if text := os.Getenv(secondsVariable); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return s, fmt.Errorf("%s: %w", secondsVariable, err)
		}
		s.Length = time.Duration(seconds * float64(time.Second))
	}
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return s, fmt.Errorf("%s: %w", seedVariable, err)
		}
		s.Seed = seed
	}
	return s, nil
}

// ordinary says whether a run has all that an ordinary one has: it is not steered at something.
func (s settings) ordinary() bool {
	return s.Work == nil && s.Chores == nil && s.Faults == nil && s.Nodes >= 4
}

// random makes a source of its own for each who decides something: what one decides does not change the
// others' decisions.
func (s settings) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, stream)) }
