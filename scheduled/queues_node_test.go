package scheduled

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// put schedules so many tasks of a queue.
func (s *bench) put(queue string, n int) {
	s.T.Helper()
	for i := range n {
		s.Add(fmt.Sprint(queue, " ", i), func(task *store.Task) {
			task.Queue, task.Payload = queue, enginetest.Job{Name: queue}
		})
	}
}

// running waits until so many tasks of a queue are in handlers, and fails the test if it is more.
func (s *bench) running(queue string, n int, acts map[string][]*enginetest.Attempt) {
	s.T.Helper()
	enginetest.Eventually(s.T, patience, fmt.Sprintf("%d tasks of %s run", n, queue), func() bool {
		s.enterAll(queue, acts)
		return len(acts[queue]) >= n
	})
	if got := len(acts[queue]); got != n {
		s.T.Errorf("%d tasks of %s run, want %d", got, queue, n)
	}
}

// enterAll notes the runs of a queue's tasks that have begun.
func (s *bench) enterAll(queue string, acts map[string][]*enginetest.Attempt) {
	for i := range 20 {
		select {
		case a := <-s.Of(fmt.Sprint(queue, " ", i)):
			acts[queue] = append(acts[queue], a)
		default:
		}
	}
}

// finish ends the oldest run of a queue.
func (s *bench) finish(queue string, acts map[string][]*enginetest.Attempt) {
	s.T.Helper()
	a := acts[queue][0]
	acts[queue] = acts[queue][1:]
	a.End <- nil
	// On a busy machine the task may have gone back to the queue, which uses no attempt.
	if row := enginetest.Await(s.T, s.Pool, a.ID, patience, store.StatusCompleted); row.Attempt != 1 {
		s.T.Errorf("task %s is completed at attempt %d", a.ID, row.Attempt)
	}
}

// finishAll ends so many runs of a queue, as they begin.
func (s *bench) finishAll(queue string, n int, acts map[string][]*enginetest.Attempt) {
	s.T.Helper()
	for range n {
		enginetest.Eventually(s.T, patience, "one of "+queue+" runs", func() bool {
			s.enterAll(queue, acts)
			return len(acts[queue]) > 0
		})
		s.finish(queue, acts)
	}
}

// Slots that are not shared stay with their queue; dedicated nodes work theirs only.
func TestSlotsOfQueues(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) { c.Queues = map[string]int{"a": 2, "b": 1} }, handlers.Handle(s.Handle))
	s.node(func(c *Config) { c.Queues = map[string]int{"x": 3} }, handlers.Handle(s.Handle))
	s.node(func(c *Config) { c.Queues = map[string]int{"x": 2, "y": 1} }, handlers.Handle(s.Handle))
	slots := map[string]int{"a": 2, "b": 1, "x": 5, "y": 1}
	acts := map[string][]*enginetest.Attempt{}
	s.put("b", 8)
	s.running("b", 1, acts)
	for _, queue := range []string{"a", "x", "y"} {
		s.put(queue, 8)
	}
	for queue, n := range slots {
		s.running(queue, n, acts)
	}
	s.Passes(s.Now().Add(1100 * time.Millisecond))
	for queue, n := range slots {
		s.running(queue, n, acts)
	}
	for queue := range slots {
		s.finishAll(queue, 8, acts)
	}
	s.Counts("tasks ran on nodes that do not work their queues", 0,
		`SELECT count(*) FROM tasktable.scheduled_task_executions AS e
		JOIN tasktable.nodes AS n ON n.number = e.node
		JOIN tasktable.scheduled_tasks AS t ON t.id = e.task_id WHERE NOT n.queues ? t.queue`)
}

// What a node's configuration pauses, it does not work, and others do. A node that works nothing may lead.
func TestConfigPaused(t *testing.T) {
	s := newBench(t)
	queues := func(paused ...store.Scope) func(*Config) {
		return func(c *Config) { c.Queues, c.Paused = map[string]int{"default": 5, "side": 5}, paused }
	}
	parts := []handlers.Part{handlers.Handle(s.Handle), handlers.Handle(s.handleOther)}
	s.node(queues(store.Everything()), parts...)
	put := func(id, queue string, payload store.Payload) {
		s.Add(id, func(task *store.Task) { task.Queue, task.Payload = queue, payload })
	}
	put("alone", "default", enginetest.Job{})
	s.Sees("the node leads",
		`SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
			AND objid = 0
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	s.Passes(s.Now().Add(1100 * time.Millisecond))
	s.Is("alone", store.StatusQueued)
	s.Counts("the task is not said to have no node", 1,
		`SELECT count(*) FROM tasktable.late_tasks WHERE NOT has_node`)
	leader := s.Count(`SELECT number FROM tasktable.nodes`)

	s.node(queues(store.Queue("side")), parts...)
	s.Begins("alone").End <- nil
	s.Is("alone", store.StatusCompleted, taskdb.OutcomeCompleted)
	put("side job", "side", enginetest.Job{})
	put("job", "default", enginetest.Job{})
	s.Begins("job").End <- nil
	s.Is("job", store.StatusCompleted, taskdb.OutcomeCompleted)
	second := s.Count(`SELECT max(number) FROM tasktable.nodes`)
	s.Passes(s.Now().Add(1100 * time.Millisecond))
	s.Is("side job", store.StatusQueued)

	s.node(queues(store.Type("JOB"), store.Queue("default")), parts...)
	put("side other", "side", otherJob{})
	s.Begins("side other").End <- nil
	s.Is("side other", store.StatusCompleted, taskdb.OutcomeCompleted)
	third := s.Count(`SELECT max(number) FROM tasktable.nodes`)
	put("other", "default", otherJob{})
	s.Begins("other").End <- nil
	s.Is("other", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("side job", store.StatusQueued)
	for id, want := range map[string]int{"alone": second, "job": second, "other": second, "side other": third} {
		if node := s.Count(`SELECT node FROM tasktable.scheduled_task_executions
			WHERE task_id = $1`, id); node != want {
			t.Errorf("%s ran on node %d, want %d", id, node, want)
		}
	}
	s.Counts("the node that works nothing is said to work something", 1,
		`SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND queues = '{}' AND dead_at IS NULL`, leader)
}
