package scheduled

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
)

// The leader makes a full pass at each PollInterval, also if nothing that it knows of is due.
func TestLeaderPolls(t *testing.T) {
	s, registry := newBench(t), prometheus.NewRegistry()
	s.node(func(c *Config) { c.Metrics, c.PollInterval = registry, time.Second }, handlers.Handle(s.Handle))
	passes := func() (n uint64) {
		families, err := registry.Gather()
		s.OK(err)
		for _, family := range families {
			if family.GetName() == "tasktable_pass_duration_seconds" {
				n = family.GetMetric()[0].GetHistogram().GetSampleCount()
			}
		}
		return n
	}
	// Three passes may have other causes, because the node has begun and looked at everything.
	enginetest.Eventually(t, patience, "passes", func() bool { return passes() >= 6 })
}
