// Package quiet has the switch that makes a node quiet. These parts of the node obey it: leader/quiet.go writes it to
// the node's row and lets another node lead, worker/batch.go hands back the tasks that have not begun, and
// riverjobs/client.go fetches no more jobs. Pauses of queues and types are something else: see taskdb/pauses.go.
package quiet

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
)

// Switch says whether a node may start something new. It is safe for concurrent use. Its readers take no lock, because
// every task asks it.
type Switch struct {
	Changed loop.Signal // for the leader's loop: a node that is quiet must not claim its own tasks once more

	mu  sync.Mutex // for Set
	now atomic.Pointer[state]
}

type state struct {
	since  time.Time     // zero: the node is not quiet
	begins chan struct{} // closed while the node is quiet
}

// New returns a switch of a node that is not quiet.
func New() *Switch {
	s := &Switch{Changed: loop.NewSignal()}
	s.now.Store(&state{begins: make(chan struct{})})
	return s
}

// Set makes the node quiet, or no longer quiet.
func (s *Switch) Set(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now.Load()
	switch {
	case on == s.On():
		return
	case on:
		s.now.Store(&state{since: time.Now(), begins: before.begins})
		close(before.begins)
	default:
		s.now.Store(&state{begins: make(chan struct{})})
	}
	s.Changed.Send()
}

// Begins returns a channel that is closed while the node is quiet. Ask for the channel anew each time, because
// Set(false) replaces it.
func (s *Switch) Begins() <-chan struct{} { return s.now.Load().begins }

// Since returns whether the node is quiet, and since when.
func (s *Switch) Since() (since time.Time, on bool) {
	since = s.now.Load().since
	return since, !since.IsZero()
}

// On returns whether the node is quiet.
func (s *Switch) On() bool {
	_, on := s.Since()
	return on
}
