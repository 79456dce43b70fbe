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
func (s *stage) put(queue string, n int) {
	s.t.Helper()
	for i := range n {
		s.schedule(fmt.Sprint(queue, " ", i), func(task *store.Task) {
			task.Queue, task.Payload = queue, enginetest.Job{Name: queue}
		})
	}
}

// running waits until so many tasks of a queue are in handlers, and fails the test if it is more.
func (s *stage) running(queue string, n int, acts map[string][]*act) {
	s.t.Helper()
	enginetest.Eventually(s.t, patience, fmt.Sprintf("%d tasks of %s run", n, queue), func() bool {
		s.enterAll(queue, acts)
		return len(acts[queue]) >= n
	})
	if got := len(acts[queue]); got != n {
		s.t.Errorf("%d tasks of %s run, want %d", got, queue, n)
	}
}

// enterAll notes the runs of a queue's tasks that have begun.
func (s *stage) enterAll(queue string, acts map[string][]*act) {
	for i := range 20 {
		select {
		case a := <-s.of(fmt.Sprint(queue, " ", i)):
			acts[queue] = append(acts[queue], a)
		default:
		}
	}
}

// finish ends the oldest run of a queue.
func (s *stage) finish(queue string, acts map[string][]*act) {
	s.t.Helper()
	a := acts[queue][0]
	acts[queue] = acts[queue][1:]
	a.end <- nil
	// On a busy machine the task may have gone back to the queue, which uses no attempt.
	if row := enginetest.Await(s.t, s.pool, a.ID, patience, store.StatusCompleted); row.Attempt != 1 {
		s.t.Errorf("task %s is completed at attempt %d", a.ID, row.Attempt)
	}
}

// Shared slots serve whoever has work; a queue that wants its own gets those that fall free first.
func TestSharedSlots(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	tr := s.prepare(
		func(c *Config) { c.Queues, c.ShareSlots = map[string]int{"a": 2, "b": 1}, true }, handlers.Handle(s.handle),
	)
	tr.run()
	acts := map[string][]*act{}
	lines := func(queues ...string) { // until one of each stands in line for a slot
		t.Helper()
		for _, queue := range queues {
			enginetest.Eventually(t, patience, "one of "+queue+" waits for a slot", func() bool {
				return tr.worker.Slots.Waiting(queue) > 0
			})
		}
	}
	s.put("b", 12)
	s.running("b", 3, acts)
	s.put("a", 8)
	lines("a")
	s.running("a", 0, acts)
	for n := 1; n <= 2; n++ {
		lines("a")
		s.finish("b", acts)
		s.running("a", n, acts)
		s.running("b", 3-n, acts)
	}
	// Now each has its own, and gets it again.
	for range 3 {
		lines("a", "b")
		s.finish("b", acts)
		s.running("b", 1, acts)
		s.running("a", 2, acts)
		lines("a", "b")
		s.finish("a", acts)
		s.running("a", 2, acts)
		s.running("b", 1, acts)
	}
	// One has no more to do, and the other has all.
	for left := 4; left >= 0; left-- {
		if lines("b"); left >= 2 {
			lines("a")
		}
		s.finish("a", acts)
		s.running("a", min(left, 2), acts)
		s.running("b", 3-min(left, 2), acts)
	}
	s.finishAll("b", 7, acts)
}

// finishAll ends so many runs of a queue, as they begin.
func (s *stage) finishAll(queue string, n int, acts map[string][]*act) {
	s.t.Helper()
	for range n {
		enginetest.Eventually(s.t, patience, "one of "+queue+" runs", func() bool {
			s.enterAll(queue, acts)
			return len(acts[queue]) > 0
		})
		s.finish(queue, acts)
	}
}

// Slots that are not shared stay with their queue; dedicated nodes work theirs only.
func TestSlotsOfQueues(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(func(c *Config) { c.Queues = map[string]int{"a": 2, "b": 1} }, handlers.Handle(s.handle))
	s.node(func(c *Config) { c.Queues = map[string]int{"x": 3} }, handlers.Handle(s.handle))
	s.node(func(c *Config) { c.Queues = map[string]int{"x": 2, "y": 1} }, handlers.Handle(s.handle))
	slots := map[string]int{"a": 2, "b": 1, "x": 5, "y": 1}
	acts := map[string][]*act{}
	s.put("b", 8)
	s.running("b", 1, acts)
	for _, queue := range []string{"a", "x", "y"} {
		s.put(queue, 8)
	}
	for queue, n := range slots {
		s.running(queue, n, acts)
	}
	s.passes(s.now().Add(1100 * time.Millisecond))
	for queue, n := range slots {
		s.running(queue, n, acts)
	}
	for queue := range slots {
		s.finishAll(queue, 8, acts)
	}
	if n := s.count(`SELECT count(*) FROM tasktable.scheduled_task_executions AS e
		JOIN tasktable.nodes AS n ON n.number = e.node
		JOIN tasktable.scheduled_tasks AS t ON t.id = e.task_id WHERE NOT n.queues ? t.queue`); n != 0 {
		t.Errorf("%d tasks ran on nodes that do not work their queues", n)
	}
}

// What a node's configuration pauses, it does not work, and others do. A node that works nothing may lead.
func TestConfigPaused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	queues := func(paused ...store.Scope) func(*Config) {
		return func(c *Config) { c.Queues, c.Paused = map[string]int{"default": 5, "side": 5}, paused }
	}
	parts := []handlers.Part{handlers.Handle(s.handle), handlers.Handle(s.handleOther)}
	s.node(queues(store.Everything()), parts...)
	put := func(id, queue string, payload store.Payload) {
		s.schedule(id, func(task *store.Task) { task.Queue, task.Payload = queue, payload })
	}
	put("alone", "default", enginetest.Job{})
	enginetest.Eventually(t, patience, "the node leads", func() bool {
		return s.count(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
			AND objid = 0
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	})
	s.passes(s.now().Add(1100 * time.Millisecond))
	s.is("alone", store.StatusQueued)
	if n := s.count(`SELECT count(*) FROM tasktable.late_tasks WHERE NOT has_node`); n != 1 {
		t.Error("the task is not said to have no node")
	}
	leader := s.count(`SELECT number FROM tasktable.nodes`)

	s.node(queues(store.Queue("side")), parts...)
	s.begins("alone").end <- nil
	s.is("alone", store.StatusCompleted, taskdb.OutcomeCompleted)
	put("side job", "side", enginetest.Job{})
	put("job", "default", enginetest.Job{})
	s.begins("job").end <- nil
	s.is("job", store.StatusCompleted, taskdb.OutcomeCompleted)
	second := s.count(`SELECT max(number) FROM tasktable.nodes`)
	s.passes(s.now().Add(1100 * time.Millisecond))
	s.is("side job", store.StatusQueued)

	s.node(queues(store.Type("JOB"), store.Queue("default")), parts...)
	put("side other", "side", otherJob{})
	s.begins("side other").end <- nil
	s.is("side other", store.StatusCompleted, taskdb.OutcomeCompleted)
	third := s.count(`SELECT max(number) FROM tasktable.nodes`)
	put("other", "default", otherJob{})
	s.begins("other").end <- nil
	s.is("other", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.is("side job", store.StatusQueued)
	for id, want := range map[string]int{"alone": second, "job": second, "other": second, "side other": third} {
		if node := s.count(`SELECT node FROM tasktable.scheduled_task_executions
			WHERE task_id = $1`, id); node != want {
			t.Errorf("%s ran on node %d, want %d", id, node, want)
		}
	}
	if n := s.count(`SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND queues = '{}'
		AND dead_at IS NULL`, leader); n != 1 {
		t.Error("the node that works nothing is said to work something")
	}
}
