package taskdb

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// JobArgs are the arguments of a River job: some tasks of one lane and one pass. They are one string, because River
// keeps a GIN index on the arguments. An array of a hundred entries costs 119 KB of WAL there, and the string costs 7
// KB.
type JobArgs struct {
	TaskType string
	Tasks    string `json:"tasks"`
}

// Kind is the task type, so that River's own tools show it.
func (a JobArgs) Kind() string { return a.TaskType }

// JobMetadata is stored beside the arguments, so that the leader can read it without unpacking them.
type JobMetadata struct {
	Tasks int   `json:"tasks"`
	Due   int64 `json:"due"` // when the last of these tasks is due, in microseconds since 1970
}

// Claim is a claim of one task. It travels in a River job. The statements of gate, settle and reclaim find the task by
// it.
type Claim struct {
	ID       string
	Fence    int64
	Revision int64
	Attempt  int
	Due      time.Time
}

// EncodeClaims writes holds as fence:revision:attempt:due:length:id, one after the other. Because of the length, an
// id may contain any character.
func EncodeClaims(holds []Claim) string {
	var packed strings.Builder
	for _, h := range holds {
		fmt.Fprintf(&packed, "%d:%d:%d:%d:%d:%s", h.Fence, h.Revision, h.Attempt, h.Due.UnixMicro(), len(h.ID), h.ID)
	}
	return packed.String()
}

// DecodeClaims reads what EncodeClaims has written. Its error says at which task and number the text is wrong.
func DecodeClaims(packed string) ([]Claim, error) {
	var holds []Claim
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
		holds = append(holds, Claim{
			Fence: numbers[0], Revision: numbers[1], Attempt: int(numbers[2]),
			Due: time.UnixMicro(numbers[3]).UTC(), ID: rest[:length],
		})
		rest = rest[length:]
	}
	return holds, nil
}

// ClientPrefix and a node's number make its River client's id.
const ClientPrefix = "tasktable-"

// ClientID returns the id of a node's River client.
func ClientID(number int64) string { return ClientPrefix + strconv.FormatInt(number, 10) }

// DeleteJobsSQL removes River jobs.
const DeleteJobsSQL = `DELETE FROM tasktable.river_job WHERE id = ANY ($1::bigint[])`
