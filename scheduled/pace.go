package scheduled

import (
	"sync"
	"time"
)

const (
	// gateMost is how many tasks share a read: more would take so long that the answer is too old for the last of them.
	gateMost = 1000
	// gateLeast is how many do where reads are slow.
	gateLeast = 16
	// slowFor is how long no answer of the gate has been young enough before a node makes do with what it gets.
	slowFor = 10 * time.Second
	// slowRest is how long such an answer is then good for.
	slowRest = 50 * time.Millisecond
)

// pace is how quickly the gate answers. An answer counts from when it was asked for, which is never later than what it says: of the way there
// and the way back nobody can tell which was slow. So on a link that is slow for a moment nothing starts until it is quick again; where it stays
// slow, handlers are called within a round trip and 50 ms of their gate. Reads that take long, for a busy database or a thin
// link, become smaller.
type pace struct {
	mu        sync.Mutex
	most      int       // how many tasks share a read
	slowSince time.Time // no answer since then was young enough; zero: the last one was
}

func newPace() *pace { return &pace{most: gateMost} }

// limit is how many tasks may share the next read.
func (p *pace) limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// instant is when the gate was passed, for an answer to what was asked then.
func (p *pace) instant(asked, answered time.Time) time.Time {
	took := answered.Sub(asked)
	p.mu.Lock()
	defer p.mu.Unlock()
	if took <= gateValid/2 {
		p.most = min(2*p.most, gateMost)
	} else {
		p.most = max(p.most/2, gateLeast)
	}
	switch {
	case took <= gateValid:
		p.slowSince = time.Time{}
	case p.slowSince.IsZero():
		p.slowSince = answered
	case answered.Sub(p.slowSince) >= slowFor:
		return answered.Add(slowRest - gateValid)
	}
	return asked
}
