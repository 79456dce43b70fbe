package session

import (
	"context"
	"fmt"
)

// Turns bound how many connections of the engine's pool housekeeping holds at once. Without this bound, retention, the
// leader's walk, table statistics and others could hold all connections of a small pool. Then claims would wait too
// long for their start, and outcomes for their record, and the node would end itself. A turn comes to those who wait in
// their order. It is safe for concurrent use.
type Turns chan struct{}

// NewTurns returns the turns for a pool of so many connections. Housekeeping has half of them, and at least one.
func NewTurns(conns int32) Turns { return make(Turns, max(conns/2, 1)) }

// Take waits for a turn until ctx is done. The caller must call leave at the end of its turn, and must not take a
// second turn before. Nil Turns have no bound.
func (t Turns) Take(ctx context.Context) (leave func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other housekeeping: %w", context.Cause(ctx))
	}
}
