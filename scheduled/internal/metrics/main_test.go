package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// bench is a database on which a test runs the engine's statements at chosen times, without a node.
type bench struct{ *enginetest.Bench }

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return &bench{enginetest.New(t)}
}

// registered are metrics with a registry of their own.
func registered(t *testing.T, config Config) (*Metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	config.Registerer = registry
	m := New(config)
	if _, err := m.Register(); err != nil {
		t.Fatal(err)
	}
	return m, registry
}
