package scheduled

import (
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// lowWaterMarks keeps the leader's looks at the lanes short. Claimed tasks leave dead entries at the front of their
// lane's index range, which vacuum removes. While a session holds an old snapshot vacuum cannot, and a look at
// everything steps over all of them.
//
// When looks at everything have become slow, the leader looks at each known lane from its mark on. The mark is the time
// at which the last claimed task was due. Tasks that come to lie before it, because they are scheduled for a past time
// or go back to the queue, wait for the deep look, which reads everything and is not made on the session. They wait for
// up to five seconds. On a machine on which each look is slow the marks would spare nothing, and less urgent tasks would
// go first. So as soon as a look from the marks takes half as long, looks are at everything again.
type lowWaterMarks struct {
	worked []workedLane
	known  map[laneKey]time.Time // the marks
	deepAt time.Time             // no task that is due before it lies outside the known lanes; zero: no deep look yet
	deepBy time.Time             // when the next deep look should have ended
	quick  bool                  // looks are at everything
	slow   int                   // how many looks at everything have been slow, since the last one that was not
	took   time.Duration         // the last look at everything
	full   bool                  // the look under way is at everything
	began  time.Time
}

type laneKey struct {
	queue, kind string
	priority    int
}

const (
	// slowLook is from when on a look at everything is slow.
	slowLook = 20 * time.Millisecond
	// maxSlowLooks in a row are not just a stall of the machine.
	maxSlowLooks = 5
	// tooSlow is when a look at everything comes too near to the session's time limits.
	tooSlow = 500 * time.Millisecond
)

// work tells which lanes are worked. It reports whether some of them are new.
func (m *lowWaterMarks) work(worked []workedLane) (fresh bool) {
	fresh = slices.ContainsFunc(worked, func(one workedLane) bool { return !slices.Contains(m.worked, one) })
	m.worked = worked
	return fresh
}

// queue adds the statements whose answers read reads to a batch. The look is at everything also where deep looks fail,
// as they do while the engine's pool has no answers, because nothing else finds the tasks before the marks.
func (m *lowWaterMarks) queue(s statements, batch *pgx.Batch) {
	m.began = time.Now()
	m.full = m.quick || !m.deepAt.IsZero() && m.began.After(m.deepBy) && m.took < tooSlow
	queues, kinds := columnsOfWorked(m.worked)
	if m.full {
		batch.Queue(s.schema.SQL(workedLanesSQL), nil, queues, kinds)
	} else {
		r := m.ranges()
		batch.Queue(s.schema.SQL(laneRangesSQL), nil, r.queues, r.kinds, r.lows, r.highs, r.marks)
	}
	batch.Queue(s.schema.SQL(workedRecurringLanesSQL), nil, queues, kinds)
	batch.Queue(s.schema.SQL(pausesSQL), nil, nil)
}

// laneRanges are ranges turned on their side, as unnest takes them.
type laneRanges struct {
	queues, kinds []string
	lows, highs   []int
	marks         []time.Time
}

func (r *laneRanges) add(one workedLane, low, high int, mark time.Time) {
	if low <= high {
		r.queues, r.kinds = append(r.queues, one.queue), append(r.kinds, one.kind)
		r.lows, r.highs, r.marks = append(r.lows, low), append(r.highs, high), append(r.marks, mark)
	}
}

// ranges are each known lane from its mark on, and the priorities between and around those of the same queue and type.
// Before the first deep look there are none.
func (m *lowWaterMarks) ranges() *laneRanges {
	priorities := map[workedLane][]int{}
	for key := range m.known {
		one := workedLane{key.queue, key.kind}
		priorities[one] = append(priorities[one], key.priority)
	}
	r := &laneRanges{queues: []string{}, kinds: []string{}, lows: []int{}, highs: []int{}, marks: []time.Time{}}
	if m.deepAt.IsZero() {
		return r
	}
	for _, one := range m.worked {
		low := math.MinInt16
		slices.Sort(priorities[one])
		for _, priority := range priorities[one] {
			r.add(one, low, priority-1, m.deepAt)
			r.add(one, priority, priority, m.known[laneKey{one.queue, one.kind, priority}])
			low = priority + 1
		}
		r.add(one, low, math.MaxInt16, m.deepAt)
	}
	return r
}

// read reads the answers, and learns from them. now is about the database's time.
func (m *lowWaterMarks) read(results pgx.BatchResults, now time.Time) (found listedLanes, err error) {
	tasks, err := collectNext[laneRow](results, "list lanes")
	switch took := time.Since(m.began); {
	case m.full && (err == nil || isTimeout(err) && !isLocked(err)): // a wait for a lock does not count
		m.measure(took)
	case !m.full && took > m.took/2: // the marks spare little, because it is the machine that is slow
		m.quick, m.slow = m.took > 0 && m.took < tooSlow, 0
	}
	if err != nil {
		return found, err
	}
	m.note(tasks, now)
	recurring, err := collectNext[laneRow](results, "list lanes of recurring tasks")
	if err != nil {
		return found, err
	}
	found.tasks, found.recurring = lanesOf(tasks, false), lanesOf(recurring, true)
	found.paused, err = collectNext[pause](results, "read pauses")
	return found, err
}

// measure decides by how long a look at everything took whether the next ones are, too.
func (m *lowWaterMarks) measure(took time.Duration) {
	m.took = took
	if m.slow++; took < slowLook {
		m.slow = 0
	}
	m.quick = m.slow == 0 || m.quick && m.slow < maxSlowLooks && took < tooSlow
}

// note sets the marks of lanes to their heads.
func (m *lowWaterMarks) note(rows []laneRow, now time.Time) {
	if m.known == nil {
		m.known = map[laneKey]time.Time{}
	}
	for _, row := range rows {
		mark := row.Head
		if mark.After(now) {
			mark = now // the task that is scheduled next may be due before the first of now
		}
		m.known[laneKey{row.Queue, row.Type, row.Priority}] = mark
	}
}

// deep takes the lanes that a deep look has read, which began at a time of the database's, and how long that took.
func (m *lowWaterMarks) deep(rows []laneRow, began time.Time, took time.Duration) {
	m.note(slices.DeleteFunc(slices.Clone(rows), func(row laneRow) bool {
		mark, known := m.known[laneKey{row.Queue, row.Type, row.Priority}]
		return known && mark.Before(row.Head)
	}), began)
	first := m.deepAt.IsZero()
	m.deepAt, m.deepBy = began, time.Now().Add(maxDeepPause+time.Second+2*took)
	if m.measure(took); first { // its statements were planned, which takes time
		m.quick = took < tooSlow
	}
}

// claimed moves the marks behind the claimed tasks, but not past the present: tasks may yet come that are due before
// those claimed ahead of their time.
func (m *lowWaterMarks) claimed(taken []claimed, now time.Time) {
	for _, c := range taken {
		key := laneKey{c.Queue, c.Type, c.Priority}
		if c.Due.After(m.known[key]) && !c.Due.After(now) {
			m.known[key] = c.Due
		}
	}
}
