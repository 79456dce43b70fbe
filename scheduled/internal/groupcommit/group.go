// Package groupcommit commits together what arrives while the last commit is under way.
package groupcommit

import (
	"context"

	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
)

// Group commits together the items that arrive while the last commit is under way. Therefore no item waits for a
// timer, and the busier the node is, the more items share a round trip.
type Group[T any] struct {
	In     chan T
	weight func(T) int // how much of the limit an item takes
	limit  func() int  // the greatest weight of a commit
}

// New makes a group whose commits have items of at most the given weight together. weight nil means that each
// item weighs 1. limit gives a smaller most for now. limit nil means that there is none.
func New[T any](most int, weight func(T) int, limit func() int) *Group[T] {
	if weight == nil {
		weight = func(T) int { return 1 }
	}
	if limit == nil {
		limit = func() int { return most }
	}
	// The channel has room for all tasks that a node has in hand. A batch that had to wait here between two of its
	// tasks would find the gate's answer too old for the next task. It would then ask again for all tasks that are
	// left, over and over.
	return &Group[T]{In: make(chan T, max(most, riverjobs.MaxInHand)), weight: weight, limit: limit}
}

// Run calls do with the items that have arrived, until ctx is done, and then once more with those that are left.
// Several runs may go on at once, so that the next commit does not wait for the one before.
func (g *Group[T]) Run(ctx context.Context, do func(context.Context, []T)) {
	for {
		select {
		case <-ctx.Done():
			g.Drain(ctx, do)
			return
		case one := <-g.In:
			do(ctx, g.arrived([]T{one}))
		}
	}
}

// Drain calls do with the items that are left, because nothing else takes them any more.
func (g *Group[T]) Drain(ctx context.Context, do func(context.Context, []T)) {
	for left := g.arrived(nil); len(left) > 0; left = g.arrived(nil) {
		do(ctx, left)
	}
}

// arrived adds the items that have arrived meanwhile, as long as there is room.
func (g *Group[T]) arrived(with []T) []T {
	weight, most := 0, g.limit()
	for _, one := range with {
		weight += g.weight(one)
	}
	for weight < most {
		select {
		case one := <-g.In:
			with = append(with, one)
			weight += g.weight(one)
		default:
			return with
		}
	}
	return with
}
