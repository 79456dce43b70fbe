// Package groupcommit commits together what arrives while the last commit is under way.
package groupcommit

import "context"

// Group commits together the items that arrive while the last commit is under way. Therefore no item waits for a
// timer, and the busier the node is, the more items share a round trip.
type Group[T any] struct {
	in     chan entry[T]
	config Config[T]
}

type entry[T any] struct {
	item T
	done chan struct{} // closed after the commit; nil: nobody waits for it
}

// Config is the configuration of a group.
type Config[T any] struct {
	Commit func(context.Context, []T)
	Room   int         // how many items wait before a sender must wait
	Limit  func() int  // the weight from which on the next commit takes no more items
	Weight func(T) int // how much of the limit an item takes; nil means that each takes 1
}

// New makes a group. It commits nothing before Run.
func New[T any](config Config[T]) *Group[T] {
	if config.Weight == nil {
		config.Weight = func(T) int { return 1 }
	}
	return &Group[T]{in: make(chan entry[T], config.Room), config: config}
}

// Send has an item committed, and does not wait for that. It reports whether there was room before ctx was done.
func (g *Group[T]) Send(ctx context.Context, item T) bool { return g.send(ctx, entry[T]{item: item}) }

// Do has an item committed, and waits for that. It reports whether the commit was over before ctx was done.
func (g *Group[T]) Do(ctx context.Context, item T) bool {
	done := make(chan struct{})
	if !g.send(ctx, entry[T]{item, done}) {
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (g *Group[T]) send(ctx context.Context, one entry[T]) bool {
	select {
	case g.in <- one:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run commits the items that have arrived, until ctx is done, and then once more those that are left. Several runs may
// go on at once, so that the next commit does not wait for the one before.
func (g *Group[T]) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			g.Drain(ctx)
			return
		case one := <-g.in:
			g.commit(ctx, one)
		}
	}
}

// Drain commits the items that are left, because nothing else takes them any more.
func (g *Group[T]) Drain(ctx context.Context) {
	for {
		select {
		case one := <-g.in:
			g.commit(ctx, one)
		default:
			return
		}
	}
}

// commit commits an item and those that have arrived meanwhile, as long as there is room.
func (g *Group[T]) commit(ctx context.Context, first entry[T]) {
	var items []T
	var waiting []chan struct{}
	weight, most := 0, g.config.Limit()
	for one, more := first, true; more; {
		items = append(items, one.item)
		if one.done != nil {
			waiting = append(waiting, one.done)
		}
		weight, more = weight+g.config.Weight(one.item), false
		if weight < most {
			select {
			case one = <-g.in:
				more = true
			default:
			}
		}
	}
	g.config.Commit(ctx, items)
	for _, done := range waiting {
		close(done)
	}
}
