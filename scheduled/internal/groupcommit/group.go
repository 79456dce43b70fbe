// Package groupcommit commits together what arrives while the last commit is under way.
package groupcommit

import "context"

// Group commits together the items that arrive while the last commit is under way. Therefore no item waits for a
// timer, and the busier the node is, the more items share a round trip.
type Group[T any] struct {
	In     chan T
	weight func(T) int // how much of the limit an item takes
	limit  func() int  // the weight from which on a commit takes no more items
}

// Config is the configuration of a group.
type Config[T any] struct {
	Room   int         // how many items In takes before a sender must wait
	Limit  func() int  // the weight from which on the next commit takes no more items
	Weight func(T) int // nil means that each item weighs 1
}

// New makes a group. It commits nothing before Run.
func New[T any](config Config[T]) *Group[T] {
	if config.Weight == nil {
		config.Weight = func(T) int { return 1 }
	}
	return &Group[T]{In: make(chan T, config.Room), weight: config.Weight, limit: config.Limit}
}

// Run calls do with the items that have arrived, until ctx is done, and then once more with those that are left.
// Several runs may go on at once, so that the next commit does not wait for the one before.
func (g *Group[T]) Run(ctx context.Context, do func(context.Context, []T)) {
	for {
		select {
		case <-ctx.Done():
			g.Drain(ctx, do)
			return
		case item := <-g.In:
			do(ctx, g.arrived([]T{item}))
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
	for _, item := range with {
		weight += g.weight(item)
	}
	for weight < most {
		select {
		case item := <-g.In:
			with = append(with, item)
			weight += g.weight(item)
		default:
			return with
		}
	}
	return with
}
