package metrics

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// A node shows all nodes' figures only while it leads and goes on looking. Otherwise they would be shown twice, or old.
func TestOnlyTheLeaderShowsWhatItSaw(t *testing.T) {
	t.Parallel()
	m, registry := registered(t, Config{Service: "not UTF-8: \xff"})
	shows := func() bool { return enginetest.Has(enginetest.Scraped(t, registry), "nodes") }
	if got := enginetest.Scraped(t, registry); got["node_up"] != 0 || got["leader"] != 0 ||
		enginetest.Has(got, "slots default") || got["node_info  not UTF-8: ? "] != 1 {
		t.Errorf("before it has begun: %v", got)
	}
	var leads atomic.Bool
	m.Begun(func() NodeState {
		return NodeState{Leads: leads.Load(), Slots: map[string]Usage{"default": {Size: 10, Used: 3}}}
	})
	m.Sees(taskdb.ListedLanes{}, []taskdb.LiveNode{{Number: 1, Held: true}, {Number: 2}})
	m.found.Store(&tableCounts{})
	if got := enginetest.Scraped(t, registry); got["node_up"] != 1 || got["slots_used default"] != 3 || shows() {
		t.Errorf("it does not lead: %v", got)
	}
	leads.Store(true)
	if got := enginetest.Scraped(t, registry); got["leader"] != 1 || got["nodes"] != 1 {
		t.Errorf("it leads: %v", got)
	}
	m.seen.Store(&sight{at: time.Now().Add(-sightValid)})
	if shows() {
		t.Error("it has not looked for long")
	}
	m.Sees(taskdb.ListedLanes{}, nil)
	m.Ended()
	if shows() {
		t.Error("it has ended")
	}
}
