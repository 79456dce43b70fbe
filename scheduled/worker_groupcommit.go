package scheduled

import "context"

// group commits together the items that arrive while the last commit is under way. Therefore no item waits for a
// timer, and the busier the node is, the more items share a round trip.
type group[T any] struct {
	in     chan T
	most   int
	weight func(T) int // how much of most an item takes
	limit  func() int  // a smaller most for now; nil means that there is none
}

// newGroup makes a group whose commits have items of at most the given weight together. weight nil means that each
// item weighs 1.
func newGroup[T any](most int, weight func(T) int) *group[T] {
	if weight == nil {
		weight = func(T) int { return 1 }
	}
	// The channel has room for all tasks that a node has in hand. A batch that had to wait here between two of its
	// tasks would find the gate's answer too old for the next task. It would then ask again for all tasks that are
	// left, over and over.
	return &group[T]{in: make(chan T, max(most, maxInHand)), most: most, weight: weight}
}

// run calls do with the items that have arrived, until ctx is done, and then once more with those that are left.
// Several runs may go on at once, so that the next commit does not wait for the one before.
func (g *group[T]) run(ctx context.Context, do func(context.Context, []T)) {
	for {
		select {
		case <-ctx.Done():
			g.drain(ctx, do)
			return
		case one := <-g.in:
			do(ctx, g.arrived([]T{one}))
		}
	}
}

// drain calls do with the items that are left, because nothing else takes them any more.
func (g *group[T]) drain(ctx context.Context, do func(context.Context, []T)) {
	for left := g.arrived(nil); len(left) > 0; left = g.arrived(nil) {
		do(ctx, left)
	}
}

// arrived adds the items that have arrived meanwhile, as long as there is room.
func (g *group[T]) arrived(with []T) []T {
	weight, most := 0, g.most
	for _, one := range with {
		weight += g.weight(one)
	}
	if g.limit != nil {
		most = g.limit()
	}
	for weight < most {
		select {
		case one := <-g.in:
			with = append(with, one)
			weight += g.weight(one)
		default:
			return with
		}
	}
	return with
}
