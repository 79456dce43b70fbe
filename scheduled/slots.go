package scheduled

import (
	"container/list"
	"sync"
)

// slots hands out the node's slots: how many handlers run at once. Each queue has its own; where they are shared, idle slots
// of one queue serve the others, and a queue that wants its own back gets the next that falls free.
type slots struct {
	shared bool
	total  int

	mu     sync.Mutex
	used   int
	queues map[string]*queueSlots
}

type queueSlots struct {
	size    int
	used    int
	waiting list.List // of *slotRequest, the oldest first
}

// slotRequest is somebody's place in the line. granted is closed when the slot is theirs.
type slotRequest struct {
	granted chan struct{}
	queue   *queueSlots
	element *list.Element // nil once granted
}

// place is a slot that a handler needs, of a queue.
type place struct {
	slots        *slots
	queue        string
	transactions bool // it is a connection for a handler's transaction
}

// refused hands a claim back that has waited too long for the place. The task keeps its due time, so that its lateness
// is seen. Nothing spins: the claim has waited for stintMost, and the leader claims no more tasks than there are places.
func (p place) refused(h hold) settlement {
	if p.transactions {
		return released(h, "it waited too long for a connection for its transaction")
	}
	return released(h, "it waited too long for a slot")
}

func newSlots(sizes map[string]int, shared bool) *slots {
	s := &slots{shared: shared, queues: map[string]*queueSlots{}}
	for name, size := range sizes {
		s.queues[name] = &queueSlots{size: size}
		s.total += size
	}
	return s
}

// request asks for a slot of a queue.
func (s *slots) request(name string) *slotRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	r := &slotRequest{granted: make(chan struct{}), queue: q}
	r.element = q.waiting.PushBack(r)
	s.grant()
	return r
}

// release gives the slot back, or the place in the line if it was not granted yet.
func (s *slots) release(r *slotRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.element != nil {
		r.queue.waiting.Remove(r.element)
		r.element = nil
		return
	}
	r.queue.used--
	s.used--
	s.grant()
}

// grant serves who waits, as long as there are slots: first the queue that uses the least of its own.
func (s *slots) grant() {
	for {
		var next *queueSlots
		for _, q := range s.queues {
			if q.waiting.Len() > 0 && s.mayUse(q) && (next == nil || q.used*next.size < next.used*q.size) {
				next = q
			}
		}
		if next == nil {
			return
		}
		r, _ := next.waiting.Remove(next.waiting.Front()).(*slotRequest)
		r.element = nil
		next.used++
		s.used++
		close(r.granted)
	}
}

// slotUsage is how many slots a queue has, and how many it uses.
type slotUsage struct{ size, used int }

// usage is that of each queue.
func (s *slots) usage() map[string]slotUsage {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[string]slotUsage, len(s.queues))
	for name, q := range s.queues {
		found[name] = slotUsage{q.size, q.used}
	}
	return found
}

func (s *slots) mayUse(q *queueSlots) bool {
	if s.shared {
		return s.used < s.total
	}
	return q.used < q.size
}
