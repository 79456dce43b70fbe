package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/tasktable/tasktable/store/internal/check"
)

// TaskAs is a task that somebody else than Config.Service schedules.
type TaskAs struct {
	Task
	// By is who schedules it, for the task's scheduled_by and for its line of changes. "" is Config.Service.
	By string
	// Trace is the span in which it is scheduled, as TraceOf gives it. "" is none: the span of the call's ctx does not
	// count.
	Trace string
}

// ScheduleAs is ScheduleMany for tasks that several authors schedule. The engine schedules the follow-ups of many tasks
// by it.
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
