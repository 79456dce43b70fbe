package leader

import (
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// rates are the leader's figures about the tasks of each type. They say how long the handlers run, as measured by the
// nodes that run them, and how large the payloads are. A type that no node has measured has no time.
type rates struct {
	took  map[string]time.Duration
	bytes map[string]int // of the stored payload
}

const (
	// maxBatchTasks is how many tasks a River job carries at most, however quick they are.
	maxBatchTasks = 250
	// maxBatchBytes is how many bytes the stored payloads of one job's tasks may have together. A job with a single
	// task may have more.
	maxBatchBytes = 1 << 20
	// soonWithin is the time within which a running job must be expected to end for its slot to count as nearly free.
	// It is also how much longer than expected the job may take before its slot counts as taken.
	soonWithin = time.Second
	// recording is how long it may take to record an outcome without making the next task of the job wait.
	recording = 25 * time.Millisecond
)

// fits is how many tasks of a type make a batch: as many as run in batchTime and are not too large together. Each
// task of an unmeasured type gets a job of its own.
func (r rates) fits(kind string) int {
	took, measured := r.took[kind]
	if !measured {
		return 1
	}
	most := int(min(batchTime/max(took, 1), maxBatchTasks))
	return max(1, min(most, maxBatchBytes/max(r.bytes[kind], 1)))
}

// window is how many tasks of a job may have begun and not be recorded. If a node dies, the leader cannot know of more
// than these whether they began. It is one task, and as many as run while outcomes are being recorded.
func (r rates) window(kind string) int {
	return 1 + int(min((recording+r.took[kind]-1)/max(r.took[kind], 1), maxBatchTasks))
}

// endsSoon reports whether a running job is expected to end within about a second. It returns false for a job that
// has taken a second longer than expected, because nobody knows when this job will end. A task of an unmeasured type
// is expected to take no time.
func (r rates) endsSoon(job riverjobs.Seen) bool {
	left := time.Duration(job.Tasks)*r.took[job.Type] - job.Age
	return left > -soonWithin && left <= soonWithin
}

// payloadWeight sets the weight of the last claimed task's payload in its type's average: one part in payloadWeight.
const payloadWeight = 20

// claimed learns the size of payloads from claimed tasks.
func (r rates) claimed(taken []taskdb.ClaimedTask) {
	for _, c := range taken {
		was, known := r.bytes[c.Type]
		if !known {
			was = c.Bytes
		}
		r.bytes[c.Type] = was + (c.Bytes-was)/payloadWeight
	}
}

// meanOf joins the averages of several nodes. Each counts the same, however many tasks it has run.
func meanOf(nodes []map[string]time.Duration) map[string]time.Duration {
	sums, counts := map[string]time.Duration{}, map[string]int{}
	for _, node := range nodes {
		for kind, took := range node {
			sums[kind] += took
			counts[kind]++
		}
	}
	for kind, n := range counts {
		sums[kind] /= time.Duration(n)
	}
	return sums
}

// batchTime is how long the tasks of a River job should run together. It is long enough to save most of River's cost
// for each job. It is short enough that a job does not keep a slot from more urgent work for long.
const batchTime = 250 * time.Millisecond

// batchSize is how many tasks go into one River job when a number of tasks is spread over a number of slots. Under
// light load each task gets a job of its own, because the use of all slots gains more than fewer jobs would.
func batchSize(fits, tasks, slots int) int {
	// A task whose priority was edited while it was claimed may be in a lane that has no budget, and therefore no
	// slots.
	slots = max(slots, 1)
	return max(1, min(fits, (tasks+slots-1)/slots))
}

// batchesOf cuts claimed tasks into batches. Each batch has at most size tasks, and at most maxBatchBytes bytes of
// payloads unless it is a single task.
func batchesOf(taken []*taskdb.ClaimedTask, size int) [][]taskdb.Claim {
	var batches [][]taskdb.Claim
	bytes := 0
	for i, c := range taken {
		last := len(batches) - 1
		if last < 0 || len(batches[last]) >= size || bytes+c.Bytes > maxBatchBytes {
			batches, bytes = append(batches, make([]taskdb.Claim, 0, min(size, len(taken)-i))), 0
			last++
		}
		batches[last] = append(batches[last], c.Claim())
		bytes += c.Bytes
	}
	return batches
}
