package scheduled

import (
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// Of several new lanes a look from the marks on finds the highest first. Its tasks must not wait behind
// those of others.
func TestAPassKnowsNewLanesBeforeItClaims(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	tr := s.prepare(func(c *Config) { c.Queues = map[string]int{"default": 1} }, handlers.Handle(s.Handle))
	tr.turns()
	for id, priority := range map[string]int{"low": -10, "middle": 0, "high": 10} {
		s.Add(id, func(task *store.Task) { task.Priority = priority })
	}
	if _, err := tr.leader.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks
		WHERE (status = 'EXECUTING') = (id = 'high')`); got != 3 {
		t.Error("another task than the most urgent one is claimed")
	}
	tr.run()
	for _, id := range []string{"high", "middle", "low"} {
		s.Begins(id).End <- nil
	}
	s.Idle("high", "middle", "low")
}
