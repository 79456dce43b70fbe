package scheduled

import (
	"sync"
	"time"
)

const (
	// gateMost is the weight of a read of the gate: so many tasks, or so many kilobytes of payload. A larger read would
	// take so long that the answer is too old for the last of them.
	gateMost = 1000
	// slowFor is how long no answer of the gate has been young enough before a node makes do with what it gets.
	slowFor = 10 * time.Second
	// slowRest is how long such an answer is then good for.
	slowRest = 50 * time.Millisecond
)

// pace is how quickly the gate answers. An answer counts from when it was asked for, which is never later than the
// instant it speaks of: nobody can tell whether the way there or the way back was slow. So on a link that is slow for a
// moment nothing starts until it is quick again. Where it stays slow, handlers are called within a round trip and 50 ms
// of their gate.
//
// Reads that take long, for a busy database, a thin link or large payloads, become smaller. An answer that comes too
// late is not asked for as a whole again: its payloads are kept, and the next question, which is small, is about the
// rest. So a link that is only thin is not slow.
type pace struct {
	mu        sync.Mutex
	most      int            // the weight of the next read
	slowSince time.Time      // no answer since then was young enough; zero: the last one was
	payloads  map[string]int // about how large a type's payloads are, in bytes
}

func newPace() *pace { return &pace{most: gateMost, payloads: map[string]int{}} }

// limit is the weight that the next read may have.
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
		p.most = max(p.most/2, 1)
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

// silent notes that a read had no answer in time. The next one is smaller.
func (p *pace) silent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = max(p.most/2, 1)
}

// saw notes how large a type's payloads were in an answer, on average.
func (p *pace) saw(kind string, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.payloads[kind]
	p.payloads[kind] = max(bytes, was-(was-bytes+7)/8)
}

// payload is about how large a type's payloads are, in bytes.
func (p *pace) payload(kind string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.payloads[kind]
}

// weightOf is the weight of a task with a payload of so many bytes.
func weightOf(bytes int) int { return max(1, bytes>>10) }

// partOf is how many of the due tasks of a batch share a question: as many as one slot begins while the answer is
// valid, and as many as a read may have. average is how long their handlers take; without a measure it is one task, as
// in a batch of such a type.
func partOf(due int, average time.Duration, measured bool, bytes, limit int) int {
	if !measured {
		return 1
	}
	part := due
	if average > 0 {
		part = int(min(int64(due), int64(gateValid/average)))
	}
	return max(1, min(part, limit/weightOf(bytes)))
}
