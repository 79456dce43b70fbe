package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/tasktable/tasktable/store/internal/check"
)

// TaskAs is a task that somebody other than Config.Service schedules. It is for engines.
type TaskAs struct {
	Task
	// By is the author. It is recorded in the task's scheduled_by and in its line of changes. "" means
	// Config.Service.
	By string
	// Trace is the span in which the author schedules the task, as TraceOf returns it. "" means no span, because the
	// span of the call's ctx is not used.
	Trace string
}

// ScheduleAs is ScheduleMany for tasks of several authors, for example for the follow-ups of many tasks. It is for
// engines.
func (s *Store) ScheduleAs(ctx context.Context, db DB, tasks []TaskAs) ([]Receipt, error) {
	wires := make([]wireTask, len(tasks))
	for i, task := range tasks {
		wire, err := s.wire(ctx, task.Task)
		if err != nil {
			return nil, fmt.Errorf("schedule for others: task %d of %d: %w", i+1, len(tasks), err)
		}
		wire.ScheduledBy, wire.Trace = check.OrNil(task.By), check.OrNil(task.Trace)
		wires[i] = wire
	}
	near := slices.ContainsFunc(tasks, func(task TaskAs) bool { return soon(task.Task) })
	return s.scheduleWires(ctx, db, wires, near, "schedule")
}
