package leader

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

const (
	// slotCost is the room of one slot. A task that takes long takes all of it. So does a task of a type that no node
	// has measured.
	slotCost = maxBatchTasks
)

// taken is how much of a node is in use by jobs that are not expected to end soon.
type taken struct {
	slots  map[string]int // by queue
	shared int            // of all queues together
	places int
	// transactional is how many transactional jobs the node has fetched, whether they end soon or not. Each needs a
	// place, which is a connection of the pool for transactions. The jobs beyond the node's places wait for one.
	transactional int
}

// takenBy counts the jobs that run on each node and are not expected to end soon.
func takenBy(nodes []taskdb.LiveNode, jobs []riverjobs.Seen, known rates) map[int64]*taken {
	byClient := map[string]taskdb.LiveNode{}
	found := map[int64]*taken{}
	for _, node := range nodes {
		byClient[taskdb.ClientID(node.Number)] = node
		found[node.Number] = &taken{slots: map[string]int{}}
	}
	for _, job := range jobs {
		node, live := byClient[job.Client]
		if job.State != riverjobs.Running || !live {
			continue
		}
		of, transactional := found[node.Number], slices.Contains(node.Transactional, job.Type)
		if transactional {
			of.transactional++
		}
		if known.endsSoon(job) {
			continue
		}
		of.slots[job.Queue]++
		of.shared++
		if transactional {
			of.places++
		}
	}
	return found
}

// freeOf is how many batches of a queue and type the node can begin within about a second.
func freeOf(n taskdb.LiveNode, queue, kind string, of *taken) int {
	slots := n.Queues[queue] - of.slots[queue]
	if n.Shares {
		slots = n.Queues[queue] - of.shared
	}
	if slices.Contains(n.Transactional, kind) {
		slots = min(slots, n.Places-of.places-max(of.transactional-n.Places, 0))
	}
	return max(slots, 0)
}

// pool is a group of nodes that work the same types of a queue.
type pool struct {
	number, slots, free int
	waiting             int // the cost of the tasks that wait in River for one of these nodes
	jobs, tasks         int // those in hand
}

// pools finds the pool of a queue and type.
type pools struct {
	nodes   []taskdb.LiveNode
	clients map[string]bool // of these nodes
	taken   map[int64]*taken
	byKey   map[string]*pool
	found   map[[2]string]*pool
}

func poolsOf(nodes []taskdb.LiveNode, jobs []riverjobs.Seen, known rates) *pools {
	p := &pools{
		nodes: nodes, clients: map[string]bool{}, taken: takenBy(nodes, jobs, known),
		byKey: map[string]*pool{}, found: map[[2]string]*pool{},
	}
	for _, node := range nodes {
		p.clients[taskdb.ClientID(node.Number)] = true
	}
	return p
}

// of returns nil if no node works both the queue and the type.
func (p *pools) of(queue, kind string) *pool {
	if known, asked := p.found[[2]string{queue, kind}]; asked {
		return known
	}
	var key strings.Builder
	key.WriteString(queue)
	slots, free := 0, 0
	for _, node := range p.nodes {
		if !node.Works(queue, kind) {
			continue
		}
		key.WriteString(" " + strconv.FormatInt(node.Number, 10))
		if slices.Contains(node.Transactional, kind) {
			key.WriteString("t")
		}
		slots += node.Queues[queue]
		free += freeOf(node, queue, kind, p.taken[node.Number])
	}
	var one *pool
	if slots > 0 {
		if one = p.byKey[key.String()]; one == nil {
			one = &pool{number: len(p.byKey), slots: slots, free: free}
			p.byKey[key.String()] = one
		}
	}
	p.found[[2]string{queue, kind}] = one
	return one
}

// budget leaves out the lanes that no live node can work, and gives each of the other lanes its room. The room is one
// batch for each slot that is free or is expected to be free within about a second, less the tasks that already wait
// in River. Therefore claimed tasks do not wait behind handlers that run for long, and a more urgent task is claimed
// as soon as a slot becomes free.
//
// Types that different nodes work have different pools, so that a service that is slow or stuck does not starve
// another service on the same queue. Tasks that are claimed ahead of their time take at most half of the slots. Each
// of their jobs occupies one of River's workers while it waits, and due tasks need the other workers.
func budget(lanes []taskdb.Lane, nodes []taskdb.LiveNode, jobs []riverjobs.Seen, known rates) []taskdb.LaneQuota {
	all := poolsOf(nodes, jobs, known)
	cost := func(kind string) int { fits := known.fits(kind); return (slotCost + fits - 1) / fits }
	for _, job := range jobs {
		p := all.of(job.Queue, job.Type)
		waits := job.State == riverjobs.Available
		if p == nil || !waits && !all.clients[job.Client] {
			continue // the job of a dead node takes no room
		}
		if p.jobs, p.tasks = p.jobs+1, p.tasks+job.Tasks; waits {
			p.waiting += job.Tasks * cost(job.Type)
		}
	}
	var budgets []taskdb.LaneQuota
	for _, l := range lanes {
		p := all.of(l.Queue, l.Type)
		if p == nil {
			continue
		}
		one := taskdb.LaneQuota{
			Lane: l, Pool: p.number, Cost: cost(l.Type), Room: p.free*slotCost - p.waiting, Slots: p.free,
		}
		if one.Room < one.Cost || p.tasks >= max(2*p.slots, riverjobs.MaxInHand) {
			one.Room = 0
		}
		one.Ahead = max(p.slots/2-p.jobs, 0)
		one.Near = min(one.Ahead*slotCost, one.Room)
		budgets = append(budgets, one)
	}
	slices.SortStableFunc(budgets, func(a, b taskdb.LaneQuota) int { return cmp.Compare(b.Priority, a.Priority) })
	return inOrder(budgets)
}

// inOrder takes the room away from lanes that come after a lane with due tasks that do not fit. The tasks of the
// later lanes are quicker and would fit, but they would overtake more urgent tasks again and again while the pool is
// nearly full. budgets are in the order of their priorities.
func inOrder(budgets []taskdb.LaneQuota) []taskdb.LaneQuota {
	full := map[int]int{} // by pool: the priority of the first lane that does not fit
	for i := range budgets {
		b := &budgets[i]
		priority, waits := full[b.Pool]
		switch {
		case waits && b.Priority < priority:
			b.Room, b.Near = 0, 0
		case !waits && b.DueIn <= 0 && b.Room < b.Cost:
			full[b.Pool] = b.Priority
		}
	}
	return budgets
}
