package scheduled

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Without Config.Metrics there is nothing that counts, and nothing is put anywhere, least of all into the
// default registry.
func TestNoMetrics(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(func(c *Config) { c.censusEvery = 10 * time.Millisecond })
	s.schedule("a", nil)
	s.begins("a").end <- nil
	s.is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "tasktable") {
			t.Errorf("the default registry has %s", family.GetName())
		}
	}
	m := newMetrics(Config{})
	if m != nil {
		t.Fatalf("%+v", m)
	}
	unregister, err := m.register(nil)
	if err != nil {
		t.Fatal(err)
	}
	unregister()
	m.begun(nil)
	m.ended()
	m.sees(taskdb.ListedLanes{}, nil)
	m.took([]taskdb.ClaimedTask{{}})
	m.gateAnswered(1)
	m.settled(1, 1, nil)
	m.looked(lookTick, true)
	m.passed(1, true)
	m.inserted(1, 1)
	m.carried(1)
	if hooks := m.hooks(); hooks != nil {
		t.Errorf("%d hooks", len(hooks))
	}
	none := m.of("JOB")
	none.starts(1)
	none.ran(1)
	none.recorded(taskdb.OutcomeCompleted)
	none.died("FAILED")
	none.putOff()
}

// Of two nodes with one registerer the second does not start, and says what to do. With labels of their own both
// run; what only the leader knows is told once. When a node has stopped nothing of it is left, and it may run
// again, and counts on.
func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	registry := prometheus.NewPedanticRegistry()
	handler := handlers.Handle(s.handle)
	registered, err := handlers.NewRegistry(handler)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Pool: s.nodes, Handlers: registered, Service: "test", Logger: testLogger(), Metrics: registry,
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
		eventually(t, 10*time.Second, "it leads", func() bool { return scraped(t, registry)["leader"] == 1 })
		return func() {
			t.Helper()
			cancel()
			if err := receive(t, done, 20*time.Second, "the node stops"); err != nil {
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
	if got := scraped(t, registry)["leader"]; got != 1 {
		t.Errorf("the first node is said to lead: %v", got)
	}
	s.schedule("a", nil)
	s.begins("a").end <- nil
	s.is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
	stop()
	if left := scraped(t, registry); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	stop = run(first)
	if got := scraped(t, registry); got["tasks_started_total JOB"] != 1 || got["node_lives_total"] != 2 {
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
	s.schedule("later", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	eventually(t, 10*time.Second, "one leads, and tells of both", func() bool {
		got := scraped(t, registry)
		return got["leader one"]+got["leader two"] == 1 && got["nodes one"]+got["nodes two"] == 2 &&
			got["node_up one"] == 1 && got["node_up two"] == 1
	})
	lanes := 0
	for name := range scraped(t, registry) {
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
	s := newStage(t)
	registry := prometheus.NewPedanticRegistry()
	s.node(func(c *Config) { c.Metrics, c.censusEvery = registry, 20*time.Millisecond })
	s.schedule("an-id", func(task *store.Task) { task.Entity, task.TenantID = "an-entity", "a-tenant" })
	s.begins("an-id").end <- handlers.Permanent(errors.New("an-error"))
	s.is("an-id", store.StatusFailed, taskdb.OutcomeFailed)
	eventually(t, 10*time.Second, "the leader has counted", func() bool {
		return scraped(t, registry)["dead_letters FAILED JOB"] == 1
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

// However many types and lanes there are, so many have series of their own, and the rest share one.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	var parts []handlers.Part
	for i := range maxTypeSeries - 10 {
		parts = append(parts, handlers.Func(fmt.Sprintf("TYPE_%03d", i), func(context.Context) error { return nil }))
	}
	registered, err := handlers.NewRegistry(parts...)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	m := newMetrics(Config{Metrics: registry, Handlers: registered, Queues: map[string]int{"default": 1}})
	if _, err := m.register(registry); err != nil {
		t.Fatal(err)
	}
	var taken []taskdb.ClaimedTask
	for i := range 1000 {
		taken = append(taken, taskdb.ClaimedTask{Type: fmt.Sprintf("FOREIGN_%d", i), Fence: new(int64(i))})
	}
	m.took(append(taken, taskdb.ClaimedTask{Type: "not UTF-8: \xff"}, taskdb.ClaimedTask{Type: ""}))
	got := scraped(t, registry)
	if claims := some(got, "tasks_claimed_total"); len(claims) != 11 || claims[otherLabel] != 990 {
		t.Errorf("%d types: %v", len(claims), claims)
	}
	if expired := some(got, "executions_total"); len(expired) != 1 || expired["EXPIRED "+otherLabel] != 2 {
		t.Errorf("%v", expired)
	}
	if len(got) > 15000 {
		t.Errorf("%d series", len(got))
	}
}
