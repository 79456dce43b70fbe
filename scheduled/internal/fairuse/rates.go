package fairuse

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates counts calls by a name, which is an address or a caller. It forgets all names once a minute, or when they are
// very many, so that the memory is bounded. That gives a name one more burst a minute. It is safe for concurrent use.
type Rates struct {
	mu     sync.Mutex
	known  map[string]*rate.Limiter
	forgot time.Time
}

const (
	forgetAfter = time.Minute
	maxNames    = 20000
)

// NewRates returns a Rates that has counted no call.
func NewRates() *Rates { return &Rates{known: map[string]*rate.Limiter{}, forgot: time.Now()} }

// Take counts a call. It returns 0, or how long the caller has to wait if it has called too often. A burst may have as
// many calls as two seconds.
func (l *Rates) Take(name string, perSecond int) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.forgot) > forgetAfter || len(l.known) >= maxNames {
		l.known, l.forgot = map[string]*rate.Limiter{}, now
	}
	one := l.known[name]
	if one == nil || one.Limit() != rate.Limit(perSecond) {
		one = rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)
		l.known[name] = one
	}
	reserved := one.ReserveN(now, 1)
	if wait = reserved.DelayFrom(now); wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}
