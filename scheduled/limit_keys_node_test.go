package scheduled

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// crew runs tasks of groups and tenants, and counts how many of each run at once. A task of a group that is held waits
// until let is closed.
type crew struct {
	held  string
	let   chan struct{}
	took  time.Duration
	begun chan string

	mu    sync.Mutex
	now   map[string]int
	peaks map[string]int
}

func newCrew() *crew {
	return &crew{
		let: make(chan struct{}), begun: make(chan string, 20_000), now: map[string]int{}, peaks: map[string]int{},
	}
}

func (c *crew) run(_ context.Context, about *handlers.Task[quick]) error {
	c.count(about.Group, 1)
	defer c.count(about.Group, -1)
	c.begun <- about.ID
	if c.held != "" && about.Group == c.held {
		<-c.let
	}
	if c.took > 0 {
		<-time.After(c.took)
	}
	return nil
}

func (c *crew) count(group string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[group] += n
	c.peaks[group] = max(c.peaks[group], c.now[group])
}

// addMany schedules tasks that are due now.
func (s *bench) addMany(n int, id string, change func(*store.Task)) {
	s.T.Helper()
	tasks := make([]store.Task, n)
	for i := range tasks {
		tasks[i] = store.Task{ID: fmt.Sprint(id, " ", i), Payload: quick{}}
		change(&tasks[i])
	}
	s.Did(s.Tasks.ScheduleMany(s.T.Context(), s.Pool, tasks))
}

// Over two nodes one task of each group runs at a time, also of those that were scheduled before the limit. A group
// whose task hangs holds no other up, though hundreds of its tasks are due. Tasks without a group are not counted.
func TestLimitOfEachGroup(t *testing.T) {
	s := newBench(t)
	c := newCrew()
	c.held = "big"
	in := func(group string) func(*store.Task) { return func(task *store.Task) { task.Group = group } }
	s.addMany(50, "before", in("a"))
	s.set(store.Limit{Name: "each", Of: store.Type("QUICK"), Per: store.PerGroup, MaxRunning: 1})
	s.addMany(600, "big", in("big"))
	for range 2 {
		s.node(func(c *Config) { c.Queues = map[string]int{"default": 5} }, handlers.Handle(c.run))
	}
	for i := range 20 {
		s.addMany(5, fmt.Sprint("small ", i), in(fmt.Sprint("small ", i)))
	}
	s.addMany(20, "alone", in(""))
	s.addMany(50, "after", in("a"))
	s.Sees("all others have run", `SELECT count(*) = 220 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`)
	s.Sees("one of the big group is claimed, and others tell why they wait", `SELECT
		(SELECT count(*) FROM tasktable.river_job WHERE metadata ->> 'key' = 'g:big') = 1 AND
		(SELECT data -> 'limit' ->> 'key' FROM tasktable.task_reasons WHERE code = 'limited' LIMIT 1) = 'g:big'`)
	s.Did(s.Tasks.RemoveLimit(t.Context(), s.Pool, "each"))
	close(c.let)
	s.Sees("all have run", `SELECT count(*) = 820 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.peaks, "big") // after the limit was removed
	delete(c.peaks, "")
	for group, peak := range c.peaks {
		if peak != 1 {
			t.Errorf("%d tasks of group %s ran at once", peak, group)
		}
	}
}

// A tenant of weight 3 has three turns for one of another.
func TestTenantsOfWeights(t *testing.T) {
	s := newBench(t)
	c := newCrew()
	c.took = 260 * time.Millisecond // so that a turn is one task
	s.set(store.Limit{Name: "fair", Of: store.Everything(), Per: store.PerTenant, Weights: store.Weights{"large": 3}})
	for _, tenant := range []string{"large", "small"} {
		s.addMany(20, tenant, func(task *store.Task) { task.TenantID = tenant })
	}
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 1} }, handlers.Handle(c.run))
	var order string
	for range 16 {
		order += enginetest.Receive(t, c.begun, patience, "a task begins")[:1]
	}
	if order != "lllslllslllsllls" {
		t.Errorf("in the order of their tenants: %s", order)
	}
}
