package scheduled

import (
	"fmt"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A task that takes long does not keep the rest of its job from running. The job says how far the node goes on.
func TestBatchGoesOnPastItsWindow(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	const n = 4
	for i := range n {
		s.Add(fmt.Sprint(i), nil)
	}
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	tr.oneBatch("default", n)
	s.Exec(`UPDATE tasktable.river_job SET metadata = metadata || '{"window": 1}'`)
	tr.run()
	slow := s.Begins("0")
	for i := 1; i < n; i++ {
		s.Begins(fmt.Sprint(i)).End <- nil
		s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	s.Sees("the job says so", `SELECT (metadata ->> 'began')::int >= 4 FROM tasktable.river_job`)
	slow.End <- nil
	s.Is("0", store.StatusCompleted, taskdb.OutcomeCompleted)
}
