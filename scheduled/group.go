package scheduled

import "context"

// group commits together what arrives while the last commit is under way: nothing waits for a timer, and the busier it is,
// the more shares a round trip.
type group[T any] struct {
	in   chan T
	most int
}

func newGroup[T any](most int) *group[T] { return &group[T]{in: make(chan T, most), most: most} }

// run calls do with what has arrived, until ctx is done; then once more, with what is left.
func (g *group[T]) run(ctx context.Context, do func(context.Context, []T)) {
	for {
		select {
		case <-ctx.Done():
			g.drain(ctx, do)
			return
		case one := <-g.in:
			do(ctx, append([]T{one}, g.arrived(g.most-1)...))
		}
	}
}

// drain calls do with what nobody else will take any more.
func (g *group[T]) drain(ctx context.Context, do func(context.Context, []T)) {
	for left := g.arrived(g.most); len(left) > 0; left = g.arrived(g.most) {
		do(ctx, left)
	}
}

func (g *group[T]) arrived(most int) (arrived []T) {
	for len(arrived) < most {
		select {
		case one := <-g.in:
			arrived = append(arrived, one)
		default:
			return arrived
		}
	}
	return arrived
}
