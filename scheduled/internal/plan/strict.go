package plan

import (
	"slices"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// A node may have a strict order of queues. On such a node, all queues have the same slots, so that a task which the
// plan grants takes the slot from all later ones. Without that, the leader would claim tasks of a later queue that wait
// on the node behind those of an earlier queue.
//
// River may bring a task to any node that works its queue and type. Therefore the orders of all nodes are joined into
// one. It holds for the tasks that a node with the queue in its order works. Other tasks come after these.

// StrictOrder joins strict orders of queues into one. It ignores an order that contradicts those before it in the list.
func StrictOrder(orders [][]string) (joined []string, ignored [][]string) {
	var heeded [][]string
	for _, one := range orders {
		with := append(slices.Clone(heeded), one)
		if order, ok := joinOrders(with); ok {
			heeded, joined = with, order
		} else {
			ignored = append(ignored, one)
		}
	}
	return joined, ignored
}

// joinOrders takes the first queue of an order again and again, if it stands behind another queue in no order. It
// reports false if there is no such queue.
func joinOrders(left [][]string) (joined []string, ok bool) {
	for {
		left = slices.DeleteFunc(slices.Clone(left), func(order []string) bool { return len(order) == 0 })
		if len(left) == 0 {
			return joined, true
		}
		first := slices.IndexFunc(left, func(order []string) bool {
			return !slices.ContainsFunc(left, func(other []string) bool { return slices.Contains(other[1:], order[0]) })
		})
		if first < 0 {
			return nil, false
		}
		next := left[first][0]
		joined = append(joined, next)
		for i, order := range left {
			if order[0] == next {
				left[i] = order[1:]
			}
		}
	}
}

// strictOrder joins the orders of all nodes. Those of nodes that began later come first.
func strictOrder(nodes []taskdb.LiveNode) []string {
	var orders [][]string
	for _, node := range slices.Backward(nodes) { // they are in the order of their numbers
		same := func(order []string) bool { return slices.Equal(order, node.Strict) }
		if len(node.Strict) > 0 && !slices.ContainsFunc(orders, same) { // most nodes are alike
			orders = append(orders, node.Strict)
		}
	}
	joined, _ := StrictOrder(orders)
	return joined
}

// rank is the place in the strict order of the tasks that these nodes work of a queue.
func rank(queue string, strict []string, seats []seat) int {
	place := slices.Index(strict, queue)
	if place < 0 || !slices.ContainsFunc(seats, func(node seat) bool { return node.strict[queue] }) {
		return len(strict)
	}
	return place
}
