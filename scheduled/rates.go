package scheduled

import "time"

// rates are what the leader knows of each type's tasks: how long their handlers run, by the nodes that run them, and
// how large their payloads are. A type that no node has measured has no time.
type rates struct {
	took  map[string]time.Duration
	bytes map[string]int // of the stored payload
}

const (
	// batchTasksMax is how many tasks a River job carries at most, however quick they are.
	batchTasksMax = 250
	// batchBytesMax is how large the stored payloads of a job's tasks are in all, unless a single one is larger.
	batchBytesMax = 1 << 20
	// soonWithin is in how long a running job is expected to end for a slot to count as nearly free, and how long the
	// job may take longer than expected before its slot counts as taken.
	soonWithin = time.Second
)

// fits is how many tasks of a type make a batch: as many as run in batchTime and are not too large together. Tasks of
// an unmeasured type get a job each.
func (r rates) fits(kind string) int {
	took, measured := r.took[kind]
	if !measured {
		return 1
	}
	most := int(min(batchTime/max(took, 1), batchTasksMax))
	return max(1, min(most, batchBytesMax/max(r.bytes[kind], 1)))
}

// endsSoon says whether a running job is expected to end within about a second. One that has taken a second longer
// than expected is not: nobody knows when it will end. Of an unmeasured type's tasks nothing is expected.
func (r rates) endsSoon(job seenJob) bool {
	left := time.Duration(job.Tasks)*r.took[job.Type] - job.Age
	return left > -soonWithin && left <= soonWithin
}

// payloadWeight is the weight of the last claimed task's payload in its type's average.
const payloadWeight = 20

// claimed learns the size of payloads.
func (r rates) claimed(taken []claimed) {
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
