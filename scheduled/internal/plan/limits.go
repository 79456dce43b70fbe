package plan

import (
	"math"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// meter is a limit with the jobs and tokens that it has left.
type meter struct {
	taskdb.Limit
	jobs   int           // that may be added. Such a job is serial, so it counts as one task that runs.
	tokens int           // tasks that the rate lets start
	full   time.Duration // in how long the bucket is full
}

// meters has the limits that count the tasks of each queue and type. The jobs that River has are deducted.
type meters struct {
	limits  []taskdb.Limit
	running running
	buckets Buckets
	spent   map[taskdb.BucketOf]int // tokens
	all     map[counted]*meter
	found   map[[3]string][]*meter // by queue, type and limit key
}

func (p *Plan) meters() *meters {
	return &meters{limits: p.input.Limits, running: countRunning(p.input.Limits, p.input.Jobs),
		buckets: p.input.Buckets, spent: p.spent, all: map[counted]*meter{}, found: map[[3]string][]*meter{}}
}

// Buckets tells in how long the bucket of a group or tenant is full. 0 means that it is. It is nil if all are.
type Buckets func(limit taskdb.Limit, key string) time.Duration

// counted names tasks that a limit counts together.
type counted struct {
	limit int    // its place in the list of limits
	key   string // of the group or tenant; "" if the limit counts all tasks together
}

// running is how many River jobs run or wait. A job that a limit counts runs one task at a time. These are the jobs of
// all nodes, and only the leader makes new ones, so that a limit holds over all nodes.
type running map[counted]int

func countRunning(limits []taskdb.Limit, jobs []Job) running {
	if len(limits) == 0 {
		return nil
	}
	number, counts := running{}, map[[3]string][]counted{}
	for _, job := range jobs {
		if job.State != Available && job.State != Running {
			continue
		}
		of := [3]string{job.Queue, job.Type, job.Key}
		if _, known := counts[of]; !known {
			counts[of] = countsOf(limits, job.Queue, job.Type, job.Key)
		}
		for _, one := range counts[of] {
			number[one]++
		}
	}
	return number
}

// countsOf lists the limits that count a queue's tasks of a type and key, each with the key under which it counts them.
func countsOf(limits []taskdb.Limit, queue, kind, key string) []counted {
	found := []counted{}
	for i, limit := range limits {
		if of, counts := limit.KeyOf(queue, kind, key); counts {
			found = append(found, counted{i, of})
		}
	}
	return found
}

// Counted returns the limits with their Running set from River's jobs. With Per it is the number of the group or tenant
// that has the most.
func Counted(limits []taskdb.Limit, jobs []Job) []taskdb.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Running = 0
	}
	for of, n := range countRunning(limits, jobs) {
		limits[of.limit].Running = max(limits[of.limit].Running, n)
	}
	return limits
}

// of lists the limits that count the tasks of a lane.
func (m *meters) of(lane taskdb.LaneKey) []*meter {
	if len(m.limits) == 0 {
		return nil
	}
	of := [3]string{lane.Queue, lane.Type, lane.LimitKey}
	limits, known := m.found[of]
	if !known {
		for _, one := range countsOf(m.limits, lane.Queue, lane.Type, lane.LimitKey) {
			limits = append(limits, m.meter(one))
		}
		m.found[of] = limits
	}
	return limits
}

func (m *meters) meter(of counted) *meter {
	if one := m.all[of]; one != nil {
		return one
	}
	one := meterOf(m.limits[of.limit], of.key, m.buckets)
	if one.MaxRunning != nil {
		one.jobs = *one.MaxRunning - m.running[of]
	}
	if one.Interval > 0 {
		one.spend(m.spent[taskdb.BucketOf{Name: one.Name, Key: of.key}])
	}
	m.all[of] = one
	return one
}

// meterOf is a limit with the tokens that are in its bucket, or in that of a key.
func meterOf(limit taskdb.Limit, key string, buckets Buckets) *meter {
	if limit.HasBuckets() && buckets != nil {
		limit.Full = buckets(limit, key)
	}
	one := &meter{limit, math.MaxInt32, math.MaxInt32, 0}
	if limit.Interval > 0 {
		one.tokens, one.full = limit.Tokens(), max(limit.Full, 0)
	}
	return one
}

// left is how many more River jobs, and how many more tasks, some limits allow.
func left(limits []*meter) (jobs, tokens int) {
	jobs, tokens = math.MaxInt32, math.MaxInt32
	for _, one := range limits {
		jobs, tokens = min(jobs, one.jobs), min(tokens, one.tokens)
	}
	return max(jobs, 0), max(tokens, 0)
}

// allowed is how many more tasks of the lane its limits allow. The jobs that the lane has already been given may carry
// more tasks.
func (l *lane) allowed(limits []*meter, fits int) int {
	if len(limits) == 0 {
		return math.MaxInt32
	}
	jobs, tokens := left(limits)
	if jobs == math.MaxInt32 {
		return tokens
	}
	return min(tokens, min(jobs+l.grant.Jobs, maxClaimed)*fits-l.grant.Tasks)
}

// maxClaimed bounds the jobs in a product, so that it does not overflow.
const maxClaimed = 1 << 20

// spend deducts tasks that are granted to the lane. It deducts a job for each task while the limit has jobs left. The
// claim may make fewer jobs of them.
func (l *lane) spend(limits []*meter, tasks int) {
	if len(limits) == 0 {
		return
	}
	jobs, _ := left(limits)
	if jobs = min(jobs, tasks); slices.ContainsFunc(limits, func(one *meter) bool { return one.MaxRunning != nil }) {
		l.grant.Jobs += jobs
	}
	for _, one := range limits {
		one.jobs -= jobs
		one.spend(tasks)
	}
}

func (m *meter) spend(tokens int) {
	m.tokens -= tokens
	m.full += time.Duration(tokens) * m.Interval
}

// Tokens is how many tokens claimed tasks take of each bucket. A task that had expired takes none. A limit with an
// overfull bucket is among them even if they take none of it, so that its bucket is written anew.
func (p *Plan) Tokens(taken []taskdb.ClaimedLane) map[taskdb.BucketOf]int {
	tokens := map[taskdb.BucketOf]int{}
	for _, limit := range p.input.Limits {
		if limit.Interval <= 0 {
			continue
		}
		if limit.Overfull {
			tokens[taskdb.BucketOf{Name: limit.Name}] = 0
		}
		for _, lane := range taken {
			of := lane.Grant.Key()
			if key, counts := limit.KeyOf(of.Queue, of.Type, of.LimitKey); counts && len(lane.Tasks) > 0 {
				tokens[taskdb.BucketOf{Name: limit.Name, Key: key}] += len(lane.Tasks)
			}
		}
	}
	return tokens
}

// refill is in how long the leader looks again for tokens of some limits. It is 0 if none of them lacks any. The leader
// waits for half of the burst, but not for longer than maxRefill if there is a token before.
func refill(limits []*meter) (in time.Duration) {
	for _, one := range limits {
		in = max(in, one.refill())
	}
	return in
}

func (m *meter) refill() time.Duration {
	if m.Interval <= 0 || m.tokens > 0 {
		return 0
	}
	half := m.full - time.Duration(m.Burst-max(m.Burst/2, 1))*m.Interval
	return max(m.full-time.Duration(m.Burst-1)*m.Interval, min(half, maxRefill), minRefill)
}

const (
	minRefill = 10 * time.Millisecond
	maxRefill = 100 * time.Millisecond
)
