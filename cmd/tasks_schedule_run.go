package cmd

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// scheduledTask is the output of the command.
type scheduledTask struct {
	store.Receipt
	Status      store.Status `json:"status"`
	ScheduledAt time.Time    `json:"scheduled_at"`
	NextFire    *time.Time   `json:"next_fire,omitempty"`
}

func (s *tasksSchedule) run(ctx context.Context) error {
	if err := s.read(s.Clock); err != nil {
		return err
	}
	var done scheduledTask
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if done.Receipt, err = s.tasks.Schedule(ctx, tx, s.task); err != nil {
			return err
		}
		row, err := s.tasks.Get(ctx, tx, done.ID)
		done.Status, done.ScheduledAt = row.Status, row.ScheduledAt
		return err
	})
	if err != nil {
		return err
	}
	t := term.NewTable("ID", "OUTCOME", "STATUS", "SCHEDULED AT")
	at, ended := s.When(&done.ScheduledAt), ""
	if s.task.Recurrence != nil { // its scheduled_at is its start, which is no fire
		t = term.NewTable("ID", "OUTCOME", "STATUS", "NEXT FIRE ABOUT")
		done.NextFire, ended = s.nextFire(ctx, done.ID)
		at = s.When(done.NextFire)
	}
	t.Add(done.ID, done.Outcome, done.Status, at)
	if err := s.One(done, t); err != nil {
		return err
	}
	switch {
	case ended != "":
		s.Note("Warning: no fire is left: %s.", ended)
	case done.Status == store.StatusQueued:
		s.warnOfUnknown(ctx)
	}
	return nil
}

// nextFire computes the next fire as the command recurring next does. The leader plans it, and jitter can delay the
// occurrence. If there is none, ended says why. Both are empty if the database role may not read recurring tasks.
func (s *tasksSchedule) nextFire(ctx context.Context, id string) (at *time.Time, ended string) {
	forecast, err := s.inspector.NextFires(ctx, s.pool, id, 1)
	if err != nil || len(forecast.Fires) == 0 {
		return nil, forecast.Ended
	}
	return &forecast.Fires[0].At, ""
}

// warnOfUnknown notes that no node has the type, or the command or statement that the payload names, because this is
// usually a typing mistake. The task is scheduled all the same, because its node may start later. If the database role
// may not read the nodes, there is no note.
func (s *tasksSchedule) warnOfUnknown(ctx context.Context) {
	nodes, err := s.inspector.Nodes(ctx, s.pool, inspect.NodeFilter{})
	if err != nil {
		return
	}
	var types []string
	live := false
	for _, node := range nodes {
		if node.State == inspect.NodeSilent || node.State == inspect.NodeEnded {
			continue
		}
		live = true
		types = append(types, node.Types...)
	}
	name := s.task.Payload.TaskType()
	switch near := term.Nearest(name, types); {
	case !live:
		s.Note("Warning: no node is running, so the task waits.")
	case slices.Contains(types, name):
		s.warnOfUnknownName(types)
	case near != "":
		s.Note("Warning: no running node has a handler for type %s, so the task waits; did you mean %s?", name, near)
	default:
		s.Note("Warning: no running node has a handler for type %s, so the task waits.", name)
	}
}

// warnOfUnknownName notes that no node has the command or the statement of the payload.
func (s *tasksSchedule) warnOfUnknownName(types []string) {
	kind := s.task.Payload.TaskType()
	payload, _ := json.Marshal(s.task.Payload) // it is JSON already
	field, name, announced := inspect.NamedIn(kind, payload)
	if name == "" || slices.Contains(types, announced) {
		return
	}
	end := "."
	if near, is := strings.CutPrefix(term.Nearest(announced, types), kind+":"); is {
		end = "; did you mean " + term.Printable(near) + "?"
	}
	s.Note("Warning: no running node has %s %s, so the task will fail%s", field, term.Printable(name), end)
}
