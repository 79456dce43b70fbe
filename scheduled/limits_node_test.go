package scheduled

import (
	"fmt"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// set sets a limit.
func (s *bench) set(limit store.Limit) {
	s.T.Helper()
	s.Did(s.Tasks.SetLimit(s.T.Context(), s.Pool, limit))
}

// Over two nodes no more tasks of a queue run than its limit says, from the start, after it has grown and after it has
// shrunk. Tasks of other queues have the other slots.
func TestLimitOfAllNodes(t *testing.T) {
	s := newBench(t)
	begun, let := make(chan string, 100), make(chan struct{})
	p := &pit{begun: begun, let: let}
	limit := store.Limit{Name: "slow", Of: store.Queue("slow"), MaxRunning: 3}
	s.set(limit)
	for range 2 {
		s.node(func(c *Config) {
			c.Queues = map[string]int{"default": 5, "slow": 5}
		}, handlers.Handle(p.run), handlers.Handle(s.Handle))
	}
	for i := range 20 {
		s.Add(fmt.Sprint("slow ", i), func(task *store.Task) { task.Payload, task.Queue = quick{}, "slow" })
	}
	next := func() string { return enginetest.Receive(t, begun, patience, "another slow task begins") }
	for range 3 {
		next()
	}
	s.Add("plain", nil)
	s.Begins("plain").End <- nil
	const held = `SELECT count(*) = %d FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL AND type = 'QUICK'`
	s.Sees("three run", fmt.Sprintf(held, 3))
	s.Sees("others tell why they wait", `SELECT count(*) = 17 FROM tasktable.task_reasons
		WHERE code = 'limited' AND data -> 'limit' ->> 'running' = '3'`)
	limit.MaxRunning = 5
	s.set(limit)
	next()
	next()
	limit.MaxRunning = 2
	s.set(limit)
	for range 3 { // five run, and three may end before another begins
		let <- struct{}{}
	}
	s.Sees("two run", fmt.Sprintf(held, 2))
	for range 4 {
		let <- struct{}{}
		next()
		s.Sees("two run", fmt.Sprintf(held, 2))
	}
	s.Did(s.Tasks.RemoveLimit(t.Context(), s.Pool, "slow"))
	for range 6 {
		next()
	}
	close(let)
	s.Sees("all have run",
		`SELECT count(*) = 20 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED' AND type = 'QUICK'`)
}

// Somebody who changes a limit in an open transaction holds up no claim.
func TestLimitsInAnOpenTransaction(t *testing.T) {
	s := newBench(t)
	limit := store.Limit{Name: "jobs", Of: store.Type("JOB"), MaxRunning: 5, Rate: 1000, Burst: 100}
	s.set(limit)
	s.node(nil, handlers.Handle(s.Handle))
	s.Add("first", nil)
	s.Begins("first").End <- nil
	tx := s.Begin()
	limit.Burst = 7
	s.Did(s.Tasks.SetLimit(t.Context(), tx, limit))
	s.Did(s.Tasks.RemoveLimit(t.Context(), tx, "jobs"))
	s.Add("second", nil)
	s.Begins("second").End <- nil
}
