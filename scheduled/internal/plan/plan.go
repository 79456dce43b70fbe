// Package plan says which tasks run next. It only computes: it reads no table and no clock.
//
// The leader lists the lanes that have a task which is due, or will be within the look-ahead. Tasks come in this order:
//
//  1. due tasks before tasks that are only near their time,
//  2. then the queue that comes first in a strict order, if nodes have one (strict.go),
//  3. then the higher priority,
//  4. then the task that has been due for longer, or will be due sooner.
//
// The priority of a task does not rise with time. The task waits while those of a higher priority take all the room
// that it needs.
//
// A ledger has an entry for each node. The entry says how many slots are free in each queue. It also says how many
// places are free. A place is a second limit beside the slot. A type may have a limit of places, and handlers that take
// a transaction have one. A slot is free if no job has it. It also counts as free if its job should end within about a
// second. A free slot has room for one batch, which is some quick tasks or a single task that takes long.
//
// The plan deducts the jobs that wait in River first. Then it goes through the tasks in their order. It deducts each
// batch from the node with the most room among those that work its queue and type. River may bring the batch to any of
// these nodes. Because the leader claims only as much as can begin within about a second, claimed tasks do not wait
// behind handlers that run for long. If the queues of a node share its slots, without a strict order, each queue counts
// all of them as its own. Then as many tasks may wait on the node as it has slots, for each queue.
//
// If a due task fits on no node, the plan reserves for it, on each of its nodes, the slot or place that it lacks there.
// If it lacks a slot, later tasks of its queue get no slot there. Otherwise quick tasks would take the rest of a slot
// again and again, and a task that takes long would never find a whole one. If it only lacks a place, other types get
// the slots. Tasks that are near their time are granted to a node only while its jobs, running and waiting, are fewer
// than half of its slots.
//
// If a limit counts each group or tenant by itself, the tasks of each are a lane, and these lanes take turns (Turns).
// If they run in order, one of the lanes of a group or tenant takes part, and gets one task at a time (keepOrder).
//
// A limit holds over all nodes. It says how many River jobs of a type, of a queue or of everything there may be, or how
// many tasks may be claimed in an interval. If only a limit keeps a due task from starting, other tasks get the slots.
// Tasks that have a limit are not claimed ahead of their time.
//
// The list of lanes does not have the number of their tasks. If only one lane has room, it gets all of it. If several
// have, the leader looks at their tasks first (Peeks, Peeked). After a claim the plan learns how many tasks it took
// (Claimed). A lane may have given fewer than the leader had seen there, because others have locked or just edited
// rows. Then the leader claims again. If the lane gives too few once more, the plan takes no more of its due tasks, and
// other lanes get their room. If no limit counts the lane, it may still give tasks that are near their time.
package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Input has all that a plan depends on.
type Input struct {
	Lanes     []taskdb.Lane     // that have a task; those of recurring tasks, too
	Paused    []taskdb.Pause    // lanes in which nothing begins now
	Nodes     []taskdb.LiveNode // that take tasks
	Jobs      []Job             // that River has
	Limits    []taskdb.Limit
	Buckets   Buckets // of groups and tenants
	Rates     Rates
	LookAhead time.Duration
}

// Plan says which tasks the leader claims and fires, and when it looks again.
type Plan struct {
	// Fires are the lanes whose first recurring task is due. Recurring tasks need no room. Their occurrences do.
	Fires []taskdb.Lane
	// First is the time until there is something to claim or to fire, whether or not there is room. 0 means now. It is
	// negative if there is none.
	First time.Duration
	// Then is how long the leader waits after a pass that claimed nothing: until another lane is within the look-ahead,
	// or until a task that is near its time becomes due. Tasks that are due already do not shorten it, see Full. It is
	// negative if there is no such task. Grants makes it shorter if a limit has a token again before.
	Then time.Duration
	// Full says that a lane has due tasks and got nothing, because its nodes have no room, or because as many tasks run
	// as a limit allows. The leader then looks again after a short pause, or when a slot of its own node becomes free.
	// Grants sets it.
	Full bool

	input  Input
	grants []taskdb.Grant          // the last ones
	spent  map[taskdb.BucketOf]int // tokens that tasks claimed by this plan have taken
	lanes  []*lane                 // with a task that is due or near its time, and a node that works it
}

// lane is a lane that may be claimed from.
type lane struct {
	taskdb.Lane
	near   bool            // its first task is not due yet
	room   int             // for how many tasks there would be room if the lane were alone
	times  []time.Duration // in how long each task is due that the leader has seen
	more   bool            // there may be other tasks
	short  bool            // a claim has taken fewer tasks than were seen
	closed bool            // no further task can be had
	rest   time.Duration   // when the last one of the lanes that take turns with it is due
	waits  bool            // a task does not fit
	rank   int             // of its queue in the strict order
	grant  taskdb.Grant
}

// New makes a plan. It leaves out lanes that are paused, or that no node works.
func New(in Input) *Plan {
	p := &Plan{input: in, First: -1, Then: -1, spent: map[taskdb.BucketOf]int{}}
	room, meters, strict := p.ledger(), p.meters(), strictOrder(in.Nodes)
	for _, one := range taskdb.Unpaused(in.Lanes, in.Paused) {
		seats := room.of(one.Queue, one.Type)
		if len(seats) == 0 {
			continue
		}
		ahead := in.LookAhead
		limits := meters.of(one.Key())
		// Only at the fire can the leader see whether an earlier occurrence has ended. And a task that is claimed ahead
		// of its time would keep others of its limit from starting.
		if one.Recurring || len(limits) > 0 {
			ahead = 0
		}
		p.First = sooner(p.First, max(one.DueIn-ahead, 0))
		switch {
		case one.DueIn > ahead:
			p.Then = sooner(p.Then, one.DueIn-ahead)
			continue
		case one.DueIn > 0:
			p.Then = sooner(p.Then, one.DueIn)
		case one.Recurring:
			p.Fires = append(p.Fires, one)
			continue
		}
		made := p.lane(one, seats, limits)
		made.rank = rank(one.Queue, strict, seats)
		p.lanes = append(p.lanes, made)
	}
	p.keepOrder(meters)
	p.rests()
	slices.SortFunc(p.lanes, func(a, b *lane) int {
		return cmp.Or(order(a, b, a.DueIn, b.DueIn), a.Key().Compare(b.Key()))
	})
	return p
}

func sooner(known, in time.Duration) time.Duration {
	if known < 0 || in < known {
		return in
	}
	return known
}

// order compares tasks of two lanes, which are due in so long.
func order(a, b *lane, aIn, bIn time.Duration) int {
	switch {
	case a.near != b.near && b.near:
		return -1
	case a.near != b.near:
		return 1
	case a.rank != b.rank:
		return cmp.Compare(a.rank, b.rank)
	}
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(aIn, bIn))
}

func (p *Plan) ledger() *ledger { return newLedger(p.input.Nodes, p.input.Jobs, p.input.Rates) }

func (p *Plan) lane(one taskdb.Lane, seats []seat, limits []*meter) *lane {
	made, fits := &lane{Lane: one, near: one.DueIn > 0, more: true}, p.fits(one)
	for _, node := range seats {
		fit := node.room() / p.input.Rates.cost(one.Type)
		if made.near {
			fit = min(fit, node.near()*fits)
		}
		made.room += fit
	}
	made.room = min(made.room, made.allowed(limits, fits))
	return made
}

// fits is how many tasks of the lane a job has at most. If its tasks run in order it has one, because the next one must
// not start if that fails.
func (p *Plan) fits(one taskdb.Lane) int {
	if one.InOrder != "" {
		return 1
	}
	return p.input.Rates.fits(one.Type)
}

const (
	// maxSeen is how many tasks the leader looks at before a claim, and one more of each lane.
	maxSeen = 10000
	// maxLanes is how many lanes it looks at. Of the others the plan knows only when their first task is due.
	maxLanes = 5000
)

// Peeks lists the lanes whose tasks the leader must look at before it claims. most is the limit of that claim. The list
// is empty if at most one lane has room.
func (p *Plan) Peeks(most int) (peeks []taskdb.Peek) {
	for _, one := range p.lanes {
		if one.room > 0 && len(peeks) < min(maxLanes, most) {
			peeks = append(peeks, taskdb.Peek{Lane: one.Lane, Near: one.near, Most: min(one.room, most)})
		}
	}
	if len(peeks) < 2 {
		return nil
	}
	for i := range peeks {
		peeks[i].Most = min(peeks[i].Most, maxSeen/len(peeks)+1)
	}
	return peeks
}

// Peeked learns the answer to Peeks.
func (p *Plan) Peeked(peeks []taskdb.Peek, times [][]time.Duration) {
	byKey := map[taskdb.LaneKey]*lane{}
	for _, one := range p.lanes {
		byKey[one.Key()] = one
	}
	for i, peek := range peeks {
		one := byKey[peek.Key()]
		one.times, one.more = times[i], len(times[i]) >= peek.Most
	}
}

// batch is some tasks of a lane. The first one is due in so long.
type batch struct {
	*lane
	in    time.Duration
	tasks int
}

// batches lists the batches of all lanes in their order. If a lane may have tasks that the leader has not seen, one
// more batch stands for all of them, at the time of the last batch that it has seen.
func (p *Plan) batches(most int) (all []batch) {
	for _, one := range p.lanes {
		last, size, turn := one.DueIn, one.size(), max(one.Share, 1)
		for at := 0; at < len(one.times); at += size {
			switch further := at/size - turn; {
			case one.LimitKey == "":
				last = one.times[at]
			case further >= 0 && !one.near: // see Turns
				last = one.rest + 1 + time.Duration(further/max(one.Weight, 1))
			}
			all = append(all, batch{one, last, min(size, len(one.times)-at)})
		}
		if one.more {
			all = append(all, batch{one, last, most})
		}
	}
	slices.SortStableFunc(all, func(a, b batch) int { return order(a.lane, b.lane, a.in, b.in) })
	return all
}

// Grants says how many tasks the leader claims of which lanes, at most so many together. A lane comes at most once.
func (p *Plan) Grants(most int) []taskdb.Grant {
	room, meters := p.ledger(), p.meters()
	p.spread(room)
	p.Full = false
	for _, one := range p.batches(most) {
		if one.closed || one.waits || most == 0 {
			continue
		}
		seats, cost, wanted := room.of(one.Queue, one.Type), p.input.Rates.cost(one.Type), min(one.tasks, most)
		limits := meters.of(one.Key())
		allowed := min(wanted, one.allowed(limits, one.grant.Fits))
		tasks := take(seats, allowed, one.size(), cost, one.near)
		one.spend(limits, tasks)
		one.waits = tasks < wanted
		switch wait := refill(limits); {
		case tasks < allowed && !one.near:
			reserve(seats, cost)
			p.Full = p.Full || one.grant.Tasks+tasks == 0
		case !one.waits || one.near:
		case wait > 0:
			p.Then = sooner(p.Then, wait)
		default:
			p.Full = p.Full || one.grant.Tasks+tasks == 0
		}
		one.grant.Tasks += tasks
		most -= tasks
	}
	p.grants = nil
	for _, one := range p.lanes {
		if one.grant.Jobs > 0 {
			one.grant.Slots = min(one.grant.Slots, one.grant.Jobs)
		}
		if one.grant.Tasks > 0 {
			p.grants = append(p.grants, one.grant)
		}
	}
	return p.grants
}

// LastGrants returns the last answer of Grants.
func (p *Plan) LastGrants() []taskdb.Grant { return p.grants }

// atMost is how many tasks of the lane may be claimed.
func (l *lane) atMost() int {
	if l.more {
		return max(len(l.times), l.room)
	}
	return len(l.times)
}

// size is how many tasks make a batch. Of tasks that are near their time, a batch is a River job.
func (l *lane) size() int {
	if l.near {
		return l.grant.JobSize(l.atMost())
	}
	return l.grant.Fits
}

// spread begins the grant of each lane, and sets over how many River jobs its tasks are spread. Due tasks are spread
// over all slots. Near tasks are spread over half of the jobs that may still wait on their nodes, and each lane has its
// part of these. The other half is left for tasks that come near their time later, unless each task needs a job.
func (p *Plan) spread(room *ledger) {
	near := map[*entry]int{}
	for _, one := range p.lanes {
		for _, node := range room.of(one.Queue, one.Type) {
			if one.near && !one.closed {
				near[node.entry] += one.atMost()
			}
		}
	}
	for _, one := range p.lanes {
		slots, ahead, all := 0, 0, one.atMost()
		for _, node := range room.of(one.Queue, one.Type) {
			slots, ahead, all = slots+node.begins(), ahead+node.near(), max(all, near[node.entry])
		}
		if one.near {
			slots = ahead / 2 * one.atMost() / max(all, 1)
		}
		one.waits, one.grant = false, taskdb.Grant{
			Lane: one.Lane, Near: one.near, Slots: slots, Fits: p.fits(one.Lane),
		}
	}
}

// Claimed learns which tasks a claim by Grants has taken. It reports whether lanes have given fewer tasks than the
// leader has seen there. Then the leader claims by Grants again. Other lanes get the room of a lane that has given too
// few twice.
func (p *Plan) Claimed(taken []taskdb.ClaimedLane) (again bool) {
	got := map[taskdb.LaneKey]int{}
	for _, lane := range taken {
		got[lane.Grant.Key()] += lane.Len()
	}
	for of, tokens := range p.Tokens(taken) {
		p.spent[of] += tokens
	}
	meters := p.meters()
	for _, one := range p.lanes {
		if one.grant.Tasks == 0 {
			continue
		}
		limits := meters.of(one.Key())
		tasks, shown := got[one.Key()], max(len(one.times), 1)
		for left, size := tasks, one.grant.JobSize(tasks); left > 0; left -= size {
			p.input.Jobs = append(p.input.Jobs, Job{
				Queue: one.Queue, Type: one.Type, State: Available, Tasks: min(left, size), Key: one.LimitKey,
			})
		}
		one.times = one.times[min(tasks, len(one.times)):]
		if tasks >= min(one.grant.Tasks, shown) {
			one.closed = tasks < one.grant.Tasks
			continue
		}
		again = true
		switch {
		// A claim cannot take a row that is edited while it runs. The next one can. In order it may also have found
		// that another task goes first, and then the next look learns of that.
		case !one.short && one.InOrder == "":
			one.short = true
		case one.near || p.input.LookAhead <= 0 || len(limits) > 0:
			one.closed = true
		default: // its due tasks cannot be had, but perhaps those that are near their time can
			one.near, one.times, one.more = true, nil, true
		}
	}
	return again
}
