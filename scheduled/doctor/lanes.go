package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/inspect"
)

// work is what waits to be claimed, by lanes, and the database's time.
type work struct {
	lanes []inspect.QueueState
	now   time.Time
}

// listWork looks once for all checks.
func (e *examination) listWork(ctx context.Context) (*work, error) {
	if e.work != nil {
		return e.work, nil
	}
	// As on the engine's connections: whatever the statistics say, the index is the way.
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

// kind is the lanes of a queue and type, whatever their priority.
type kind struct {
	Queue, Type string

	due    int
	more   bool // there are more than were counted
	oldest *time.Time
	next   *time.Time
	worked bool // some live node has queue and type
	paused bool
}

// kinds puts the lanes of each queue and type together, in their order.
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

// earlier is the earlier of two times that may not be there.
func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// many tells how many are due.
func (k *kind) many() string { return dueTasks(k.due, k.more) }

func dueTasks(n int, more bool) string {
	if more {
		return fmt.Sprintf("%d or more due tasks", n)
	}
	return several(n, "due task")
}

// queuesOf is the queues that nodes work, with all their slots.
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
