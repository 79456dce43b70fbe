package scheduled

import "context"

// group commits together what arrives while the last commit is under way: nothing waits for a timer, and the busier it is,
// the more shares a round trip.
type group[T any] struct {
	in   chan T
	most int
}

func newGroup[T any](most int) *group[T] { return &group[T]{in: make(chan T, most), most: most} }

// run calls do with what has arrived, until ctx is done.
func (g *group[T]) run(ctx context.Context, do func(context.Context, []T)) {
	for {
		var arrived []T
		select {
		case <-ctx.Done():
			return
		case one := <-g.in:
			arrived = append(arrived, one)
		}
		for more := true; more && len(arrived) < g.most; {
			select {
			case one := <-g.in:
				arrived = append(arrived, one)
			default:
				more = false
			}
		}
		do(ctx, arrived)
	}
}
