package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/inspect"
)

// work holds the waiting tasks by lanes, and the time of the database.
type work struct {
	lanes []inspect.QueueState
	now   time.Time
}

// listWork reads the work once for all checks.
func (e *examination) listWork(ctx context.Context) (*work, error) {
	if e.work != nil {
		return e.work, nil
	}
	// As on the engine's connections, Postgres must use the index, even if its statistics are wrong.
	if _, err := e.tx.Exec(ctx, "SET LOCAL enable_seqscan = off; SET LOCAL jit = off"); err != nil {
		return nil, err
	}
	var found work
	var err error
	if found.lanes, err = e.inspector.QueueStates(ctx, e.tx, inspect.QueueFilter{Lanes: true}); err != nil {
		return nil, err
	}
	if found.now, err = e.tasks.Now(ctx, e.tx); err != nil {
		return nil, err
	}
	e.work = &found
	return e.work, nil
}

// kind sums up the lanes of all priorities of a queue and type.
type kind struct {
	Queue, Type string

	due    int
	more   bool // there are more due tasks than were counted
	oldest *time.Time
	next   *time.Time
	worked bool // a live node works both queue and type
	paused bool
}

// kinds sums up the lanes of each queue and type, in their order.
func (w *work) kinds() []*kind {
	var kinds []*kind
	for _, lane := range w.lanes {
		if len(kinds) == 0 || kinds[len(kinds)-1].Queue != lane.Queue || kinds[len(kinds)-1].Type != *lane.Type {
			kinds = append(kinds, &kind{Queue: lane.Queue, Type: *lane.Type})
		}
		one := kinds[len(kinds)-1]
		one.due, one.more = one.due+lane.Due, one.more || lane.DueMore
		one.worked, one.paused = one.worked || lane.Nodes > 0, len(lane.Pauses) > 0
		one.oldest, one.next = earlier(one.oldest, lane.OldestDue), earlier(one.next, lane.NextDue)
	}
	return kinds
}

// earlier returns the earlier of two times. A nil time does not count.
func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// many returns how many tasks are due, as text.
func (k *kind) many() string { return dueTasks(k.due, k.more) }

func dueTasks(n int, more bool) string {
	if more {
		return fmt.Sprintf("%d or more due tasks", n)
	}
	return several(n, "due task")
}

// queuesOf returns the queues that nodes work, with the sum of their slots.
func queuesOf(nodes []inspect.Node) string {
	slots := map[string]int{}
	for _, node := range nodes {
		for queue, n := range node.Queues {
			slots[queue] += n
		}
	}
	var told []string
	for _, queue := range sorted(slots) {
		told = append(told, fmt.Sprintf("%s=%d", queue, slots[queue]))
	}
	return strings.Join(told, " ")
}
