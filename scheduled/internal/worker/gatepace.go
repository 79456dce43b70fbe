package worker

import (
	"sync"
	"time"
)

const (
	// maxGateAsks is the greatest weight of a read of the gate: this many tasks, or this many kilobytes of payload. A
	// larger read would take so long that the answer is too old for the last tasks.
	maxGateAsks = 1000
	// slowFor is how long all answers of the gate must have been too old before the node accepts old answers.
	slowFor = 10 * time.Second
	// slowRest is how long the node then uses an accepted answer.
	slowRest = 50 * time.Millisecond
)

// pace measures how quickly the gate answers. The age of an answer counts from when the node asked, which is never
// later than the instant that the answer describes. Nobody can tell whether the question or the answer was slow.
// Therefore nothing starts on a link that is slow for a moment, until the link is quick again. On a link that stays
// slow, the node calls handlers within a round trip and 50 ms of their gate.
//
// Reads that take long become smaller. The cause may be a busy database, a slow link or large payloads. The node does
// not ask for a whole answer again if the answer came too late. It keeps the payloads, and the next question asks
// only for the rest, which is small. Therefore a link with little bandwidth does not count as slow.
type pace struct {
	mu        sync.Mutex
	most      int            // the weight of the next read
	slowSince time.Time      // since when all answers were too old; zero: the last one was young enough
	payloads  map[string]int // about how large a type's payloads are, in bytes
}

func newPace() *pace { return &pace{most: maxGateAsks, payloads: map[string]int{}} }

// limit returns the greatest weight that the next read may have.
func (p *pace) limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// instant returns when the gate counts as passed, for a question and its answer at these times.
func (p *pace) instant(asked, answered time.Time) time.Time {
	took := answered.Sub(asked)
	p.mu.Lock()
	defer p.mu.Unlock()
	if took <= GateValid/2 {
		p.most = min(2*p.most, maxGateAsks)
	} else {
		p.most = max(p.most/2, 1)
	}
	switch {
	case took <= GateValid:
		p.slowSince = time.Time{}
	case p.slowSince.IsZero():
		p.slowSince = answered
	case answered.Sub(p.slowSince) >= slowFor:
		return answered.Add(slowRest - GateValid)
	}
	return asked
}

// silent notes that a read had no answer in time, and makes the next read smaller.
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

// weightOf is the weight of a task whose payload has this many bytes.
func weightOf(bytes int) int { return max(1, bytes>>10) }

// partOf is how many of the due tasks of a batch share a question. It is as many as one slot begins while the answer
// is valid, and at most as many as a read may have. average is how long their handlers take. If nobody has measured
// it, each question is about one task, and batches of this type have one task too.
func partOf(due int, average time.Duration, measured bool, bytes, limit int) int {
	if !measured {
		return 1
	}
	part := due
	if average > 0 {
		part = int(min(int64(due), int64(GateValid/average)))
	}
	return max(1, min(part, limit/weightOf(bytes)))
}
