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
	places map[string]int // by their name, see taskdb.LiveNode.PlacesOf
	// fetched is how many jobs that need a place the node has fetched, whether they end soon or not. The jobs beyond
	// the node's places wait for one.
	fetched map[string]int
}

// takenBy counts the jobs that run on each node and are not expected to end soon.
func takenBy(nodes []taskdb.LiveNode, jobs []riverjobs.Seen, known rates) map[int64]*taken {
	byClient := map[string]taskdb.LiveNode{}
	found := map[int64]*taken{}
	for _, node := range nodes {
		byClient[taskdb.ClientID(node.Number)] = node
		found[node.Number] = &taken{slots: map[string]int{}, places: map[string]int{}, fetched: map[string]int{}}
	}
	for _, job := range jobs {
		node, live := byClient[job.Client]
		if job.State != riverjobs.Running || !live {
			continue
		}
		of, soon := found[node.Number], known.endsSoon(job)
		for _, name := range taskdb.PlaceNames(job.Type) {
			if _, needed := node.PlacesOf(name, job.Type); !needed {
				continue
			}
			if of.fetched[name]++; !soon {
				of.places[name]++
			}
		}
		if !soon {
			of.slots[job.Queue]++
			of.shared++
		}
	}
	return found
}

// slotsOf is how many batches of a queue the node can begin within about a second, as far as slots go.
func (of *taken) slotsOf(n taskdb.LiveNode, queue string) int {
	if n.Shares {
		return max(n.Queues[queue]-of.shared, 0)
	}
	return max(n.Queues[queue]-of.slots[queue], 0)
}

// placesOf is how many of the node's places with this name are free within about a second.
func (of *taken) placesOf(name string, size int) int {
	return max(size-of.places[name]-max(of.fetched[name]-size, 0), 0)
}

// pool is the slots of a queue, or the places, for which lanes compete that the same nodes work.
type pool struct {
	number, size int
	waiting      int // the cost of the tasks that wait in River for them
	jobs, tasks  int // those in hand
}

// room is what the live nodes have for a queue and type. Each task needs a slot, and on some nodes a place, too. A task
// that waits for a place must not keep the slots from tasks that need no place.
type room struct {
	pools  []*pool // of the slots first, then of the places
	free   int     // how many batches the nodes can begin within about a second
	unused int     // how many slots are free by then
}

// left is the room in units of LaneQuota.Cost, and the room of the slots alone.
func (r *room) left() (left, slots int) {
	slots = r.unused*slotCost - r.pools[0].waiting
	left = min(slots, r.free*slotCost)
	for _, p := range r.pools[1:] {
		left = min(left, r.free*slotCost-p.waiting)
	}
	return left, slots
}

// full reports whether the nodes have too many tasks in hand.
func (r *room) full() bool {
	return slices.ContainsFunc(r.pools, func(p *pool) bool { return p.tasks >= max(2*p.size, riverjobs.MaxInHand) })
}

// ahead is how many more jobs may wait for their time.
func (r *room) ahead() int {
	least := r.pools[0].size
	for _, p := range r.pools {
		least = min(least, p.size/2-p.jobs)
	}
	return max(least, 0)
}

// pools finds the room of a queue and type.
type pools struct {
	nodes   []taskdb.LiveNode
	clients map[string]bool // of these nodes
	taken   map[int64]*taken
	byKey   map[string]*pool
	found   map[[2]string]*room
}

func poolsOf(nodes []taskdb.LiveNode, jobs []riverjobs.Seen, known rates) *pools {
	p := &pools{
		nodes: nodes, clients: map[string]bool{}, taken: takenBy(nodes, jobs, known),
		byKey: map[string]*pool{}, found: map[[2]string]*room{},
	}
	for _, node := range nodes {
		p.clients[taskdb.ClientID(node.Number)] = true
	}
	return p
}

// of returns nil if no node works both the queue and the type.
func (p *pools) of(queue, kind string) *room {
	if known, asked := p.found[[2]string{queue, kind}]; asked {
		return known
	}
	one := p.roomOf(queue, kind)
	p.found[[2]string{queue, kind}] = one
	return one
}

func (p *pools) roomOf(queue, kind string) *room {
	var works []taskdb.LiveNode
	one, slots := &room{}, 0
	for _, node := range p.nodes {
		if !node.Works(queue, kind) {
			continue
		}
		of := p.taken[node.Number]
		unused := of.slotsOf(node, queue)
		free := unused
		for _, name := range taskdb.PlaceNames(kind) {
			if size, needed := node.PlacesOf(name, kind); needed {
				free = min(free, of.placesOf(name, size))
			}
		}
		works, slots = append(works, node), slots+node.Queues[queue]
		one.free, one.unused = one.free+free, one.unused+unused
	}
	if slots == 0 {
		return nil
	}
	one.pools = append(one.pools, p.shared("slots of "+queue, works, slots))
	for _, name := range taskdb.PlaceNames(kind) {
		key, size, any := "places of "+name, 0, false
		for _, node := range works {
			if places, needed := node.PlacesOf(name, kind); needed {
				size, any = size+places, true
			} else {
				key, size = key+" except "+strconv.FormatInt(node.Number, 10), size+node.Queues[queue]
			}
		}
		if any {
			one.pools = append(one.pools, p.shared(key, works, size))
		}
	}
	return one
}

// shared returns the pool of some nodes that has this name.
func (p *pools) shared(name string, nodes []taskdb.LiveNode, size int) *pool {
	var key strings.Builder
	key.WriteString(name)
	for _, node := range nodes {
		key.WriteString(" " + strconv.FormatInt(node.Number, 10))
	}
	one := p.byKey[key.String()]
	if one == nil {
		one = &pool{number: len(p.byKey), size: size}
		p.byKey[key.String()] = one
	}
	return one
}

// budget leaves out the lanes that no live node can work, and gives each of the other lanes its room. The room is one
// batch for each slot that is free or is expected to be free within about a second, less the tasks that already wait
// in River. Therefore claimed tasks do not wait behind handlers that run for long, and a more urgent task is claimed
// as soon as a slot becomes free.
//
// Types that different nodes work have different pools, so that a service that is slow or stuck does not starve
// another service on the same queue. Types that need places have pools of their own besides, for the same reason. Tasks
// that are claimed ahead of their time take at most half of the slots. Each of their jobs occupies one of River's
// workers while it waits, and due tasks need the other workers.
func budget(lanes []taskdb.Lane, nodes []taskdb.LiveNode, jobs []riverjobs.Seen, known rates) []taskdb.LaneQuota {
	all := poolsOf(nodes, jobs, known)
	cost := func(kind string) int { fits := known.fits(kind); return (slotCost + fits - 1) / fits }
	for _, job := range jobs {
		r := all.of(job.Queue, job.Type)
		waits := job.State == riverjobs.Available
		if r == nil || !waits && !all.clients[job.Client] {
			continue // the job of a dead node takes no room
		}
		for _, p := range r.pools {
			if p.jobs, p.tasks = p.jobs+1, p.tasks+job.Tasks; waits {
				p.waiting += job.Tasks * cost(job.Type)
			}
		}
	}
	var budgets []taskdb.LaneQuota
	for _, l := range lanes {
		r := all.of(l.Queue, l.Type)
		if r == nil {
			continue
		}
		one := taskdb.LaneQuota{
			Lane: l, Base: r.pools[0].number, Pool: r.pools[len(r.pools)-1].number, Cost: cost(l.Type), Slots: r.free,
		}
		one.Room, one.Free = r.left()
		if one.Room < one.Cost || r.full() {
			one.Room = 0
		}
		one.Ahead = r.ahead()
		one.Near = min(one.Ahead*slotCost, one.Room)
		budgets = append(budgets, one)
	}
	slices.SortStableFunc(budgets, func(a, b taskdb.LaneQuota) int { return cmp.Compare(b.Priority, a.Priority) })
	return inOrder(budgets)
}

// inOrder takes the room away from lanes that come after a lane with due tasks that do not fit. The tasks of the
// later lanes are quicker and would fit, but they would overtake more urgent tasks again and again while the pool is
// nearly full. Tasks that wait for a place leave the slots to others. budgets are in the order of their priorities.
func inOrder(budgets []taskdb.LaneQuota) []taskdb.LaneQuota {
	full := map[int]int{} // by pool: the priority of the first lane that does not fit
	fill := func(pool, priority int) {
		if _, known := full[pool]; !known {
			full[pool] = priority
		}
	}
	holds := func(pool, priority int) bool {
		first, waits := full[pool]
		return waits && priority < first
	}
	for i := range budgets {
		b := &budgets[i]
		switch {
		case holds(b.Pool, b.Priority) || holds(b.Base, b.Priority):
			b.Room, b.Near = 0, 0
		case b.DueIn <= 0 && b.Room < b.Cost:
			if fill(b.Pool, b.Priority); b.Free < b.Cost {
				fill(b.Base, b.Priority)
			}
		}
	}
	return budgets
}
