package scheduled

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// hold is a claim of one task. It travels in a River job. The statements of gate, settle and reclaim find the task by
// it.
type hold struct {
	ID       string
	Fence    int64
	Revision int64
	Attempt  int
	Due      time.Time
}

// batchArgs are the arguments of a River job: some tasks of one lane and one pass. They are one string, because River
// keeps a GIN index on the arguments. An array of a hundred entries costs 119 KB of WAL there, and the string costs 7
// KB.
type batchArgs struct {
	kind  string
	Tasks string `json:"tasks"`
}

// Kind is the task type, so that River's own tools show it.
func (a batchArgs) Kind() string { return a.kind }

// batchMetadata is stored beside the arguments, so that the leader can read it without unpacking them.
type batchMetadata struct {
	Tasks int   `json:"tasks"`
	Due   int64 `json:"due"` // when the last of these tasks is due, in microseconds since 1970
}

// pack writes holds as fence:revision:attempt:due:length:id, one after the other. Because of the length, an id may
// contain any character.
func pack(holds []hold) string {
	var packed strings.Builder
	for _, h := range holds {
		fmt.Fprintf(&packed, "%d:%d:%d:%d:%d:%s", h.Fence, h.Revision, h.Attempt, h.Due.UnixMicro(), len(h.ID), h.ID)
	}
	return packed.String()
}

// unpack reads what pack has written. Its error says at which task and number the text is wrong.
func unpack(packed string) ([]hold, error) {
	var holds []hold
	for rest := packed; rest != ""; {
		var numbers [5]int64
		for i := range numbers {
			field, after, found := strings.Cut(rest, ":")
			number, err := strconv.ParseInt(field, 10, 64)
			if !found || err != nil {
				return nil, fmt.Errorf("packed batch: no number %d of task %d", i+1, len(holds)+1)
			}
			numbers[i], rest = number, after
		}
		length := numbers[4]
		if length < 0 || length > int64(len(rest)) {
			return nil, fmt.Errorf("packed batch: id of task %d should have %d bytes, %d are left",
				len(holds)+1, length, len(rest))
		}
		holds = append(holds, hold{
			Fence: numbers[0], Revision: numbers[1], Attempt: int(numbers[2]),
			Due: time.UnixMicro(numbers[3]).UTC(), ID: rest[:length],
		})
		rest = rest[length:]
	}
	return holds, nil
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

// batchesOf cuts claimed tasks into batches. Each batch has at most size tasks, and at most batchBytesMax bytes of
// payloads unless it is a single task.
func batchesOf(taken []claimed, size int) [][]hold {
	var batches [][]hold
	bytes := 0
	for _, c := range taken {
		last := len(batches) - 1
		if last < 0 || len(batches[last]) >= size || bytes+c.Bytes > batchBytesMax {
			batches, bytes = append(batches, nil), 0
			last++
		}
		batches[last] = append(batches[last], c.hold())
		bytes += c.Bytes
	}
	return batches
}
