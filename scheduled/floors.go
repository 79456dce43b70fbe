package scheduled

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// laneFloors keeps the leader's looks at the lanes short. Claimed tasks leave dead entries at the front of their
// lane's index range, which vacuum removes. While somebody holds an old snapshot vacuum cannot, and each look would
// step over all of them.
//
// When looks have become slow by that, the leader looks at each lane only from its floor on: the time at which the
// last claimed task was due. Tasks that come to lie before the floor, because they are scheduled for a past time or
// go back to the queue, are found by the deep look, which reads everything and is not made on the session. It costs
// them some seconds.
type laneFloors struct {
	worked []workedLane
	known  map[laneKey]time.Time // the floors
	deepAt time.Time             // no task that is due before it lies outside the known lanes
	blind  bool                  // the look at everything has failed, and no deep look has been made since
	fresh  time.Time             // until when the last deep look counts; zero: there was none
	spares bool                  // looks begin at the floors, because that is quicker by far
	full   bool                  // the look under way is at everything
	again  bool                  // the last look found a lane that was not known: there may be more beside it
	began  time.Time
	took   []time.Duration // the last looks at everything
	tried  time.Time       // when it was last tried whether the floors help
}

type laneKey struct {
	queue, kind string
	priority    int
}

const (
	// slowLook is from when on a look at everything is slow.
	slowLook = 5 * time.Millisecond
	// slowLooks is how many such looks in a row are not just a stall of the machine.
	slowLooks = 5
	// tooSlow is when a look at everything comes too near to the session's time limits.
	tooSlow = 500 * time.Millisecond
	// staleAfter is how much later than expected a deep look may end before the leader does without it.
	staleAfter = time.Second
	// floorTry is how often it is tried whether the floors help, by a look that claims nothing.
	floorTry = 10 * time.Second
)

// work tells the floors which lanes are worked. It reports whether some of them are new.
func (f *laneFloors) work(worked []workedLane) (fresh bool) {
	fresh = slices.ContainsFunc(worked, func(one workedLane) bool { return !slices.Contains(f.worked, one) })
	f.worked = worked
	return fresh
}

// queue adds the statements whose answers read reads to a batch. peek says that nothing is claimed by what it finds.
func (f *laneFloors) queue(s statements, batch *pgx.Batch, peek bool) {
	f.began = time.Now()
	try := peek && !f.spares && len(f.known) > 0 && f.least() >= slowLook && f.began.Sub(f.tried) >= floorTry
	f.full = !f.spares && !try || f.stale(f.began)
	queues, kinds := columnsOfWorked(f.worked)
	if f.full {
		batch.Queue(s.schema.SQL(workedLanesSQL), nil, queues, kinds)
	} else {
		r := f.ranges()
		batch.Queue(s.schema.SQL(laneRangesSQL), nil, r.queues, r.kinds, r.lows, r.highs, r.floors)
	}
	batch.Queue(s.schema.SQL(workedRecurringLanesSQL), nil, queues, kinds)
	batch.Queue(s.schema.SQL(pausesSQL), nil, nil)
}

// laneRanges are ranges turned on their side, as unnest takes them.
type laneRanges struct {
	queues, kinds []string
	lows, highs   []int
	floors        []time.Time
}

func (r *laneRanges) add(one workedLane, low, high int, floor time.Time) {
	if low <= high {
		r.queues, r.kinds = append(r.queues, one.queue), append(r.kinds, one.kind)
		r.lows, r.highs, r.floors = append(r.lows, low), append(r.highs, high), append(r.floors, floor)
	}
}

// ranges are each known lane from its floor on, and what lies between and around those of the same queue and type.
func (f *laneFloors) ranges() *laneRanges {
	priorities := map[workedLane][]int{}
	for key := range f.known {
		one := workedLane{key.queue, key.kind}
		priorities[one] = append(priorities[one], key.priority)
	}
	r := &laneRanges{queues: []string{}, kinds: []string{}, lows: []int{}, highs: []int{}, floors: []time.Time{}}
	if f.blind {
		return r
	}
	for _, one := range f.worked {
		low := math.MinInt16
		slices.Sort(priorities[one])
		for _, priority := range priorities[one] {
			r.add(one, low, priority-1, f.deepAt)
			r.add(one, priority, priority, f.known[laneKey{one.queue, one.kind, priority}])
			low = priority + 1
		}
		r.add(one, low, math.MaxInt16, f.deepAt)
	}
	return r
}

// read reads the answers, and learns from them. now is about the database's time.
func (f *laneFloors) read(results pgx.BatchResults, now time.Time) (found listedLanes, err error) {
	tasks, err := readLaneRows(results)
	if err != nil {
		f.failed(err)
		return found, err
	}
	f.learn(tasks, now, time.Since(f.began))
	recurring, err := readLaneRows(results)
	if err != nil {
		return found, err
	}
	found.tasks, found.recurring = lanesOf(tasks, false), lanesOf(recurring, true)
	rows, err := results.Query()
	if err != nil {
		return found, fmt.Errorf("read pauses: %w", err)
	}
	found.paused, err = pgx.CollectRows(rows, pgx.RowToStructByName[pause])
	return found, wrap(err, "read pauses")
}

// failed gives up looks at everything if they take too long: the next one on the session would, too.
func (f *laneFloors) failed(err error) {
	if isTimeout(err) && f.full {
		f.spares, f.blind = true, true
	}
}

// learn takes what a look has found, and how long it took.
func (f *laneFloors) learn(rows []laneRow, now time.Time, took time.Duration) {
	if f.full {
		f.took = append(f.took[max(len(f.took)-slowLooks+1, 0):], took)
	} else if !f.spares {
		f.spares, f.tried = took <= f.least()/2, time.Now()
	}
	f.again = f.note(rows, now) && !f.full
}

// note sets the floors of lanes to their heads. It reports whether one of them was not known.
func (f *laneFloors) note(rows []laneRow, now time.Time) (fresh bool) {
	if f.known == nil {
		f.known = map[laneKey]time.Time{}
	}
	for _, row := range rows {
		key := laneKey{row.Queue, row.Type, row.Priority}
		_, known := f.known[key]
		fresh = fresh || !known
		f.known[key] = row.Head
		if row.Head.After(now) {
			f.known[key] = now // the task that is scheduled next may be due before the first of now
		}
	}
	return fresh
}

// deep takes what a deep look has found that began at a time of the database's, and how long it took to read the
// lanes.
func (f *laneFloors) deep(rows []laneRow, began time.Time, took time.Duration) {
	for _, row := range rows {
		key := laneKey{row.Queue, row.Type, row.Priority}
		if floor, known := f.known[key]; known && floor.Before(row.Head) {
			continue
		}
		f.note([]laneRow{row}, began)
	}
	f.deepAt, f.blind = began, false
	f.fresh = time.Now().Add(deepSlow + staleAfter + 2*took)
	switch {
	case took < slowLook:
		f.spares, f.took = false, nil
	case took > tooSlow:
		f.spares = true
	}
}

// stale says that the deep looks have failed for a while, as they do while the engine's pool has no answers. The tasks before the
// floors wait for a deep look, so the leader looks at everything on the session instead, unless such a look takes too long.
func (f *laneFloors) stale(now time.Time) bool {
	return f.spares && !f.blind && !f.fresh.IsZero() && now.After(f.fresh) && f.least() < tooSlow
}

// least is what the quickest of the last looks at everything took; 0 while they were few.
func (f *laneFloors) least() time.Duration {
	if len(f.took) < slowLooks {
		return 0
	}
	return slices.Min(f.took)
}

// claimed moves the floors behind what was claimed, but not past the present: tasks may yet come that are due before
// those claimed ahead of their time.
func (f *laneFloors) claimed(taken []claimed, now time.Time) {
	for _, c := range taken {
		key := laneKey{c.Queue, c.Type, c.Priority}
		if c.Due.After(f.known[key]) && !c.Due.After(now) {
			f.known[key] = c.Due
		}
	}
}
