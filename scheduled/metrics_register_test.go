package scheduled

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Without Config.Metrics nothing is registered anywhere, least of all in the default registry.
func TestNoMetrics(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.node(func(c *Config) { c.censusEvery = 10 * time.Millisecond })
	s.Add("a", nil)
	s.Begins("a").End <- nil
	s.Is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "tasktable") {
			t.Errorf("the default registry has %s", family.GetName())
		}
	}
}

// Of two nodes with one registerer the second does not start, and says what to do. With labels of their own both
// run; what only the leader knows is told once. When a node has stopped nothing of it is left, and it may run
// again, and counts on.
func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	registry := prometheus.NewPedanticRegistry()
	handler := handlers.Handle(s.Handle)
	registered, err := handlers.NewRegistry(handler)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Pool: s.nodes, Handlers: registered, Service: "test", Logger: enginetest.Logger(), Metrics: registry,
		censusEvery: 50 * time.Millisecond,
	}
	first, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	run := func(node *Node) (stop func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- node.Run(ctx) }()
		enginetest.Eventually(t, patience, "it leads", func() bool {
			return enginetest.Scraped(t, registry)["leader"] == 1
		})
		return func() {
			t.Helper()
			cancel()
			if err := enginetest.Receive(t, done, patience, "the node stops"); err != nil {
				t.Error(err)
			}
		}
	}
	stop := run(first)
	second, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	err = second.Run(t.Context())
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "scheduled.Config.Metrics") ||
		!strings.Contains(err.Error(), "prometheus.WrapRegistererWith") {
		t.Errorf("the second node: %v", err)
	}
	if got := enginetest.Scraped(t, registry)["leader"]; got != 1 {
		t.Errorf("the first node is said to lead: %v", got)
	}
	s.Add("a", nil)
	s.Begins("a").End <- nil
	s.Is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
	stop()
	if left := enginetest.Scraped(t, registry); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	stop = run(first)
	if got := enginetest.Scraped(t, registry); got["tasks_started_total JOB"] != 1 || got["node_lives_total"] != 2 {
		t.Errorf("the node that runs again: %v", got)
	}
	stop()

	registry = prometheus.NewPedanticRegistry() // what had no such label must not get one
	for _, name := range []string{"one", "two"} {
		s.node(func(c *Config) {
			c.Metrics, c.censusEvery = prometheus.WrapRegistererWith(
				prometheus.Labels{"node": name}, registry,
			), 50*time.Millisecond
		}, handler)
	}
	s.Add("later", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	enginetest.Eventually(t, patience, "one leads, and tells of both", func() bool {
		got := enginetest.Scraped(t, registry)
		return got["leader one"]+got["leader two"] == 1 && got["nodes one"]+got["nodes two"] == 2 &&
			got["node_up one"] == 1 && got["node_up two"] == 1
	})
	lanes := 0
	for name := range enginetest.Scraped(t, registry) {
		if strings.HasPrefix(name, "lane_nodes ") {
			lanes++
		}
	}
	if lanes != 1 {
		t.Errorf("the lane is told of %d times", lanes)
	}
}

// The names are as Prometheus wants them; no label can have an id, a tenant or an entity as its value.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	registry := prometheus.NewPedanticRegistry()
	s.node(func(c *Config) { c.Metrics, c.censusEvery = registry, 20*time.Millisecond })
	s.Add("an-id", func(task *store.Task) { task.Entity, task.TenantID = "an-entity", "a-tenant" })
	s.Begins("an-id").End <- handlers.Permanent(errors.New("an-error"))
	s.Is("an-id", store.StatusFailed, taskdb.OutcomeFailed)
	enginetest.Eventually(t, patience, "the leader has counted", func() bool {
		return enginetest.Scraped(t, registry)["dead_letters FAILED JOB"] == 1
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	bounded := []string{
		"type", "outcome", "status", "queue", "priority", "look", "scope", "state", "pool", "service", "version",
		"schema",
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if !slices.Contains(bounded, label.GetName()) {
					t.Errorf("%s has the label %s", family.GetName(), label.GetName())
				}
				if slices.Contains([]string{"an-id", "an-entity", "a-tenant", "an-error"}, label.GetValue()) {
					t.Errorf("%s has %s = %q", family.GetName(), label.GetName(), label.GetValue())
				}
			}
		}
	}
}
