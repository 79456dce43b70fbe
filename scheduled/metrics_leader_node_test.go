package scheduled

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// What one node knows for all it shows while it leads and goes on looking; else it would be shown twice, and old.
func TestOnlyTheLeaderShowsWhatItSaw(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	registry := prometheus.NewPedanticRegistry()
	tr := s.prepare(func(c *Config) { c.Metrics = registry }, handlers.Handle(s.handle))
	if _, err := tr.metrics.Register(); err != nil {
		t.Fatal(err)
	}
	shows := func() bool { return enginetest.Has(enginetest.Scraped(t, registry), "nodes") }
	if got := enginetest.Scraped(t, registry); got["node_up"] != 0 || got["leader"] != 0 ||
		enginetest.Has(got, "slots default") {
		t.Errorf("before it has begun: %v", got)
	}
	tr.metrics.Begun(tr.state)
	tr.metrics.Sees(taskdb.ListedLanes{}, []taskdb.LiveNode{{Number: 1, Held: true}})
	if shows() {
		t.Error("it does not lead")
	}
	if err := tr.session.TryLead(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !shows() {
		t.Error("it leads")
	}
	tr.metrics.Seen.Store(&metrics.Sight{At: time.Now().Add(-metrics.SightValid)})
	if shows() {
		t.Error("it has not looked for long")
	}
	if err := tr.session.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.run()
	enginetest.Eventually(t, patience, "it leads and looks", shows)
}
