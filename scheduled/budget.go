package scheduled

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// liveNode is what the leader knows of a node that is not dead.
type liveNode struct {
	Number int64
	Queues map[string]int
	Types  []string
	Held   bool          // its lock is held: its session lives
	Hears  bool          // it has an OnDead
	Led    bool          // it began to lead last, of those not known to be dead
	Silent time.Duration // how long ago its last sign of life was, if a leader has noted that; else negative
}

// load is how many tasks of a queue and type are in River's hands, waiting for a worker or with one.
type load struct {
	Queue  string
	Type   string
	Client *string // River's id of the node that has them; nil: none yet
	Tasks  int
	Jobs   int // that carry them
}

// laneBudget is a lane that may be claimed from. Lanes of one pool share its room.
type laneBudget struct {
	lane
	Pool  int // the lanes that the same nodes can work
	Cost  int // how much of the room each task takes
	Room  int // what may be claimed now, in units of Cost
	Near  int // how much of it may be such as is not due yet
	Ahead int // in how many River jobs that must fit
	Slots int // of the pool's nodes
}

const (
	// roomFactor is how many batches a slot may have in hand: one running and one to follow at once.
	roomFactor = 2
	// slotCost is the room of one slot: one task that takes long, or is of a type that has not been measured, or as many quick ones as
	// fit into batchTime, up to this many.
	slotCost = 250
	// handMost is how many tasks may be in hand, however quick they are, if the slots are fewer: what is claimed cannot be overtaken.
	handMost = 20000
)

// fits is how many tasks of a type are a slot's worth.
func fits(average time.Duration, measured bool) int {
	if !measured {
		return 1
	}
	return int(min(max(int64(batchTime/max(average, 1)), 1), slotCost))
}

// budget leaves out the lanes that no live node can work, and gives each of the others its room: two batches for each slot of the nodes
// that have both its queue and its type, less what these already have in hand. fits says how many tasks of a type make a batch.
// Types that different nodes work do not take each other's room, so a service that is slow or stuck does not starve another on the
// same queue. What is claimed ahead of its time may take half of the slots at most: each job has one of River's workers while it
// waits, and what falls due needs the others.
func budget(lanes []lane, nodes []liveNode, loads []load, fits func(kind string) int) []laneBudget {
	type pool struct{ number, slots, room, ahead, hand int }
	pools := map[string]*pool{}
	cost := func(kind string) int { return (slotCost + fits(kind) - 1) / fits(kind) }
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
			found = &pool{number: len(pools), slots: slots, room: roomFactor * slots * slotCost, ahead: slots / 2, hand: max(roomFactor*slots, handMost)}
			pools[key.String()] = found
		}
		return found
	}
	for _, load := range loads {
		if load.Client != nil && !slices.ContainsFunc(nodes, func(n liveNode) bool { return clientID(n.Number) == *load.Client }) {
			continue // a dead node's, until they are taken back: it does not take the others' room
		}
		if p := poolOf(load.Queue, load.Type); p != nil {
			p.room -= load.Tasks * cost(load.Type)
			p.ahead -= load.Jobs
			p.hand -= load.Tasks
		}
	}
	var budgets []laneBudget
	for _, l := range lanes {
		if p := poolOf(l.Queue, l.Type); p != nil {
			ahead := max(p.ahead, 0)
			one := laneBudget{lane: l, Pool: p.number, Cost: cost(l.Type), Room: max(p.room, 0), Ahead: ahead, Near: min(ahead*slotCost, max(p.room, 0)), Slots: p.slots}
			if p.hand <= 0 || one.Room < one.Cost {
				one.Room, one.Near = 0, 0
			}
			budgets = append(budgets, one)
		}
	}
	slices.SortStableFunc(budgets, func(a, b laneBudget) int { return cmp.Compare(b.Priority, a.Priority) })
	return inOrder(budgets)
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
