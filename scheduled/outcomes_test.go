package scheduled

import (
	"context"
	"fmt"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

type ownBackoff struct{}

func (ownBackoff) TaskType() string { return "OWN_BACKOFF" }

// Types that no node has wait, and are seen to; all others go on. When a node has them, they run.
func TestUnknownTypeWaits(t *testing.T) {
	s := newBench(t)
	s.node(nil)
	for i := range 500 {
		s.Add(fmt.Sprint("unknown ", i), func(task *store.Task) {
			task.Payload, task.Priority = store.JSON(`{"type":"UNKNOWN"}`), 100
		})
	}
	s.Add("elsewhere", func(task *store.Task) { task.Queue = "elsewhere" })
	for i := range 5 {
		id := fmt.Sprint("known ", i)
		s.Add(id, nil)
		s.Begins(id).End <- nil
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	s.Counts("tasks wait", 501,
		`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'QUEUED' AND attempt = 0 AND fence IS NULL`)
	s.Counts("tasks are seen to have no node", 501, `SELECT count(*) FROM tasktable.late_tasks WHERE NOT has_node`)
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 100, "elsewhere": 1} },
		handlers.Func("UNKNOWN", func(context.Context) error { return nil }), handlers.Handle(s.Handle))
	s.Begins("elsewhere").End <- nil
	s.Sees("all are completed", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
}
