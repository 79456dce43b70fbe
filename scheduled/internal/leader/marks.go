package leader

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// knownLanes is what the leader knows of the lanes, with a mark for each.
//
// Claimed tasks leave dead entries at the front of their lane's index range. Vacuum removes these entries, but it
// cannot while a session holds an old snapshot. Nothing becomes claimable in the past. So a look at a lane begins a
// little before the mark, and steps over few dead entries. Between the lanes it looks for new ones. It steps over no
// dead entries of claims there, because each lane that was claimed from is known.
type knownLanes struct {
	tasks, recurring laneMarks
	keys             laneKeys
	buckets          buckets
	nodes            []taskdb.LiveNode // those that work the lanes
	// narrow says that a look took too long. Until the walk has listed the lanes, looks read the known ones alone.
	narrow bool
}

func newLanes() knownLanes {
	return knownLanes{recurring: laneMarks{recurring: true}, keys: newLaneKeys()}
}

// laneMarks is what the leader knows of the lanes of plain tasks, or of recurring tasks.
type laneMarks struct {
	recurring bool
	lanes     []*markedLane    // those that some look has found, in order, also if no node works them
	worked    []taskdb.LaneKey // the queues and types that some node works, in order
	probed    []*markedLane    // those of lanes that are worked
	gaps      []taskdb.Gap     // the parts between lanes in which worked ones may lie
}

type markedLane struct {
	taskdb.LaneKey
	mark
	keyed bool // a limit counts each group or tenant by itself, so no look reads the lane as a whole, see keys.go
}

// mark is the mark of a lane.
type mark struct {
	at time.Time // from when on the last claimed task could be claimed; before the first claim, the first one
	// A look goes back to far at most. From far to half, and from half to at, some thousand tasks were claimed.
	far, half time.Time
	claimed   int // since half
}

const (
	// lateCommit is how far before the mark a look begins. So it sees the tasks of transactions that were open for ten
	// seconds. The trigger keeps the time of a task that became due just before it was written.
	lateCommit = 11 * time.Second
	// maxBehind is how many tasks are claimed until half and far move.
	maxBehind = 5000
	// maxFound is how many new lanes a look lists.
	maxFound = 5000
)

// always is after the times of all tasks.
var always = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// from is where a look begins.
func (m *mark) from() time.Time { return later(m.at.Add(-lateCommit), m.far) }

// move moves the mark after so many tasks were claimed.
func (m *mark) move(to time.Time, claimed int) {
	if m.claimed >= maxBehind {
		m.far, m.half, m.claimed = m.half, m.at, 0
	}
	m.at, m.claimed = later(m.at, to), m.claimed+claimed
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
func later(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// find returns the place of a lane in lanes, or where it would be.
func (m *laneMarks) find(key taskdb.LaneKey) (place int, known bool) {
	return slices.BinarySearchFunc(m.lanes, key, func(one *markedLane, key taskdb.LaneKey) int {
		return one.Compare(key)
	})
}

// add adds lanes that were not known.
func (m *laneMarks) add(fresh []*markedLane) {
	if len(fresh) > 0 {
		m.lanes = append(m.lanes, fresh...)
		slices.SortFunc(m.lanes, func(a, b *markedLane) int { return a.Compare(b.LaneKey) })
		m.arrange()
	}
}

// arrange sets the parts that a look reads. In each worked queue these are the known lanes that some node works, and
// the gaps before, between and after known lanes, if a worked type may be there.
func (m *laneMarks) arrange() {
	m.probed, m.gaps = nil, nil
	next := 0 // in lanes
	for first := 0; first < len(m.worked); {
		queue, types := m.worked[first].Queue, []string(nil)
		for ; first < len(m.worked) && m.worked[first].Queue == queue; first++ {
			types = append(types, m.worked[first].Type)
		}
		low := taskdb.LaneKey{Queue: queue, Priority: math.MinInt32}
		for ; next < len(m.lanes) && m.lanes[next].Queue <= queue; next++ {
			lane := m.lanes[next]
			if lane.Queue < queue {
				continue
			}
			if lane.Type != low.Type {
				m.gap(types, low, taskdb.LaneKey{Queue: queue, Type: lane.Type})
				low = taskdb.LaneKey{Queue: queue, Type: lane.Type, Priority: math.MinInt32}
			}
			if _, works := slices.BinarySearch(types, lane.Type); works {
				if !lane.keyed {
					m.probed = append(m.probed, lane)
				}
				m.gap(types, low, lane.LaneKey)
			}
			low = lane.LaneKey
		}
		m.gap(types, low, taskdb.LaneKey{Queue: queue, Type: taskdb.PastTypes})
	}
}

// gap adds the lanes of a queue between two others, unless there cannot be any of these types.
func (m *laneMarks) gap(types []string, low, high taskdb.LaneKey) {
	if low.Type == high.Type {
		if m.recurring || high.Priority <= low.Priority+1 {
			return
		}
	} else {
		first, known := slices.BinarySearch(types, low.Type)
		if known && m.recurring {
			first++
		}
		if first == len(types) || types[first] >= high.Type {
			return
		}
	}
	m.gaps = append(m.gaps, taskdb.Gap{Low: low, High: high})
}

// queueLook adds the statement of a look to a batch. If the database's clock was set back, it takes the marks back.
func (m *laneMarks) queueLook(s taskdb.Queries, batch *pgx.Batch, now, until time.Time, narrow bool) {
	known, gaps := make([]taskdb.LaneAt, len(m.probed)), m.gaps
	for i, one := range m.probed {
		if one.at.After(now.Add(time.Second)) {
			one.mark = mark{at: now}
		}
		known[i] = taskdb.LaneAt{LaneKey: one.LaneKey, At: one.from()}
	}
	if narrow {
		gaps = nil
	}
	s.QueueLook(batch, m.recurring, known, gaps, maxFound, until)
}

// learn takes the rows of a look. more says that there may be lanes that it has not listed.
func (m *laneMarks) learn(rows []taskdb.Lane, now time.Time) (more bool) {
	var fresh []*markedLane
	for _, row := range rows {
		key := taskdb.LaneKey{Queue: row.Queue, Type: row.Type, Priority: row.Priority}
		if _, known := m.find(key); !known {
			fresh = append(fresh, &markedLane{LaneKey: key, mark: mark{at: earlier(row.Head, now)}})
		}
	}
	m.add(fresh)
	return len(fresh) >= maxFound
}

// claimed moves the marks to the last of some claimed tasks, but not past now. A task that is due before one that was
// claimed ahead of its time may still be scheduled.
func (m *laneMarks) claimed(taken []taskdb.ClaimedLane, now time.Time) {
	for _, lane := range taken {
		if place, known := m.find(lane.Grant.Key()); known {
			m.lanes[place].move(earlier(lane.Last, now), lane.Len())
		}
	}
}

// work sets which nodes work lanes. It reports whether other lanes are worked than before.
func (l *knownLanes) work(nodes []taskdb.LiveNode) (changed bool) {
	if slices.EqualFunc(l.nodes, nodes, func(a, b taskdb.LiveNode) bool {
		return a.Number == b.Number && maps.Equal(a.Queues, b.Queues) && slices.Equal(a.Types, b.Types)
	}) {
		return false
	}
	l.nodes = nodes
	worked := taskdb.WorkedBy(nodes)
	if slices.Equal(worked, l.tasks.worked) {
		return false
	}
	for _, m := range []*laneMarks{&l.tasks, &l.recurring} {
		m.worked = worked
		m.arrange()
	}
	return true
}

// queue adds the statements of a look to a batch. now is about the database's time. Of the known lanes, the look lists
// those that have a task until the given time. read reads the answers.
func (l *knownLanes) queue(s taskdb.Queries, batch *pgx.Batch, now, until time.Time) {
	for _, m := range []*laneMarks{&l.tasks, &l.recurring} {
		m.queueLook(s, batch, now, until, l.narrow)
	}
	batch.Queue(s.Schema.SQL(taskdb.PausesSQL), nil, nil)
	batch.Queue(s.Schema.SQL(taskdb.LimitsSQL), nil)
	l.keys.queue(s, batch, now)
}

// read reads the answers. more says that there may be lanes that the look has not listed.
func (l *knownLanes) read(results pgx.BatchResults, now time.Time) (found taskdb.ListedLanes, more bool, err error) {
	tasks, err := pg.CollectNext[taskdb.Lane](results, "list lanes")
	if err != nil {
		return found, false, err
	}
	recurring, err := pg.CollectNext[taskdb.Lane](results, "list lanes of recurring tasks")
	if err != nil {
		return found, false, err
	}
	more = l.learn(tasks, recurring, now)
	found.Tasks, found.Recurring = l.worked(tasks), l.worked(recurring)
	if found.Paused, err = pg.CollectNext[taskdb.Pause](results, "read pauses"); err != nil {
		return found, more, err
	}
	if found.Limits, err = pg.CollectNext[taskdb.Limit](results, "read limits"); err != nil {
		return found, more, err
	}
	return found, more, l.keys.read(results, now)
}

// expand replaces the lanes in which a limit counts each group or tenant by itself with those of the groups or tenants
// whose turn it is. changed says that there is or was another such limit, so that the next look reads other lanes.
func (l *knownLanes) expand(found *taskdb.ListedLanes, jobs []plan.Job, now time.Time) (changed bool) {
	for lane, one := range l.keys.lanes {
		if taskdb.PrefixOf(found.Limits, lane.Queue, lane.Type) != one.prefix {
			l.markKeyed(lane, one, now)
			delete(l.keys.lanes, lane)
			changed = l.tasks.setKeyed(lane, false) || changed
		}
	}
	found.Tasks = slices.DeleteFunc(found.Tasks, func(lane taskdb.Lane) bool {
		prefix := taskdb.PrefixOf(found.Limits, lane.Queue, lane.Type)
		if prefix == "" {
			return false
		}
		if l.keys.lanes[lane.Key()] == nil && l.tasks.setKeyed(lane.Key(), true) {
			l.keys.lanes[lane.Key()] = &keyedLane{
				prefix: prefix, read: before(now.Add(-lateCommit)), keys: map[string]*laneKey{},
			}
			changed = true
		}
		return true
	})
	found.Tasks = append(found.Tasks, l.worked(l.keys.turns(found.Limits, jobs, l.buckets.full, now))...)
	return changed
}

// markKeyed moves the mark of a keyed lane to the first task that is known. A claim does not move it.
func (l *knownLanes) markKeyed(lane taskdb.LaneKey, one *keyedLane, now time.Time) {
	if at, known := l.tasks.find(lane); known {
		l.tasks.lanes[at].mark = mark{at: one.first(now)}
	}
}

// setKeyed sets whether a known lane is keyed.
func (m *laneMarks) setKeyed(lane taskdb.LaneKey, keyed bool) (changed bool) {
	at, known := m.find(lane)
	if !known || m.lanes[at].keyed == keyed {
		return false
	}
	m.lanes[at].keyed = keyed
	m.arrange()
	return true
}

func (l *knownLanes) learn(tasks, recurring []taskdb.Lane, now time.Time) (more bool) {
	more = l.tasks.learn(tasks, now)
	return l.recurring.learn(recurring, now) || more
}

// worked leaves out the lanes that no node works.
func (l *knownLanes) worked(lanes []taskdb.Lane) []taskdb.Lane {
	return slices.DeleteFunc(lanes, func(one taskdb.Lane) bool {
		pair := taskdb.LaneKey{Queue: one.Queue, Type: one.Type}
		_, works := slices.BinarySearchFunc(l.tasks.worked, pair, taskdb.LaneKey.Compare)
		return !works
	})
}
