package scheduled

import "context"

// group commits together what arrives while the last commit is under way: nothing waits for a timer, and the busier it is,
// the more shares a round trip.
type group[T any] struct {
	in     chan T
	most   int
	weight func(T) int // how much of most one takes
	limit  func() int  // a smaller most for now; nil: there is none
}

// newGroup makes a group whose commits have at most so many, or so much by weight; nil: each weighs 1.
func newGroup[T any](most int, weight func(T) int) *group[T] {
	if weight == nil {
		weight = func(T) int { return 1 }
	}
	// Room for all that a node has in hand: a batch that had to wait here between two of its tasks would find the gate's answer too old
	// for the next, and ask again, for all that are left, over and over.
	return &group[T]{in: make(chan T, max(most, handMost)), most: most, weight: weight}
}

// run calls do with what has arrived, until ctx is done; then once more, with what is left. Several may run at once: then the next
// commit does not wait for the one before.
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

// drain calls do with what nobody else will take any more.
func (g *group[T]) drain(ctx context.Context, do func(context.Context, []T)) {
	for left := g.arrived(nil); len(left) > 0; left = g.arrived(nil) {
		do(ctx, left)
	}
}

// arrived adds what has arrived meanwhile, as long as there is room.
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
