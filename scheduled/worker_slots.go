package scheduled

import (
	"container/list"
	"sync"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// slots hands out the node's slots. A slot is the right to run one handler. Each queue has its own slots. If they are
// shared, idle slots of one queue serve the other queues, and a queue that wants its own slot back gets the next that
// is free.
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

// slotRequest is a place in the line for a slot. granted is closed when the request gets its slot.
type slotRequest struct {
	granted chan struct{}
	queue   *queueSlots
	element *list.Element // nil once granted
}

// place is a slot of a queue that a handler needs.
type place struct {
	slots        *slots
	queue        string
	transactions bool // the slot stands for a connection for a handler's transaction
}

// refused hands back a claim that has waited too long for the place. The task keeps its due time, so that operators
// see how late it is. The task is not claimed over and over in a fast loop, because each claim waits for maxStint,
// and the leader claims no more tasks than there are places.
func (p place) refused(h taskdb.Claim) taskdb.Settlement {
	if p.transactions {
		return taskdb.Released(h, "it waited too long for a connection for its transaction")
	}
	return taskdb.Released(h, "it waited too long for a slot")
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

// release gives the slot back. If the slot was not granted yet, release gives up the place in the line.
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

// grant gives slots to waiting requests as long as there are slots. The queue that uses the smallest part of its own
// slots comes first.
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

// usage returns the usage of each queue, by name.
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
