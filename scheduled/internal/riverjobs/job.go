package riverjobs

import (
	"encoding/json"
	"time"

	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// JobOf makes the River job that carries these claims.
func JobOf(queue, kind string, priority int, holds []taskdb.Claim) river.InsertManyParams {
	last := time.Time{}
	for _, h := range holds {
		if h.Due.After(last) {
			last = h.Due
		}
	}
	// A struct of two numbers always encodes.
	metadata, _ := json.Marshal(taskdb.JobMetadata{Tasks: len(holds), Due: last.UnixMicro()})
	return river.InsertManyParams{
		Args: taskdb.JobArgs{TaskType: kind, Tasks: taskdb.EncodeClaims(holds)},
		InsertOpts: &river.InsertOpts{
			Queue: queue, Priority: Priority(priority), Metadata: metadata, MaxAttempts: 1,
		},
	}
}

// Priority maps a task's priority to River's four priorities, of which 1 is the most urgent. River's priority
// orders only the few tasks that wait in River at once. The claim has ordered all others.
func Priority(priority int) int {
	switch {
	case priority > 50:
		return 1
	case priority > 0:
		return 2
	case priority == 0:
		return 3
	default:
		return 4
	}
}

// Job is the worker's view of a River job.
type Job struct {
	ID    int64
	Queue string
	Kind  string // the tasks' type
}
