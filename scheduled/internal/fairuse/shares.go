package fairuse

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	// ErrOwnShare says that the caller holds as much as one caller may.
	ErrOwnShare = errors.New("the caller holds all of its share")
	// ErrAllShares says that all callers together hold as much as there is.
	ErrAllShares = errors.New("the callers together hold all that there is")
)

// Shares bounds how much of a thing callers hold at once: each of them, and all together. The thing may be bytes,
// calls or streams. It is safe for concurrent use.
type Shares struct {
	all, each int64

	mu    sync.Mutex
	held  int64
	of    map[string]int64 // what each caller holds
	freed chan struct{}    // closed when somebody gives something back
}

// NewShares returns Shares of which all callers together may hold all, and one caller may hold each.
func NewShares(all, each int64) *Shares {
	return &Shares{all: all, each: each, of: map[string]int64{}, freed: make(chan struct{})}
}

// Take takes n for a caller. If there is no room, it waits up to patience for it. The caller must call give at the
// end. The error is ErrOwnShare, ErrAllShares, or the one of ctx.
func (s *Shares) Take(ctx context.Context, caller string, n int64, patience time.Duration) (give func(), err error) {
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		freed, err := s.try(caller, n)
		if err == nil {
			return sync.OnceFunc(func() { s.give(caller, n) }), nil
		}
		if patience <= 0 {
			return nil, err
		}
		select {
		case <-freed:
		case <-over.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try takes n, or returns why it cannot, and a channel that is closed when it is worth trying again.
func (s *Shares) try(caller string, n int64) (freed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[caller]+n > s.each:
		return s.freed, ErrOwnShare
	case s.held+n > s.all:
		return s.freed, ErrAllShares
	}
	s.held += n
	s.of[caller] += n
	return nil, nil
}

func (s *Shares) give(caller string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= n
	if s.of[caller] -= n; s.of[caller] == 0 {
		delete(s.of, caller)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}
