package leader

import (
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// LowWaterMarks keeps the leader's looks at the lanes short. Claimed tasks leave dead entries at the front of their
// lane's index range. Vacuum removes these entries, but it cannot while a session holds an old snapshot. Then a look
// at everything has to step over all of them.
//
// When looks at everything have become slow, the leader looks at each known lane only from its mark on. The mark is
// the time at which the last claimed task was due. Some tasks lie before the mark, because they were scheduled for a
// past time or went back to the queue. They wait, for up to five seconds, for the deep look, which reads everything
// and does not use the session. The deep look lowers the mark to tasks that lie a little before it. Tasks that lie
// further back are lifted to the mark.
//
// A lane that no node has worked so far has no mark. It is not looked at before a look has read it from its beginning,
// because a look at its later part would let less urgent tasks go first.
//
// On a machine on which every look is slow, the marks would save nothing, and less urgent tasks would go first.
// Therefore, as soon as a look from the marks takes more than half as long as a look at everything, the leader looks
// at everything again.
type LowWaterMarks struct {
	worked  []taskdb.WorkedLane
	covered []taskdb.WorkedLane   // those of worked that a look has read from their beginning since they are worked
	known   map[laneKey]time.Time // the marks
	deepAt  time.Time             // no task due before it lies outside the known lanes; zero: no deep look yet
	DeepBy  time.Time             // when the next deep look should have ended
	Quick   bool                  // the leader looks at everything
	slow    int                   // how many looks at everything in a row have been slow
	took    time.Duration         // how long the last look at everything took
	low     []lowLane             // the tasks to be lifted to their marks
	isLow   bool                  // a look has found tasks that are to be lifted
	full    bool                  // the look under way is at everything
	began   time.Time
}

type laneKey struct {
	queue, kind string
	priority    int
}

const (
	// slowLook is how long a look at everything must take to count as slow.
	slowLook = 20 * time.Millisecond
	// maxSlowLooks is how many slow looks in a row are more than a stall of the machine.
	maxSlowLooks = 5
	// tooSlow is how long a look at everything may take before it, or a claim that steps over the same entries several
	// times, comes too near to the session's time limits.
	tooSlow = 100 * time.Millisecond
)

// Work sets the lanes that are worked. It reports whether some of them are new.
func (m *LowWaterMarks) Work(worked []taskdb.WorkedLane) (fresh bool) {
	fresh = !containsAll(m.worked, worked)
	m.worked = worked
	m.cover(nil)
	return fresh
}

// cover notes that a look has read these lanes from their beginning. A lane that is no longer worked is not covered
// when it is worked again, because meanwhile the looks have not read it.
func (m *LowWaterMarks) cover(read []taskdb.WorkedLane) {
	m.covered = slices.DeleteFunc(slices.Clone(m.worked), func(one taskdb.WorkedLane) bool {
		return !slices.Contains(m.covered, one) && !slices.Contains(read, one)
	})
}

// waits reports whether some lanes wait for a deep look.
func (m *LowWaterMarks) waits() bool { return !m.Quick && !containsAll(m.covered, m.worked) }

func containsAll(all, some []taskdb.WorkedLane) bool {
	return !slices.ContainsFunc(some, func(one taskdb.WorkedLane) bool { return !slices.Contains(all, one) })
}

// Queue adds the statements of a look to a batch. read reads their answers. The leader also looks at everything while
// deep looks fail, because nothing else finds the tasks before the marks. Deep looks fail, for example, while the
// engine's pool does not answer.
func (m *LowWaterMarks) Queue(s taskdb.Queries, batch *pgx.Batch) {
	m.began = time.Now()
	m.full = m.Quick || !m.deepAt.IsZero() && m.began.After(m.DeepBy) && m.took < tooSlow
	queues, kinds := taskdb.ColumnsOfWorked(m.worked)
	if m.full {
		batch.Queue(s.Schema.SQL(taskdb.WorkedLanesSQL), nil, queues, kinds)
	} else {
		r := m.ranges()
		batch.Queue(s.Schema.SQL(taskdb.LaneRangesSQL), nil, r.queues, r.kinds, r.lows, r.highs, r.marks)
	}
	batch.Queue(s.Schema.SQL(taskdb.WorkedRecurringLanesSQL), nil, queues, kinds)
	batch.Queue(s.Schema.SQL(taskdb.PausesSQL), nil, nil)
}

// laneRanges has the ranges as one list for each column, because unnest takes them so.
type laneRanges struct {
	queues, kinds []string
	lows, highs   []int
	marks         []time.Time
}

func (r *laneRanges) add(one taskdb.WorkedLane, low, high int, mark time.Time) {
	if low <= high {
		r.queues, r.kinds = append(r.queues, one.Queue), append(r.kinds, one.Kind)
		r.lows, r.highs, r.marks = append(r.lows, low), append(r.highs, high), append(r.marks, mark)
	}
}

// ranges returns each known lane from its mark on. For each queue and type that is covered it also returns the
// priorities between and around the known lanes. It returns nothing before the first deep look.
func (m *LowWaterMarks) ranges() *laneRanges {
	priorities := map[taskdb.WorkedLane][]int{}
	for key := range m.known {
		one := taskdb.WorkedLane{Queue: key.queue, Kind: key.kind}
		priorities[one] = append(priorities[one], key.priority)
	}
	r := &laneRanges{queues: []string{}, kinds: []string{}, lows: []int{}, highs: []int{}, marks: []time.Time{}}
	if m.deepAt.IsZero() {
		return r
	}
	for _, one := range m.covered {
		low := math.MinInt16
		slices.Sort(priorities[one])
		for _, priority := range priorities[one] {
			r.add(one, low, priority-1, m.deepAt)
			r.add(one, priority, priority, m.known[laneKey{one.Queue, one.Kind, priority}])
			low = priority + 1
		}
		r.add(one, low, math.MaxInt16, m.deepAt)
	}
	return r
}

// read reads the answers and learns from them. now is about the database's time.
func (m *LowWaterMarks) read(results pgx.BatchResults, now time.Time) (found taskdb.ListedLanes, err error) {
	tasks, err := pg.CollectNext[taskdb.LaneRow](results, "list lanes")
	switch took := time.Since(m.began); {
	case m.full && (err == nil || pg.IsTimeout(err) && !pg.IsLocked(err)): // a wait for a lock does not count
		m.measure(took)
	// The marks save little, because the machine itself is slow.
	case !m.full && took > m.took/2:
		m.Quick, m.slow = m.took > 0 && m.took < tooSlow, 0
	}
	if err != nil {
		return found, err
	}
	if m.full {
		m.cover(m.worked)
	}
	m.Note(tasks, now)
	m.hide(tasks)
	recurring, err := pg.CollectNext[taskdb.LaneRow](results, "list lanes of recurring tasks")
	if err != nil {
		return found, err
	}
	found.Tasks, found.Recurring = taskdb.LanesOf(tasks, false), taskdb.LanesOf(recurring, true)
	found.Paused, err = pg.CollectNext[taskdb.Pause](results, "read pauses")
	return found, err
}

// measure decides, by the time that a look at everything took, whether the next looks are at everything, too.
func (m *LowWaterMarks) measure(took time.Duration) {
	m.took = took
	if m.slow++; took < slowLook {
		m.slow = 0
	}
	m.Quick = m.slow == 0 || m.Quick && m.slow < maxSlowLooks && took < tooSlow
}

// Note sets the marks of lanes to their heads, unless a head lies too far before its mark.
func (m *LowWaterMarks) Note(rows []taskdb.LaneRow, now time.Time) {
	if m.known == nil {
		m.known = map[laneKey]time.Time{}
	}
	for _, row := range rows {
		mark := row.Head
		if mark.After(now) {
			mark = now // a task may yet be scheduled that is due before the head of the lane
		}
		if !m.liesLow(row) {
			m.known[keyOf(row)] = mark
		}
	}
}

// liesLow reports whether the head of a lane lies too far before its mark.
func (m *LowWaterMarks) liesLow(row taskdb.LaneRow) bool {
	mark, known := m.known[keyOf(row)]
	return known && row.Head.Before(mark.Add(-maxLowered))
}

// hide makes claims begin at the marks of lanes whose heads lie too far before them. A deep look is to list what lies
// there. While a look at everything is quick, there are few dead entries, and claims step over them. Then such tasks
// need not wait for a deep look, which waits for the engine's pool.
func (m *LowWaterMarks) hide(rows []taskdb.LaneRow) {
	if m.took < tooSlow {
		return
	}
	for i, row := range rows {
		if m.liesLow(row) {
			rows[i].Head, m.isLow = m.known[keyOf(row)], true
		}
	}
}

// Deep takes the result of a deep look.
func (m *LowWaterMarks) Deep(found DeepFound) {
	m.cover(found.Worked)
	m.low, m.isLow = found.low, false
	if m.known == nil {
		m.known = map[laneKey]time.Time{}
	}
	for _, lane := range found.low { // those without a mark get one
		if _, known := m.known[lane.key]; !known {
			m.known[lane.key] = lane.until
		}
	}
	m.Note(slices.DeleteFunc(slices.Clone(found.Lanes), func(row taskdb.LaneRow) bool {
		mark, known := m.known[keyOf(row)]
		return known && mark.Before(row.Head)
	}), found.Began)
	first := m.deepAt.IsZero()
	m.deepAt, m.DeepBy = found.Began, time.Now().Add(maxDeepPause+time.Second+2*found.Took)
	if m.measure(found.Took); first { // the first look took longer, because its statements were planned
		m.Quick = found.Took < tooSlow
	}
}

// claimed moves the marks to the claimed tasks, but not past now. A task that is due before one that was claimed
// ahead of its time may still be scheduled.
func (m *LowWaterMarks) claimed(taken []taskdb.ClaimedTask, now time.Time) {
	for _, c := range taken {
		key := laneKey{c.Queue, c.Type, c.Priority}
		if c.Due.After(m.known[key]) && !c.Due.After(now) {
			m.known[key] = c.Due
		}
	}
}
