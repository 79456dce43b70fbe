// Package quiet has the switch that makes a node quiet. These parts of the node obey it: leader/quiet.go writes it to
// the node's row and lets another node lead, worker/batch.go hands back the tasks that have not begun, and
// riverjobs/client.go fetches no more jobs. Pauses of queues and types are something else: see taskdb/pauses.go.
package quiet

import (
	"sync"
	"sync/atomic"
	"time"
)

// Switch says whether a node may start something new. It is safe for concurrent use.
type Switch struct {
	mu      sync.Mutex
	since   time.Time                     // zero: the node is not quiet
	begun   atomic.Pointer[chan struct{}] // closed while the node is quiet; Set(false) makes a new one
	changed chan struct{}
}

// New returns a switch of a node that is not quiet.
func New() *Switch {
	s := &Switch{changed: make(chan struct{}, 1)}
	s.begun.Store(new(make(chan struct{})))
	return s
}

// Set makes the node quiet, or no longer quiet.
func (s *Switch) Set(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case on == !s.since.IsZero():
		return
	case on:
		s.since = time.Now()
		close(*s.begun.Load())
	default:
		s.since = time.Time{}
		s.begun.Store(new(make(chan struct{})))
	}
	select {
	case s.changed <- struct{}{}:
	default: // nobody has seen the last change yet
	}
}

// Changed receives a value after a change. It is for one goroutine, the one that owns the session.
func (s *Switch) Changed() <-chan struct{} { return s.changed }

// Begins returns a channel that is closed while the node is quiet. Ask for the channel anew each time, because
// Set(false) replaces it. Begins takes no lock, because every task calls it.
func (s *Switch) Begins() <-chan struct{} { return *s.begun.Load() }

// Since returns whether the node is quiet, and since when.
func (s *Switch) Since() (since time.Time, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, !s.since.IsZero()
}

// On returns whether the node is quiet.
func (s *Switch) On() bool {
	_, on := s.Since()
	return on
}
