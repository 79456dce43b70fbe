package fairuse

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates counts calls by a name, which is an address or a caller. Names that have made no call for a while are
// forgotten, and of very many names some, so that the memory is bounded. It is safe for concurrent use.
type Rates struct {
	mu     sync.Mutex
	known  map[string]*limit
	before map[string]*limit // the names of the time before; one that calls again moves to known
	turned time.Time
}

type limit struct {
	*rate.Limiter
	rate int
}

const (
	forgetAfter = time.Minute
	maxNames    = 10000
)

// NewRates returns a Rates that has counted no call.
func NewRates() *Rates { return &Rates{known: map[string]*limit{}, turned: time.Now()} }

// Take counts a call. It returns 0, or how long the caller has to wait if it has called too often. A burst may have as
// many calls as two seconds.
func (l *Rates) Take(name string, perSecond int) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.turned) > forgetAfter || len(l.known) >= maxNames {
		l.before, l.known, l.turned = l.known, map[string]*limit{}, now
	}
	one := l.known[name]
	if one == nil {
		one = l.before[name]
	}
	if one == nil || one.rate != perSecond {
		one = &limit{rate.NewLimiter(rate.Limit(perSecond), 2*perSecond), perSecond}
	}
	l.known[name] = one
	reserved := one.ReserveN(now, 1)
	if wait = reserved.DelayFrom(now); wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}
