package worker

import (
	"sync"
	"time"
)

// gateValid is how old the answer of the gate may be when the handler is called, unless the link is slow. It is also
// how long a task may run before the rest of its batch goes on in another slot.
const gateValid = 250 * time.Millisecond

const (
	// slowFor is how long all answers must have been slow before the link counts as slow.
	slowFor = 10 * time.Second
	// slowTrips is how many round trips an answer of the gate is valid on a slow link. A question in a handler's
	// transaction takes two.
	slowTrips = 3
)

// roundTrip is the quickest answer of the last ten to twenty seconds. The age of an answer counts from when the node
// asked, which is never later than the instant that the answer describes. Nobody can tell whether the question or the
// answer was slow. Therefore nothing starts on a link that is slow for a moment, until the link is quick again. On a
// link that stays slow, answers are valid for some round trips. It is safe for concurrent use.
type roundTrip struct {
	mu      sync.Mutex
	since   time.Time     // when the present ten seconds began
	present time.Duration // the quickest answer since then
	before  time.Duration // the quickest answer of the ten seconds before
}

// took notes how long an answer took that has come now.
func (t *roundTrip) took(d time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= slowFor {
		t.since, t.before, t.present = now, t.present, d
	}
	t.present = min(t.present, d)
}

// valid is how old an answer of the gate may be.
func (t *roundTrip) valid() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	quickest := min(t.present, t.before)
	if quickest <= gateValid/2 {
		return gateValid
	}
	return slowTrips * quickest
}
