package metrics

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// leads has a node lead that has seen and counted one of each thing.
func leads(m *Metrics) {
	m.Begun(func() NodeState {
		one := map[string]Usage{"default": {Size: 1}}
		return NodeState{Leads: true, Slots: one, TypeSlots: one, Hung: map[string]int{"JOB": 0}}
	})
	lane := taskdb.Lane{Queue: "default", Type: "JOB"}
	limit := taskdb.Limit{Name: "jobs", MaxRunning: new(5), Interval: time.Second, Burst: 1}
	m.Sees(taskdb.ListedLanes{Tasks: []taskdb.Lane{lane}, Limits: []taskdb.Limit{limit}}, nil)
	m.found.Store(&tableCounts{
		depth: map[laneLabels]int{labelsOf(lane): 1}, limit: 1, dead: map[deadLabels]int{{"JOB", "FAILED"}: 1},
		jobs: []jobsRow{{"available", 1}}, limited: map[string]limitedRow{}, recurring: []recurringRow{{ID: "nightly", LastSuccess: new(time.Now())}},
	})
}

// Without a registerer nothing is registered anywhere, least of all in the default registry.
func TestNoMetrics(t *testing.T) {
	t.Parallel()
	m := New(Config{Types: []string{"JOB"}})
	unregister, err := m.Register()
	enginetest.OK(t, err)
	leads(m)
	families, err := prometheus.DefaultGatherer.Gather()
	enginetest.OK(t, err)
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "tasktable") {
			t.Errorf("the default registry has %s", family.GetName())
		}
	}
	unregister()
}

// The second node with one registerer is refused, and told what to do. With a label of its own it is not. When a node
// has stopped, nothing of it is left. It may run again, and counts on.
func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	register := func(m *Metrics) (unregister func()) {
		t.Helper()
		unregister, err := m.Register()
		enginetest.OK(t, err)
		return unregister
	}
	first := New(Config{Registerer: registry, Types: []string{"JOB"}})
	unregister := register(first)
	leads(first)
	first.Of("JOB").Started.Inc()
	_, err := New(Config{Registerer: registry}).Register()
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "scheduled.Config.Metrics") ||
		!strings.Contains(err.Error(), "prometheus.WrapRegistererWith") {
		t.Errorf("the second node: %v", err)
	}
	if got := enginetest.Scraped(t, registry)["leader"]; got != 1 {
		t.Errorf("the first node is said to lead: %v", got)
	}
	first.Ended()
	unregister()
	if left := enginetest.Scraped(t, registry); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	unregister = register(first)
	leads(first)
	if got := enginetest.Scraped(t, registry); got["tasks_started_total JOB"] != 1 || got["node_lives_total"] != 2 {
		t.Errorf("the node that runs again: %v", got)
	}
	unregister()

	registry = prometheus.NewPedanticRegistry() // what had no such label must not get one
	for _, name := range []string{"one", "two"} {
		m := New(Config{Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"node": name}, registry)})
		defer register(m)()
		leads(m)
	}
	if got := enginetest.Scraped(t, registry); got["leader one"] != 1 || got["leader two"] != 1 {
		t.Errorf("with a label each: %v", got)
	}
}

// The names are as Prometheus wants them, and each gauge is shown. Only known labels exist. Of these, only those of
// recurring tasks have the id of a task.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	m, registry := registered(t, Config{Types: []string{"JOB"}, Queues: []string{"default"}})
	leads(m)
	families, err := registry.Gather()
	enginetest.OK(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	enginetest.OK(t, err)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	bounded := []string{
		"type", "outcome", "status", "queue", "priority", "look", "scope", "state", "pool", "service", "version",
		"schema", "limit",
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if !slices.Contains(bounded, label.GetName()) &&
					(label.GetName() != "id" || !strings.HasPrefix(family.GetName(), "tasktable_recurring_")) {
					t.Errorf("%s has the label %s", family.GetName(), label.GetName())
				}
			}
		}
	}
	for _, one := range gauges {
		if !strings.HasPrefix(one.name, "pool_") && !slices.Contains(names, "tasktable_"+one.name) {
			t.Errorf("%s is never shown", one.name)
		}
	}
}
