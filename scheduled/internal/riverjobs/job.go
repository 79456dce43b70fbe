package riverjobs

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// jobArgs are the arguments of a River job: some tasks of one lane and one pass. They are one string, because River
// keeps a GIN index on the arguments. An array of a hundred entries costs 119 KB of WAL there, and the string costs 7
// KB.
type jobArgs struct {
	TaskType string
	Tasks    string `json:"tasks"`
}

// Kind is the task type, so that River's own tools show it.
func (a jobArgs) Kind() string { return a.TaskType }

// Metadata is stored beside the arguments, so that the leader can read it without unpacking them.
type Metadata struct {
	Tasks int   `json:"tasks"`
	Due   int64 `json:"due"` // when the last of these tasks is due, in microseconds since 1970
	// Window is how many of the tasks may have begun, counted from the first one whose claim is not over. Began is how
	// many from the first task may have begun, whatever the window says. 0 means that nobody knows.
	Window int `json:"window,omitempty"`
	Began  int `json:"began,omitempty"`
	// Serial says that no task may begin before the one before it has ended, because the job counts as one task for a
	// limit.
	Serial bool `json:"serial,omitempty"`
	// Key is the limit key of the tasks, if they have one.
	Key string `json:"key,omitempty"`
}

// Begun is the place in the job of the first task that cannot have begun, if the node that has the job is gone. open
// reports whether the claim of the task at a place is not over.
func (m Metadata) Begun(tasks int, open func(place int) bool) int {
	if m.Window <= 0 {
		return tasks
	}
	first := 0
	for first < tasks && !open(first) {
		first++
	}
	return min(tasks, max(first+m.Window, m.Began))
}

// BeganSQL writes how many of a job's tasks may have begun. The number never becomes less.
const BeganSQL = `
UPDATE tasktable.river_job AS j
SET metadata = jsonb_set(j.metadata, ARRAY['began'],
    to_jsonb(greatest($2::int, CASE WHEN jsonb_typeof(j.metadata -> 'began') = 'number'
        THEN (j.metadata ->> 'began')::int END)))
WHERE j.id = $1`

// JobOf makes the River job that carries these claims of a lane. For window and serial see Metadata.
func JobOf(lane taskdb.LaneKey, window int, serial bool, claims []taskdb.Claim) river.InsertManyParams {
	last := time.Time{}
	for _, c := range claims {
		if c.Due.After(last) {
			last = c.Due
		}
	}
	about := Metadata{Tasks: len(claims), Due: last.UnixMicro(), Serial: serial && len(claims) > 1,
		Key: lane.LimitKey}
	if window < len(claims) {
		about.Window = window
	}
	metadata, _ := json.Marshal(about) // a struct of numbers, truth values and texts always encodes
	return river.InsertManyParams{
		Args: jobArgs{TaskType: lane.Type, Tasks: EncodeClaims(claims)},
		InsertOpts: &river.InsertOpts{
			Queue: lane.Queue, Priority: riverPriority(lane.Priority), Metadata: metadata, MaxAttempts: 1,
		},
	}
}

// EncodeClaims writes claims as fence:revision:attempt:due:length:id, one after the other. Because of the length, an
// id may contain any character.
func EncodeClaims(claims []taskdb.Claim) string {
	var packed []byte
	for _, c := range claims {
		for _, number := range [...]int64{c.Fence, c.Revision, int64(c.Attempt), c.Due.UnixMicro(), int64(len(c.ID))} {
			packed = append(strconv.AppendInt(packed, number, 10), ':')
		}
		packed = append(packed, c.ID...)
	}
	return string(packed)
}

// DecodeClaims reads what EncodeClaims has written. Its error says at which task and number the text is wrong.
func DecodeClaims(packed string) ([]taskdb.Claim, error) {
	var claims []taskdb.Claim
	for rest := packed; rest != ""; {
		var numbers [5]int64
		for i := range numbers {
			field, after, found := strings.Cut(rest, ":")
			number, err := strconv.ParseInt(field, 10, 64)
			if !found || err != nil {
				return nil, fmt.Errorf("packed batch: no number %d of task %d", i+1, len(claims)+1)
			}
			numbers[i], rest = number, after
		}
		length := numbers[4]
		if length < 0 || length > int64(len(rest)) {
			return nil, fmt.Errorf("packed batch: id of task %d should have %d bytes, %d are left",
				len(claims)+1, length, len(rest))
		}
		claims = append(claims, taskdb.Claim{
			Fence: numbers[0], Revision: numbers[1], Attempt: int(numbers[2]),
			Due: time.UnixMicro(numbers[3]).UTC(), ID: rest[:length],
		})
		rest = rest[length:]
	}
	return claims, nil
}

// riverPriority maps a task's priority to River's four priorities, of which 1 is the most urgent. River's priority
// orders only the few tasks that wait in River at once. The claim has ordered all others.
func riverPriority(priority int) int {
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
	ID     int64
	Queue  string
	Kind   string // the tasks' type
	Window int    // see Metadata
	Serial bool   // see Metadata
}

// DeleteSQL removes jobs.
const DeleteSQL = `DELETE FROM tasktable.river_job WHERE id = ANY ($1::bigint[])`
