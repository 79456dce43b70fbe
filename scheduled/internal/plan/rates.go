package plan

import (
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Rates are figures about the tasks of each type. They say how long the handlers run, as measured by the nodes that run
// them, and how large the payloads are. A type that no node has measured has no time.
type Rates struct {
	Took  map[string]time.Duration
	Bytes map[string]int // of the stored payload
}

const (
	// batchTime is how long the tasks of a River job should run together. It is long enough to save most of River's
	// cost for each job. It is short enough that a job does not keep a slot from more urgent work for long.
	batchTime = 250 * time.Millisecond
	// maxBatchTasks is how many tasks a River job carries at most, however quick they are.
	maxBatchTasks = 250
	// MaxBatchBytes is how many bytes the stored payloads of one job's tasks may have together. A job with a single
	// task may have more.
	MaxBatchBytes = 1 << 20
	// soonWithin is the time within which a running job must be expected to end for its slot to count as free.
	// It is also how much longer than expected the job may take before its slot counts as taken.
	soonWithin = time.Second
	// recording is how long it may take to record an outcome without making the next task of the job wait.
	recording = 25 * time.Millisecond
)

// fits is how many tasks of a type make a batch: as many as run in batchTime and are not too large together. Each
// task of an unmeasured type gets a job of its own.
func (r Rates) fits(kind string) int {
	took, measured := r.Took[kind]
	if !measured {
		return 1
	}
	most := int(min(batchTime/max(took, 1), maxBatchTasks))
	return max(1, min(most, MaxBatchBytes/max(r.Bytes[kind], 1)))
}

// cost is how much of a slot a task of a type takes, of slotWorth.
func (r Rates) cost(kind string) int {
	fits := r.fits(kind)
	return (slotWorth + fits - 1) / fits
}

// Window is how many tasks of a job may have begun and not be recorded. If a node dies, the leader cannot know whether
// these began; of the others it can. It is one task, and as many as run while outcomes are being recorded.
func (r Rates) Window(kind string) int {
	return 1 + int(min((recording+r.Took[kind]-1)/max(r.Took[kind], 1), maxBatchTasks))
}

// endsSoon reports whether a running job is expected to end within about a second. It returns false for a job that
// has taken a second longer than expected, because nobody knows when this job will end. So the job of an unmeasured
// type counts as ending soon during its first second.
func (r Rates) endsSoon(job Job) bool {
	left := time.Duration(job.Tasks)*r.Took[job.Type] - job.Age
	return left > -soonWithin && left <= soonWithin
}

// payloadWeight sets the weight of the last claimed task's payload in its type's average: one part in payloadWeight.
const payloadWeight = 20

// Learn learns the size of payloads from claimed tasks.
func (r Rates) Learn(taken []taskdb.ClaimedLane) {
	for _, lane := range taken {
		for _, c := range lane.Tasks {
			was, known := r.Bytes[lane.Grant.Type]
			if !known {
				was = c.Bytes
			}
			r.Bytes[lane.Grant.Type] = was + (c.Bytes-was)/payloadWeight
		}
	}
}

// Mean joins the averages of several nodes. Each counts the same, however many tasks it has run.
func Mean(nodes []map[string]time.Duration) map[string]time.Duration {
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
