package scheduled

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// pit is a handler that waits for a slow server. It counts how many of its runs there were at once.
type pit struct {
	begun chan string
	let   chan struct{}

	mu            sync.Mutex
	running, peak int
}

func (p *pit) run(ctx context.Context, task *handlers.Task[quick]) error {
	p.mu.Lock()
	p.running++
	p.peak = max(p.peak, p.running)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.running--
		p.mu.Unlock()
	}()
	p.begun <- task.ID
	select {
	case <-p.let:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A type with a limit runs no more handlers at once than the limit, in all queues of the node together. Other types
// have the other slots, its own tasks keep their order, and another node has its own limit.
func TestTypeSlots(t *testing.T) {
	s := newBench(t)
	begun, let := make(chan string, 100), make(chan struct{})
	pits := []*pit{{begun: begun, let: let}, {begun: begun, let: let}}
	node := func(p *pit) {
		s.node(func(c *Config) {
			c.Queues = map[string]int{"default": 10, "other": 5}
			c.TypeSlots = map[string]int{"QUICK": 2}
		}, handlers.Handle(p.run), handlers.Handle(s.Handle))
	}
	node(pits[0])
	var tasks []store.Task
	for i := range 50 {
		queue := []string{"default", "other"}[i%2]
		tasks = append(tasks, store.Task{ID: fmt.Sprint("slow ", i), Payload: quick{}, Queue: queue})
	}
	s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, tasks))
	next := func() string { return enginetest.Receive(t, begun, patience, "another slow task begins") }
	next()
	next()
	for i := range 8 { // beside two slow tasks, in ten slots
		s.Add(fmt.Sprint("plain ", i), nil)
	}
	for i := range 8 {
		defer func(one *enginetest.Attempt) { one.End <- nil }(s.Begins(fmt.Sprint("plain ", i)))
	}
	s.Sees("no slow task is claimed beyond the limit",
		`SELECT count(*) = 2 FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL AND type = 'QUICK'`)
	for _, queue := range []string{"default", "other"} {
		s.Add("urgent "+queue, func(task *store.Task) {
			task.Payload, task.Queue, task.Priority = quick{}, queue, 9
		})
	}
	for range 2 {
		let <- struct{}{}
		if id := next(); !strings.HasPrefix(id, "urgent") {
			t.Errorf("%q begins before the urgent ones", id)
		}
	}
	node(pits[1])
	next()
	next()
	close(let)
	s.Sees("all slow tasks have run",
		`SELECT count(*) = 52 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED' AND type = 'QUICK'`)
	for i, p := range pits {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.peak != 2 {
			t.Errorf("node %d ran %d of the type at once, want 2", i+1, p.peak)
		}
	}
}
