// Package slots has the slots of a node: how many handlers may run at once.
package slots

import (
	"slices"
	"sync"

	"github.com/tasktable/tasktable/scheduled/internal/metrics"
)

// Slots hands out the node's slots. A slot is the right to run one handler. Each queue has its own slots, and so has
// each type with a limit, in Slots of their own. If they are shared, idle slots of one queue serve the other queues,
// and a queue that wants its own slot back gets the next that is free. If there is a strict order of the queues, the
// first queue in it that wants a slot gets the next.
type Slots struct {
	shared bool
	total  int

	mu     sync.Mutex
	used   int
	queues map[string]*queueSlots
}

type queueSlots struct {
	rank    int // in the strict order
	size    int
	used    int
	waiting []*Request // the oldest first
}

// Request is a place in the line for a slot. Granted is closed when the request gets its slot.
type Request struct {
	Granted chan struct{}
	queue   *queueSlots
}

// Place is one of the things that a handler needs before it may run.
type Place struct {
	Slots *Slots
	Queue string // or another name by which Slots has it
	One   string // of these, for people, such as "a slot"
	All   string // of these, for people, such as "all slots of queue default"
}

// Has reports whether the request has got its slot.
func (r *Request) Has() bool {
	select {
	case <-r.Granted:
		return true
	default:
		return false
	}
}

// New makes slots. sizes has the number of each queue. shared lets idle slots of one queue serve the others. The queues
// in strict come in this order, and before the others.
func New(sizes map[string]int, shared bool, strict ...string) *Slots {
	s := &Slots{shared: shared, queues: map[string]*queueSlots{}}
	for name, size := range sizes {
		s.queues[name] = &queueSlots{size: size, rank: len(strict)}
		if i := slices.Index(strict, name); i >= 0 {
			s.queues[name].rank = i
		}
		s.total += size
	}
	return s
}

// Request asks for a slot of a queue.
func (s *Slots) Request(name string) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	r := &Request{Granted: make(chan struct{}), queue: q}
	q.waiting = append(q.waiting, r)
	s.grant()
	return r
}

// Release gives the slot back. If the slot was not granted yet, release gives up the place in the line.
func (s *Slots) Release(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.Has() {
		r.queue.waiting = slices.DeleteFunc(r.queue.waiting, func(other *Request) bool { return other == r })
		return
	}
	r.queue.used--
	s.used--
	s.grant()
}

// grant gives slots to waiting requests as long as there are slots. The queue that comes first in the strict order gets
// them. Of queues with the same place, it is the one that uses the smallest part of its own slots.
func (s *Slots) grant() {
	for {
		var next *queueSlots
		for _, q := range s.queues {
			if len(q.waiting) > 0 && s.mayUse(q) && (next == nil || q.before(next)) {
				next = q
			}
		}
		if next == nil {
			return
		}
		r := next.waiting[0]
		next.waiting = slices.Delete(next.waiting, 0, 1)
		next.used++
		s.used++
		close(r.Granted)
	}
}

func (q *queueSlots) before(other *queueSlots) bool {
	return q.rank < other.rank || q.rank == other.rank && q.used*other.size < other.used*q.size
}

// Size is how many slots a queue may use. Shared slots serve all queues.
func (s *Slots) Size(name string) int {
	if s.shared {
		return s.total
	}
	return s.queues[name].size
}

// Usage returns the usage of each queue, by name.
func (s *Slots) Usage() map[string]metrics.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[string]metrics.Usage, len(s.queues))
	for name, q := range s.queues {
		found[name] = metrics.Usage{Size: q.size, Used: q.used}
	}
	return found
}

func (s *Slots) mayUse(q *queueSlots) bool {
	if s.shared {
		return s.used < s.total
	}
	return q.used < q.size
}
