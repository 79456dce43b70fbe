package leader

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Marks says from where on the leader looks at each lane. Claimed tasks leave dead entries at the front of their
// lane's index range. Vacuum removes these entries, but it cannot while a session holds an old snapshot. Nothing
// becomes claimable in the past. So what lies before the mark of a lane need not be looked at again, with one
// exception: a transaction may commit a task later than it wrote it. Therefore a look begins before the mark, at the
// start of the oldest transaction that still writes, unless too many tasks were claimed since. The walk finds what
// lies before that.
//
// The recurring tasks of a queue and type are one lane, with priority 0.
type Marks struct {
	recurring bool
	lanes     map[taskdb.WorkedLane]map[int]*mark // by priority; also of lanes that no node works any more
	// covered is until when the lanes without a mark were looked at, because they have none of their tasks. Zero means
	// that no look at all worked lanes was made.
	covered time.Time
	worked  []taskdb.WorkedLane // in order
	queues  []int               // the places in worked at which a queue begins
	// owed has those of worked of which the part before covered was not looked at, and from where on that is to be
	// done. Until then their lanes are left alone. Otherwise a less urgent task could go first.
	owed map[taskdb.WorkedLane]time.Time
	left map[taskdb.WorkedLane]time.Time // those that are no longer worked, and until when they were covered
	// others has the places in worked before which there are lanes that no node works.
	others map[int]bool
}

// mark is the mark of a lane.
type mark struct {
	at     time.Time
	passed []passed // behind the mark, in their order; together they have at most maxBehind tasks
}

// passed is a part of a lane behind its mark.
type passed struct {
	from    time.Time
	claimed int
}

const (
	// maxBehind is how many claimed tasks a look steps over at most, and minPassed is how many a part has at least, but
	// for the last one.
	maxBehind, minPassed = 10000, 1000
	// maxFound is how many lanes without a mark a look lists.
	maxFound = 1000
)

// beginning is before all tasks.
var beginning = time.Unix(0, 0)

// from is where a look begins: at the mark, or earlier if a transaction that began earlier may still commit. All
// transactions that began before settled have ended.
func (m *mark) from(settled time.Time) time.Time {
	from, claimed := m.at, 0
	for _, part := range slices.Backward(m.passed) {
		if claimed += part.claimed; claimed > maxBehind || !from.After(settled) {
			break
		}
		from = part.from
	}
	return earlier(m.at, later(from, settled))
}

// move moves the mark after so many tasks were claimed.
func (m *mark) move(to time.Time, claimed int) {
	if to.Before(m.at) { // a task whose transaction committed late
		m.passed = slices.DeleteFunc(m.passed, func(part passed) bool { return !part.from.Before(to) })
		m.at = to
		return
	}
	if last := len(m.passed) - 1; last >= 0 && m.passed[last].claimed+claimed <= minPassed {
		m.passed[last].claimed += claimed
	} else if to.After(m.at) || claimed > 0 {
		m.passed = append(m.passed, passed{m.at, claimed})
	}
	if len(m.passed) > 2*maxBehind/minPassed {
		m.passed = slices.Delete(m.passed, 0, 1)
	}
	m.at = to
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// newMarks makes marks that know nothing.
func newMarks(recurring bool) Marks {
	return Marks{
		recurring: recurring, lanes: map[taskdb.WorkedLane]map[int]*mark{}, others: map[int]bool{},
		owed: map[taskdb.WorkedLane]time.Time{}, left: map[taskdb.WorkedLane]time.Time{},
	}
}

// work sets what is worked, in order.
func (m *Marks) work(worked []taskdb.WorkedLane) {
	former := m.worked
	m.worked, m.queues, m.others = worked, nil, map[int]bool{}
	for i, pair := range worked {
		if i == 0 || pair.Queue != worked[i-1].Queue {
			m.queues = append(m.queues, i)
		}
	}
	for _, pair := range former {
		if _, works := m.place(pair); works {
			continue
		}
		since, owes := m.owed[pair]
		if !owes {
			since = m.covered
		}
		m.left[pair] = since
		delete(m.owed, pair)
	}
	for _, pair := range worked {
		if _, worked := slices.BinarySearchFunc(former, pair, taskdb.WorkedLane.Compare); worked {
			continue
		}
		m.owed[pair] = beginning
		if since, known := m.left[pair]; known {
			m.owed[pair] = since
			delete(m.left, pair)
		}
	}
}

// reach says what the next look reads: the known lanes, and the parts of what is worked that have none. Pairs without
// tasks that follow each other in a queue are one part, so that they cost nothing. If owed is true, it says what a look
// at that reads which is owed.
func (m *Marks) reach(settled time.Time, owed bool) (reach taskdb.Reach) {
	covered := later(earlier(m.covered, settled), beginning)
	stops := m.stops()
	for n, i := range stops {
		end := len(m.worked)
		if n+1 < len(stops) {
			end = stops[n+1]
		}
		pair, last := m.worked[i], m.worked[end-1]
		low := taskdb.LaneFrom{Queue: pair.Queue, Type: pair.Kind, Priority: math.MinInt32, Since: covered}
		since, owes := m.owed[pair]
		if owes {
			low.Since = since
		}
		if owes != owed {
			continue
		}
		known := slices.Sorted(maps.Keys(m.lanes[pair]))
		if len(known) == 0 {
			reach.Gaps = append(reach.Gaps, taskdb.Gap{LaneFrom: low, Last: last.Kind})
			continue
		}
		for _, priority := range known {
			if !owes {
				one := low
				one.Priority, one.Since = priority, m.lanes[pair][priority].from(settled)
				reach.Known = append(reach.Known, one)
			}
			if !m.recurring && low.Priority < priority {
				reach.Around = append(reach.Around, taskdb.Around{LaneFrom: low, Last: priority - 1})
			}
			low.Priority = priority + 1
		}
		if !m.recurring && low.Priority <= math.MaxInt32 {
			reach.Around = append(reach.Around, taskdb.Around{LaneFrom: low, Last: math.MaxInt32})
		}
		if end > i+1 {
			next := low
			next.Type, next.Priority = m.worked[i+1].Kind, math.MinInt32
			reach.Gaps = append(reach.Gaps, taskdb.Gap{LaneFrom: next, Last: last.Kind})
		}
	}
	return reach
}

// stops lists the places in worked at which a part begins.
func (m *Marks) stops() []int {
	stops := slices.Clone(m.queues)
	for place := range m.others {
		if place < len(m.worked) {
			stops = append(stops, place)
		}
	}
	for pair := range m.lanes {
		if place, works := m.place(pair); works {
			stops = append(stops, place)
		}
	}
	if len(m.owed) > 0 {
		for i := 1; i < len(m.worked); i++ {
			since, owes := m.owed[m.worked[i]]
			former, owed := m.owed[m.worked[i-1]]
			if owes != owed || !since.Equal(former) {
				stops = append(stops, i)
			}
		}
	}
	slices.Sort(stops)
	return slices.Compact(stops)
}

// reads reports whether the looks read the lanes of a pair: it is worked, and is not owed a look.
func (m *Marks) reads(pair taskdb.WorkedLane) bool {
	_, works := m.place(pair)
	_, owes := m.owed[pair]
	return works && !owes
}

// place returns where a pair is in worked, or would be.
func (m *Marks) place(pair taskdb.WorkedLane) (place int, works bool) {
	return slices.BinarySearchFunc(m.worked, pair, taskdb.WorkedLane.Compare)
}

// learn takes the lanes that a look has listed. It returns those that are worked, and whether there may be more. now is
// when the look began.
func (m *Marks) learn(rows []taskdb.LaneRow, now time.Time) (worked []taskdb.LaneRow, more bool) {
	found := 0
	for _, row := range rows {
		pair := taskdb.WorkedLane{Queue: row.Queue, Kind: row.Type}
		place, works := m.place(pair)
		one := m.lanes[pair][row.Priority]
		if one == nil {
			found++
		}
		switch {
		case !works:
			m.others[place] = true
			continue
		case one == nil:
			m.add(pair, row.Priority, earlier(row.Head, now))
		default:
			one.move(earlier(row.Head, now), 0)
		}
		worked = append(worked, row)
	}
	return worked, found >= maxFound
}

// looked takes the answer of a look at the known lanes and the gaps.
func (m *Marks) looked(rows []taskdb.LaneRow, now time.Time) (lanes []taskdb.Lane, more bool) {
	worked, more := m.learn(rows, now)
	listed := map[laneKey]bool{}
	for _, row := range worked {
		listed[laneKey{row.Queue, row.Type, row.Priority}] = true
	}
	for pair, marks := range m.lanes {
		for priority, one := range marks {
			if m.reads(pair) && !listed[laneKey{pair.Queue, pair.Kind, priority}] {
				one.move(now, 0) // the lane has no tasks
			}
		}
	}
	if !more && !m.covered.IsZero() {
		m.covered = now
	}
	return taskdb.LanesOf(worked, m.recurring), more
}

// surveyed takes the answer of a look at what these pairs are owed.
func (m *Marks) surveyed(rows []taskdb.LaneRow, now time.Time, owed map[taskdb.WorkedLane]time.Time) {
	if _, more := m.learn(rows, now); more {
		return
	}
	for pair, since := range owed {
		if still, owes := m.owed[pair]; owes && still.Equal(since) {
			delete(m.owed, pair)
		}
	}
	if m.covered.IsZero() || now.Before(m.covered) {
		m.covered = now
	}
}

type laneKey struct {
	queue, kind string
	priority    int
}

// claimed moves the mark of a lane to the last of some claimed tasks, but not past now. A task that is due before one
// that was claimed ahead of its time may still be scheduled.
func (m *Marks) claimed(taken []taskdb.ClaimedTask, now time.Time) {
	last, tasks := map[*mark]time.Time{}, map[*mark]int{}
	for _, c := range taken {
		if one := m.lanes[taskdb.WorkedLane{Queue: c.Queue, Kind: c.Type}][c.Priority]; one != nil {
			last[one], tasks[one] = later(last[one], earlier(c.Due, now)), tasks[one]+1
		}
	}
	for one, until := range last {
		one.move(later(one.at, until), tasks[one])
	}
}

func (m *Marks) add(pair taskdb.WorkedLane, priority int, at time.Time) {
	if m.lanes[pair] == nil {
		m.lanes[pair] = map[int]*mark{}
	}
	m.lanes[pair][priority] = &mark{at: at}
}
