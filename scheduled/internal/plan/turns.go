package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// KeyHead is the first task of a group or tenant in a lane.
type KeyHead struct {
	Key   string // see taskdb.LaneKey
	Head  time.Time
	DueIn time.Duration
	Served
	// From is where a claim begins to read, if that is before Head.
	From time.Time
}

// Served is how a group or tenant has been served.
type Served struct {
	Turn int64 // the number of the grant that ended its last turn, or of the last one when the leader learned of it
	Had  int   // how many batches it has had since
}

// Granted notes a grant and its number. A group or tenant keeps its turn until it has had as many batches as its weight
// says.
func (s *Served) Granted(grant taskdb.Grant, number int64) {
	fits := max(grant.Fits, 1)
	if s.Had += max((grant.Tasks+fits-1)/fits, 1); s.Had >= max(grant.Weight, 1) {
		*s = Served{Turn: number}
	}
}

// maxTurns is how many groups or tenants of a lane a plan considers. The others come later, because it takes those
// whose turn it is.
const maxTurns = 1000

// Turns says whose turn it is.
type Turns struct {
	limits  []taskdb.Limit
	running running
	buckets Buckets
}

// NewTurns makes the turns for River's jobs.
func NewTurns(limits []taskdb.Limit, jobs []Job, buckets Buckets) Turns {
	return Turns{limits, countRunning(limits, jobs), buckets}
}

// turn is a key with due tasks.
type turn struct {
	KeyHead
	running, weight int
}

// level is how often as many of its tasks run as its weight.
func (t turn) level() int { return t.running / t.weight }

// share is how many batches it gets before others have their turn.
func (t turn) share() int { return max(t.weight-max(t.Had, t.running%t.weight), 1) }

// Of lists the lanes of the groups or tenants of a lane whose turn it is: of which the fewest tasks run, and then which
// were served longest ago. As many tasks that run as the weight says count as one, and as many batches are a turn. It
// leaves out those of which as many run as a limit allows, but for one, so that the leader looks again soon. Of those
// whose tasks are to come, or wait for a token, it lists the first.
//
// Lanes of other types must wait neither longer nor shorter because of the turns. So the due times of the first tasks
// are dealt out anew: the group whose turn it is gets the earliest. Further tasks of a group count as due when the last
// of these is, so that each group has its first turn before another has its second.
func (t Turns) Of(of taskdb.LaneKey, heads []KeyHead) (lanes []taskdb.Lane) {
	var due []turn
	var reached, coming *KeyHead
	inOrder := taskdb.OrderOf(t.limits, of.Queue, of.Type)
	for i, one := range heads {
		next, full := turn{KeyHead: one, weight: 1}, false
		if one.DueIn <= 0 {
			full = t.measure(of, &next)
		}
		switch {
		case next.DueIn > 0:
			if heads[i] = next.KeyHead; coming == nil || next.DueIn < coming.DueIn {
				coming = &heads[i]
			}
		case full:
			reached = &heads[i]
		default:
			due = append(due, next)
		}
	}
	for _, one := range []*KeyHead{reached, coming} {
		if one != nil {
			lanes = append(lanes, one.lane(of, one.DueIn, inOrder))
		}
	}
	slices.SortFunc(due, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.level(), b.level()), cmp.Compare(a.Turn, b.Turn), a.Head.Compare(b.Head),
			cmp.Compare(a.Key, b.Key))
	})
	due = due[:min(len(due), maxTurns)]
	var times []time.Duration
	for _, one := range due {
		times = append(times, one.DueIn)
	}
	slices.Sort(times)
	for i, one := range due {
		if i > 0 { // tasks of one time, too, come in the order of the turns
			times[i] = max(times[i], times[i-1]+1)
		}
		made := one.lane(of, times[i], inOrder)
		made.Weight, made.Share = one.weight, one.share()
		lanes = append(lanes, made)
	}
	return lanes
}

// measure sets how many tasks of the key run, and its weight. It reports whether they are as many as a limit allows. If
// there is no token for another one, the key is due when there is.
func (t Turns) measure(of taskdb.LaneKey, next *turn) (full bool) {
	for _, as := range countsOf(t.limits, of.Queue, of.Type, next.Key) {
		limit := t.limits[as.limit]
		if limit.Per == "" {
			continue
		}
		next.running, next.weight = max(next.running, t.running[as]), max(next.weight, limit.WeightOf(as.key))
		full = full || limit.MaxRunning != nil && t.running[as] >= *limit.MaxRunning
		if wait := meterOf(limit, as.key, t.buckets).refill(); wait > 0 {
			next.DueIn = max(next.DueIn, wait)
		}
	}
	return full
}

func (k KeyHead) lane(of taskdb.LaneKey, dueIn time.Duration, inOrder string) taskdb.Lane {
	made := taskdb.Lane{Queue: of.Queue, Type: of.Type, Priority: of.Priority, Head: k.Head, DueIn: dueIn,
		Late: max(-k.DueIn, 0), LimitKey: k.Key}
	if !k.From.IsZero() {
		made.Head = k.From
	}
	if made.Key().Counted() {
		made.InOrder = inOrder
	}
	return made
}

// keepOrder leaves, of the lanes whose tasks a limit keeps in order, the one whose first task comes first.
func (p *Plan) keepOrder(meters *meters) {
	first := map[*meter]*lane{}
	each := func(one *lane, do func(*meter)) {
		for _, limit := range meters.of(one.Key()) {
			if limit.InOrder {
				do(limit)
			}
		}
	}
	for _, one := range p.lanes {
		each(one, func(limit *meter) {
			if known := first[limit]; known == nil || cmp.Or(cmp.Compare(known.Priority, one.Priority),
				cmp.Compare(known.Late, one.Late), one.Key().Compare(known.Key())) < 0 {
				first[limit] = one
			}
		})
	}
	if len(first) > 0 {
		p.lanes = slices.DeleteFunc(p.lanes, func(one *lane) (later bool) {
			each(one, func(limit *meter) { later = later || first[limit] != one })
			return later
		})
	}
}

// rests sets the field rest of the lanes.
func (p *Plan) rests() {
	last := map[taskdb.LaneKey]time.Duration{}
	of := func(one *lane) taskdb.LaneKey {
		return taskdb.LaneKey{Queue: one.Queue, Type: one.Type, Priority: one.Priority}
	}
	for _, one := range p.lanes {
		if one.LimitKey != "" && !one.near {
			latest, known := last[of(one)]
			if last[of(one)] = one.DueIn; known {
				last[of(one)] = max(latest, one.DueIn)
			}
		}
	}
	for _, one := range p.lanes {
		one.rest = last[of(one)]
	}
}
