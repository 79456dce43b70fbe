package scheduled

import (
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// What was claimed for the only node of a type, and which that one had no slot for yet, goes back when the node is
// there no more, whether it is quiet or has stopped, and does not wait for its lease.
func TestClaimsThatNoNodeWorksGoBack(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(node *Node, stop func(), runs *enginetest.Attempt){
		"quiet":   func(node *Node, _ func(), _ *enginetest.Attempt) { node.Quiet() },
		"stopped": func(_ *Node, stop func(), runs *enginetest.Attempt) { runs.End <- nil; stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBench(t)
			s.node(nil, handlers.Handle(s.handleOther))
			s.Sees("the other node leads", leadsLastSQL, 1)
			slots := func(c *Config) { c.Queues = map[string]int{"default": 1} }
			node, stop := s.member(slots)
			s.Add("runs", nil)
			runs := s.Begins("runs")
			s.Add("waits", nil)
			enginetest.Await(t, s.Pool, "waits", patience, store.StatusExecuting)

			if name == "stopped" { // a node that ends its last run takes up what waits: it must not see it end
				s.Exec(`UPDATE tasktable.river_job SET scheduled_at = 'infinity' WHERE state = 'available'`)
			}
			leave(node, stop, runs)
			row := s.Is("waits", store.StatusQueued, taskdb.OutcomeReleased)
			if got := s.ErrorOf("waits"); row.Attempt != 0 || got != "no node had a slot for it in time" {
				t.Errorf("attempt %d, %q", row.Attempt, got)
			}
			s.Sees("its River job is gone", `SELECT count(*) = 0 FROM tasktable.river_job WHERE state = 'available'`)
			if name == "quiet" {
				runs.End <- nil
			}
			s.Is("runs", store.StatusCompleted, taskdb.OutcomeCompleted)

			s.member(slots)
			s.Begins("waits").End <- nil
			s.Is("waits", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
		})
	}
}
