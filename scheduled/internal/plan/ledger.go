package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// ledger has an entry for each node. The jobs that the node has, and the tasks that are granted, are deducted there.
type ledger struct {
	rates   Rates
	entries []*entry
	byNode  map[int64]*entry
	found   map[[2]string][]seat // by queue and type
}

// entry is the slots and places of one node, with the jobs that take them.
type entry struct {
	slots         map[string]*stock // by queue
	typePlaces    map[string]*stock // of a type with a limit, by the type
	transactional *stock            // places of handlers that take a transaction
	types, takeTx map[string]bool
	strict        map[string]bool // the queues that come first
	shares        bool            // its slots serve all its queues, as their weights say
	tasks         int             // in hand
	maxTasks      int
}

// stock is some slots or places of a node. Each task needs a slot, and tasks of some types need places, too.
type stock struct {
	size     int
	held     int  // jobs that the node runs and that are not expected to end within about a second
	fetched  int  // jobs that the node has fetched. Those beyond size wait for a slot or a place.
	waiting  int  // jobs that wait in River
	spent    int  // the cost of the tasks that wait in River, or are granted
	reserved bool // for a task that comes earlier and lacks one
}

// slotWorth is the worth of a slot, or of a place. A task that takes long costs all of it, and so does a task of a type
// that no node has measured. A full batch of quick tasks costs about as much together.
const slotWorth = maxBatchTasks

// MaxInHand is how many tasks all nodes together may have in hand. These are claimed: they run, or wait in River or on
// a node. Each node has an equal share, or twice its slots if that is more. A more urgent task cannot overtake them.
const MaxInHand = 20000

// begins is how many batches can begin within about a second.
func (s *stock) begins() int { return max(s.size-s.held-max(s.fetched-s.size, 0), 0) }

// free is how much of the worth of these is not spent.
func (s *stock) free() int { return s.begins()*slotWorth - s.spent }

// near is how many more jobs may wait for their time. Each occupies one of River's workers while it waits, and due
// tasks need the other workers.
func (s *stock) near() int { return s.size/2 - s.fetched - s.waiting }

// Job is a River job, as the leader's last look has seen it.
type Job struct {
	ID    int64
	Queue string
	Type  string
	State string
	Node  int64 // the node that runs the job; 0: none of ours
	Tasks int
	Key   string // the limit key of its tasks, or ""
	// Age counts from the later of two times: when the job was inserted, or fetched if it runs, and when its last task
	// was due. It is negative while that task is not due.
	Age time.Duration
}

// The states of River's jobs that carry claims.
const (
	Available = "available"
	Running   = "running"
)

// newLedger opens the ledger with the jobs that River has. The job of a dead node takes no room.
func newLedger(nodes []taskdb.LiveNode, jobs []Job, rates Rates) *ledger {
	l := &ledger{rates: rates, byNode: map[int64]*entry{}, found: map[[2]string][]seat{}}
	for _, node := range nodes {
		one := newEntry(node)
		one.maxTasks = max(one.maxTasks, MaxInHand/len(nodes))
		l.entries, l.byNode[node.Number] = append(l.entries, one), one
	}
	for _, job := range jobs {
		if one := l.byNode[job.Node]; job.State == Running && one != nil {
			one.run(job, rates.endsSoon(job))
		}
	}
	for _, job := range jobs {
		if job.State == Available {
			l.wait(job)
		}
	}
	return l
}

func newEntry(node taskdb.LiveNode) *entry {
	one := &entry{
		slots: map[string]*stock{}, typePlaces: map[string]*stock{}, transactional: &stock{size: node.Places},
		types: setOf(node.Types), takeTx: setOf(node.Transactional), strict: setOf(node.Strict),
		shares: node.Shares && len(node.Strict) == 0,
	}
	slots, all := 0, &stock{}
	for queue, size := range node.Queues {
		if slots += size; node.Shares {
			slots = size
		}
		switch {
		case size <= 0:
		case len(node.Strict) > 0:
			all.size, one.slots[queue] = max(all.size, size), all
		default:
			one.slots[queue] = &stock{size: size}
		}
	}
	for kind, size := range node.TypeSlots {
		one.typePlaces[kind] = &stock{size: size}
	}
	one.maxTasks = 2 * slots
	return one
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// needs lists the slots and places of which a job takes one each. It is nil if the node does not work the queue.
func (e *entry) needs(queue, kind string) []*stock {
	slots := e.slots[queue]
	if slots == nil {
		return nil
	}
	needs := []*stock{slots}
	if e.takeTx[kind] {
		needs = append(needs, e.transactional)
	}
	if places := e.typePlaces[kind]; places != nil {
		needs = append(needs, places)
	}
	return needs
}

// run enters a job that the node runs.
func (e *entry) run(job Job, endsSoon bool) {
	e.tasks += job.Tasks
	for _, one := range e.needs(job.Queue, job.Type) {
		if one.fetched++; !endsSoon {
			one.held++
		}
	}
	for queue, one := range e.slots {
		if e.shares && !endsSoon && queue != job.Queue {
			one.held++
		}
	}
}

// wait enters a job that waits in River. Any node may fetch it that works its type, so it is deducted where most is
// free.
func (l *ledger) wait(job Job) {
	seats := l.of(job.Queue, job.Type)
	if len(seats) == 0 {
		return
	}
	best := slices.MaxFunc(seats, func(a, b seat) int {
		return cmp.Compare(a.least((*stock).free), b.least((*stock).free))
	})
	best.tasks += job.Tasks
	best.spend(job.Tasks*l.rates.cost(job.Type), true)
}

// seat is a node that works a queue and type, with the slots and places of which a task needs one each.
type seat struct {
	*entry
	needs []*stock
}

// of lists the nodes that work a queue and type.
func (l *ledger) of(queue, kind string) []seat {
	key := [2]string{queue, kind}
	seats, known := l.found[key]
	if !known {
		for _, one := range l.entries {
			if needs := one.needs(queue, kind); needs != nil && one.types[kind] {
				seats = append(seats, seat{one, needs})
			}
		}
		l.found[key] = seats
	}
	return seats
}

// least is the least number of the slots and places that a task needs.
func (s seat) least(of func(*stock) int) int {
	least := of(s.needs[0])
	for _, one := range s.needs[1:] {
		least = min(least, of(one))
	}
	return least
}

// room is how much of the node the next task in the order may have, in units of slotWorth.
func (s seat) room() int {
	if s.tasks >= s.maxTasks || slices.ContainsFunc(s.needs, func(one *stock) bool { return one.reserved }) {
		return 0
	}
	return max(s.least((*stock).free), 0)
}

// begins is how many batches can begin within about a second.
func (s seat) begins() int { return s.least((*stock).begins) }

// near is how many more jobs may wait for their time.
func (s seat) near() int { return max(s.least((*stock).near), 0) }

// spend deducts the cost of a batch. waits says that its job waits in River, or for its time.
func (s seat) spend(cost int, waits bool) {
	for _, one := range s.needs {
		if one.spent += cost; waits {
			one.waiting++
		}
	}
}

// take deducts tasks in batches of at most size. It deducts each batch from the node with the most room. It returns how
// many tasks fit. Of tasks near their time, each batch also uses up one of the jobs that may wait on the node.
func take(seats []seat, tasks, size, cost int, near bool) (taken int) {
	for taken < tasks {
		var best seat
		most := 0
		for _, one := range seats {
			if room := one.room() / cost; room > most && (!near || one.near() > 0) {
				best, most = one, room
			}
		}
		if most == 0 {
			break
		}
		some := min(tasks-taken, size, most)
		best.spend(some*cost, near)
		taken += some
	}
	return taken
}

// reserve reserves the slots and places that a task lacks on each node. Where only a place is missing, tasks that do
// not need that place get the slots.
func reserve(seats []seat, cost int) {
	for _, node := range seats {
		for _, one := range node.needs {
			one.reserved = one.reserved || one.free() < cost
		}
	}
}
