package scheduled

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// liveNode is what the leader knows of a node that is not dead.
type liveNode struct {
	Number int64
	Queues map[string]int
	Types  []string
	Held   bool // its lock is held: its session lives
}

// load is how many tasks of a queue and type are in River's hands, waiting for a worker or with one.
type load struct {
	Queue  string
	Type   string
	Client *string // River's id of the node that has them; nil: none yet
	Tasks  int
}

// laneBudget is a lane that may be claimed from. Lanes of one pool share its room.
type laneBudget struct {
	lane
	Pool  int // the lanes that the same nodes can work
	Room  int // how many tasks of the pool may be claimed now
	Near  int // how many of them may be such as are not due yet
	Slots int // of the pool's nodes
}

// roomFactor is how many tasks a slot may have in hand: one running and one to follow at once.
const roomFactor = 2

// budget leaves out the lanes that no live node can work, and gives each of the others its room: twice the slots of the nodes
// that have both its queue and its type, less what these already have in hand. Types that different nodes work do not take
// each other's room, so a service that is slow or stuck does not starve another on the same queue. What is claimed ahead of its
// time may take half of the slots at most: each has one of River's workers while it waits, and what falls due needs the others.
func budget(lanes []lane, nodes []liveNode, loads []load, most int) []laneBudget {
	type pool struct{ number, slots, room, near int }
	pools := map[string]*pool{}
	poolOf := func(queue, kind string) *pool {
		var key strings.Builder
		key.WriteString(queue)
		slots := 0
		for _, node := range nodes {
			if node.Queues[queue] > 0 && slices.Contains(node.Types, kind) {
				key.WriteString(" " + strconv.FormatInt(node.Number, 10))
				slots += node.Queues[queue]
			}
		}
		if slots == 0 {
			return nil
		}
		found := pools[key.String()]
		if found == nil {
			found = &pool{number: len(pools), slots: slots, room: roomFactor * slots, near: slots / 2}
			pools[key.String()] = found
		}
		return found
	}
	for _, load := range loads {
		if load.Client != nil && !slices.ContainsFunc(nodes, func(n liveNode) bool { return clientID(n.Number) == *load.Client }) {
			continue // a dead node's, until they are taken back: it does not take the others' room
		}
		if p := poolOf(load.Queue, load.Type); p != nil {
			p.room -= load.Tasks
			p.near -= load.Tasks
		}
	}
	var budgets []laneBudget
	for _, l := range lanes {
		if p := poolOf(l.Queue, l.Type); p != nil {
			budgets = append(budgets, laneBudget{lane: l, Pool: p.number, Room: min(max(p.room, 0), most), Near: min(max(p.near, 0), most), Slots: p.slots})
		}
	}
	slices.SortStableFunc(budgets, func(a, b laneBudget) int { return cmp.Compare(b.Priority, a.Priority) })
	return budgets
}

// shareSlots gives each queue all the slots: any of them may get them. The room is then more than the slots can take at once,
// but never more than is in hand for one queue.
func shareSlots(queues map[string]int) {
	total := 0
	for _, slots := range queues {
		total += slots
	}
	for queue := range queues {
		queues[queue] = total
	}
}
