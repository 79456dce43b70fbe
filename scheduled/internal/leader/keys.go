package leader

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// laneKeys has the keys that may have due tasks. A key stands for a group or a tenant. Lanes have keys if a limit
// counts each group or tenant by itself. There may be very many keys, and most of their tasks may wait for the limit.
// So no look goes through all of them. A look reads the tasks that have become due since the last look, and learns
// their keys. It also reads the first task of each key of which the leader has just tried to claim tasks. The walk
// finds the keys that were there before, and the keys that a look has missed. A key may be outdated, because only a
// claim locks tasks.
type laneKeys struct {
	lanes  map[taskdb.LaneKey]*keyedLane
	asked  []taskdb.KeysFrom // the lanes that the look under way reads
	part   int               // how many tasks of each it reads at most
	probed []taskdb.HeadOf   // the lanes of keys whose first task it reads
	looked time.Time         // when the keys that are held up were last among these
	lost   []taskdb.LaneKey  // the lanes of keys whose first task is not known
	left   int               // how many of these the last look has not read
	more   bool              // the last look has not read all that are due
	turn   int64             // counts the grants
}

// keyedLane is a lane with such a limit.
type keyedLane struct {
	prefix string // of its keys
	order  string // see taskdb.OrderOf
	read   place  // until where its tasks were read
	end    place  // until where the last look has read
	full   bool   // the last look has not read all that are due
	walked string // the last key that the walk has found
	rounds int    // how often the walk has come to the last key of the lane
	keys   map[string]*laneKey
	unset  [2]time.Time // some tasks between these times have no key yet; zero: no such task is known
	// refused is when the leader last failed to set keys. stuck is the time of the task without a key that the walk
	// found last.
	refused, stuck time.Time
}

// place is a place among the tasks of a lane, which are ordered by time and key.
type place struct {
	at  time.Time
	key string
}

// before is a place before all tasks of a time.
func before(at time.Time) place { return place{at: at.Add(-time.Microsecond)} }

func (p place) before(other place) bool {
	return p.at.Before(other.at) || p.at.Equal(other.at) && p.key < other.key
}

// laneKey is a group or tenant of a lane that may have due tasks.
type laneKey struct {
	mark
	plan.Served
	head time.Time // when its first task can be claimed; zero: the next look reads it
	// held says that one task goes first and waits (taskdb/inorder.go). head is the time of that task. It is zero if
	// the task is in another lane. The look of each tick reads whether the task still waits.
	held bool
}

const (
	// maxKeys is how many keys of all lanes the leader knows at most. Each lane has a part of it. The leader reads on
	// in a lane when it knows fewer.
	maxKeys = 100_000
	// maxProbes is of how many keys a look reads the first task.
	maxProbes = 1000
	// lateKeys is how far a look goes back. So it sees tasks whose transaction took a little longer than others.
	lateKeys = time.Second
	// soon is how far ahead a look reads. The next tick comes before.
	soon = 2 * tickEvery
	// minPart is how many tasks of a lane a look reads at least, if there are very many lanes.
	minPart = 100
)

func newLaneKeys() laneKeys { return laneKeys{lanes: map[taskdb.LaneKey]*keyedLane{}} }

// maxOf is how many keys of a lane the leader knows at most.
func (k *laneKeys) maxOf() int { return max(maxKeys/max(len(k.lanes), 1), 1) }

// queue adds the statements of a look to a batch, if there are such lanes. read reads the answers.
func (k *laneKeys) queue(s taskdb.Queries, batch *pgx.Batch, now time.Time) {
	k.asked, k.probed = k.asked[:0], k.probed[:0]
	if len(k.lanes) == 0 {
		return
	}
	for lane, one := range k.lanes {
		if len(one.keys) >= k.maxOf() {
			continue
		}
		one.setBack(now)
		from := one.read
		if late := (place{at: now.Add(-lateKeys)}); !one.full && late.before(from) {
			from = late
		}
		k.asked = append(k.asked, taskdb.KeysFrom{LaneAt: taskdb.LaneAt{LaneKey: lane, At: from.at}, Key: from.key})
	}
	for _, lane := range k.lost[:min(len(k.lost), maxProbes)] {
		k.probe(lane, k.find(lane))
	}
	if now.Sub(k.looked).Abs() >= tickEvery/2 {
		k.looked = now
		k.probeHeld()
	}
	k.part = max(taskdb.MaxKeysRead/max(len(k.asked), 1), minPart)
	s.QueueKeys(batch, k.asked, now.Add(soon), k.part)
	s.QueueHeads(batch, k.probed)
}

// setBack takes the marks of a lane back if the database's clock was set back. Tasks that were scheduled since, and
// that have no key yet, would otherwise wait for the walk.
func (l *keyedLane) setBack(now time.Time) {
	if !l.read.at.After(now.Add(time.Second)) {
		return
	}
	l.read = before(now.Add(-lateCommit))
	for _, known := range l.keys {
		if known.at.After(now) {
			known.mark = mark{at: now}
		}
	}
}

// read reads the answers of a look.
func (k *laneKeys) read(results pgx.BatchResults, now time.Time) error {
	if k.more = false; len(k.lanes) == 0 {
		return nil
	}
	rows, err := pg.CollectNext[taskdb.KeyRead](results, "read limit keys")
	if err != nil {
		return err
	}
	heads, err := pg.CollectNext[taskdb.HeadRead](results, "read the first tasks of limit keys")
	if err != nil {
		return err
	}
	k.readHeads(heads, now)
	for i, lane := range k.asked {
		first, _ := slices.BinarySearchFunc(rows, i, func(row taskdb.KeyRead, i int) int { return row.Lane - i })
		after, _ := slices.BinarySearchFunc(rows, i+1, func(row taskdb.KeyRead, i int) int { return row.Lane - i })
		k.readLane(k.lanes[lane.LaneKey], rows[first:after], now)
	}
	return nil
}

// waits reports whether the leader makes another pass at once, because of tasks that are not read, or whose keys are
// not set.
func (k *laneKeys) waits() bool {
	for _, one := range k.lanes {
		if !one.unset[0].IsZero() && time.Since(one.refused) > tickEvery {
			return true
		}
	}
	return k.more
}

// readLane takes the rows of a lane.
func (k *laneKeys) readLane(one *keyedLane, rows []taskdb.KeyRead, now time.Time) {
	var last place
	tasks, allDue, learned, set := 0, true, true, true
	for _, row := range rows {
		tasks, allDue = tasks+row.Tasks, allDue && row.AllDue
		if to := (place{row.Last, row.Key}); row.Due && last.before(to) {
			last = to
		}
		if strings.HasPrefix(row.Key, one.prefix) {
			learned = k.learn(one, row.Key, row.First, now) && learned
			continue
		}
		if set = false; one.unset[0].IsZero() {
			one.unset = [2]time.Time{row.First, row.Last}
		}
		one.unset = [2]time.Time{earlier(one.unset[0], row.First), later(one.unset[1], row.Last)}
	}
	one.end, one.full = last, allDue && tasks >= k.part
	if k.more = k.more || one.full; set && learned {
		one.readTo(last)
	}
}

func (l *keyedLane) readTo(end place) {
	if l.read.before(end) {
		l.read = end
	}
}

// learn notes that a key of a lane has a task at a time. It reports false if the leader knows too many keys.
func (k *laneKeys) learn(lane *keyedLane, key string, at, now time.Time) bool {
	switch known := lane.keys[key]; {
	case known == nil && len(lane.keys) >= k.maxOf():
		return false
	case known == nil: // its turn is after those that have waited
		lane.keys[key] = &laneKey{mark: mark{at: earlier(at, now)}, head: at, Served: plan.Served{Turn: k.turn}}
	default:
		if at.Before(known.from()) { // the walk has found it
			known.mark = mark{at: at}
		}
		if at.Before(known.head) && !known.held {
			known.head = at
		}
	}
	return true
}

// setKeys sets the keys of tasks that were scheduled before the limit, as looks have found them. The next look reads
// the same part of the lane once more, unless others have locked all of these tasks, or none can be changed.
func (l *Leader) setKeys(ctx context.Context) error {
	keys := &l.lanes.keys
	for lane, one := range keys.lanes {
		if one.unset[0].IsZero() {
			continue
		}
		from, to, size := one.unset[0], one.unset[1], l.keySets.Now()
		one.unset = [2]time.Time{}
		var found []taskdb.KeySet
		err := l.transaction(ctx, func(tx pgx.Tx) (err error) {
			if _, err := tx.Exec(ctx, taskdb.EnterSQL); err != nil {
				return err
			}
			found, err = l.statements.SetKeys(ctx, tx, lane, from, to, one.prefix, size)
			return err
		})
		switch {
		case err == nil:
			l.keySets.Grow()
			now := l.session.Clock.Now()
			for _, task := range found {
				keys.learn(one, task.Key, task.First, now)
			}
			if len(found) == 0 {
				one.refused = time.Now()
				one.readTo(one.end)
			}
		case l.conn.IsClosed() || !pg.IsDataError(err) && !pg.IsTimeout(err):
			return err
		case !l.keySets.Shrink(size):
			l.log.Error("the limit key of a task cannot be set; the task waits", "queue", lane.Queue, "type", lane.Type,
				"due", from, "error", err)
			one.refused = time.Now()
			if from = from.Add(time.Microsecond); from.After(to) {
				one.readTo(one.end)
			} else {
				one.unset = [2]time.Time{from, to}
			}
		default: // the next pass sets fewer
			one.unset = [2]time.Time{from, to}
		}
	}
	return nil
}

// first is the time before which no task of the lane is known.
func (l *keyedLane) first(now time.Time) time.Time {
	first := now
	for _, one := range l.keys {
		if first = earlier(first, one.at); !one.head.IsZero() {
			first = earlier(first, one.head)
		}
	}
	return first
}

// plainLane is the lane of which a key is a part.
func plainLane(lane taskdb.LaneKey) taskdb.LaneKey {
	lane.LimitKey = ""
	return lane
}

// find returns a key, or nil if the leader does not know it.
func (k *laneKeys) find(lane taskdb.LaneKey) *laneKey {
	if one := k.lanes[plainLane(lane)]; one != nil {
		return one.keys[lane.LimitKey]
	}
	return nil
}

// turns lists the lanes of the groups or tenants whose turn it is.
func (k *laneKeys) turns(
	limits []taskdb.Limit, jobs []plan.Job, buckets plan.Buckets, now time.Time,
) (lanes []taskdb.Lane) {
	if len(k.lanes) == 0 {
		return nil
	}
	turns, unread := plan.NewTurns(limits, jobs, buckets), map[string]bool{}
	if slices.ContainsFunc(limits, func(limit taskdb.Limit) bool { return limit.InOrder }) {
		for _, lane := range k.lost {
			unread[lane.LimitKey] = true
		}
	}
	for lane, one := range k.lanes {
		one.order = taskdb.OrderOf(limits, lane.Queue, lane.Type)
		heads := make([]plan.KeyHead, 0, len(one.keys))
		for key, known := range one.keys {
			if known.head.IsZero() {
				continue
			}
			head := plan.KeyHead{Key: key, Head: known.head, DueIn: known.head.Sub(now), Served: known.Served}
			if lane.LimitKey = key; one.order != "" && lane.Counted() {
				// An earlier task may be there that no look has read yet.
				if one.rounds == 0 || unread[key] {
					continue
				}
				head.From = known.from()
			}
			heads = append(heads, head)
		}
		lanes = append(lanes, turns.Of(plainLane(lane), heads)...)
	}
	return lanes
}

// firsts lists the lanes with the first task that is known of each.
func (k *laneKeys) firsts(now time.Time) (lanes []taskdb.Lane) {
	for lane, one := range k.lanes {
		first := always
		for _, known := range one.keys {
			if !known.head.IsZero() {
				first = earlier(first, known.head)
			}
		}
		if in := first.Sub(now); first.Before(always) {
			lanes = append(lanes, taskdb.Lane{Queue: lane.Queue, Type: lane.Type, Priority: lane.Priority, DueIn: in,
				Late: max(-in, 0), Head: first})
		}
	}
	return lanes
}

// granted notes that the leader has tried to claim by these grants. The next look finds out the first tasks of their
// lanes.
func (k *laneKeys) granted(grants []taskdb.Grant) {
	k.turn++
	for _, grant := range grants {
		if one := k.find(grant.Key()); one != nil && !one.head.IsZero() {
			one.head = time.Time{}
			one.Granted(grant, k.turn)
			k.lost = append(k.lost, grant.Key())
		}
	}
}

// claimed moves the marks of keys to the last of some claimed tasks, but not past now.
func (k *laneKeys) claimed(taken []taskdb.ClaimedLane, now time.Time) {
	for _, lane := range taken {
		if lane.Grant.LimitKey == "" {
			continue
		}
		if one := k.find(lane.Grant.Key()); one != nil {
			one.move(earlier(lane.Last, now), lane.Len())
		}
		if lane.Last.Unix() == 0 {
			k.release(lane.Grant.LimitKey)
		}
	}
}
