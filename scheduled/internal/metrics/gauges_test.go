package metrics

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// What is shown of lanes is put together from what was seen, each second, and what was counted, less often.
func TestLanesShown(t *testing.T) {
	t.Parallel()
	nodes := []taskdb.LiveNode{
		{Number: 1, Queues: map[string]int{"default": 10}, Types: []string{"JOB", "OTHER"}, Held: true},
		{Number: 2, Queues: map[string]int{"default": 10, "bulk": 1}, Types: []string{"JOB"}, Held: true},
	}
	seen := &sight{lanes: taskdb.ListedLanes{
		Tasks: []taskdb.Lane{
			{Queue: "default", Type: "JOB", Priority: 5, Late: time.Minute},
			{Queue: "default", Type: "JOB", DueIn: time.Hour},
			{Queue: "bulk", Type: "OTHER", Late: time.Second},
		},
		Recurring: []taskdb.Lane{{Queue: "default", Type: "JOB", Recurring: true, Late: time.Second}},
		Paused:    []taskdb.Pause{{Scope: "queue", Name: "bulk"}},
	}}
	found := &tableCounts{
		depth: map[laneLabels]int{
			{"default", "JOB", "5"}: 7, {"default", "JOB", firesPriority}: 1, {"default", "GONE", "0"}: 0,
		},
		waits: map[laneLabels]waitingRow{
			{"default", "JOB", "0"}: {Tasks: 4, Age: 60}, {"bulk", "JOB", "0"}: {Tasks: 1, Age: 2},
		},
	}
	got := found.shown(seen.lanes, nodes)
	want := map[laneLabels]laneShown{
		{"default", "JOB", "5"}:           {depth: 7, age: time.Minute, nodes: 2},
		{"default", "JOB", "0"}:           {waiting: 4, age: time.Minute, nodes: 2},
		{"bulk", "JOB", "0"}:              {waiting: 1, age: 2 * time.Second, nodes: 1, paused: true},
		{"default", "JOB", firesPriority}: {depth: 1, age: time.Second, nodes: 2},
		{"default", "GONE", "0"}:          {},
		{"bulk", "OTHER", "0"}:            {age: time.Second, paused: true},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// Of many lanes most have series of their own, and none is left out.
func TestManyLanesShown(t *testing.T) {
	t.Parallel()
	seen, depth := &sight{}, map[laneLabels]int{}
	for i := range 3000 {
		one := taskdb.Lane{Queue: fmt.Sprintf("queue%04d", i), Type: "JOB", Late: time.Duration(i) * time.Second}
		seen.lanes.Tasks, depth[labelsOf(one)] = append(seen.lanes.Tasks, one), 2
	}
	seen.lanes.Paused = []taskdb.Pause{{Scope: "queue", Name: "queue2999"}}
	nodes := []taskdb.LiveNode{{
		Number: 1, Queues: map[string]int{"queue0000": 1, "queue2000": 1}, Types: []string{"JOB"}, Held: true,
	}}
	got := (&tableCounts{depth: depth}).shown(seen.lanes, nodes)
	if len(got) != maxLaneSeries+1 {
		t.Errorf("%d lanes are shown", len(got))
	}
	if first := got[laneLabels{"queue0000", "JOB", "0"}]; first != (laneShown{depth: 2, nodes: 1}) {
		t.Errorf("the first: %+v", first)
	}
	rest := got[laneLabels{otherLabel, otherLabel, otherLabel}]
	if want := (laneShown{depth: 2 * (3000 - maxLaneSeries), age: 2998 * time.Second}); rest != want {
		t.Errorf("the rest: %+v, want %+v", rest, want)
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
	enginetest.OK(t, err)
	registry := prometheus.NewPedanticRegistry()
	m := New(Config{Registerer: registry, Types: registered.Types(), Queues: []string{"default"}})
	if _, err := m.Register(); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		m.Of(fmt.Sprintf("FOREIGN_%d", i)).Claimed.Inc()
	}
	for _, kind := range []string{"not UTF-8: \xff", ""} {
		m.Of(kind).Recorded(taskdb.OutcomeExpired)
	}
	got := enginetest.Scraped(t, registry)
	if claims := enginetest.Some(got, "tasks_claimed_total"); len(claims) != 11 || claims[otherLabel] != 990 {
		t.Errorf("%d types: %v", len(claims), claims)
	}
	if expired := enginetest.Some(got, "executions_total"); len(expired) != 1 || expired["EXPIRED "+otherLabel] != 2 {
		t.Errorf("%v", expired)
	}
	if len(got) > 15000 {
		t.Errorf("%d series", len(got))
	}
}

// A node shows all nodes' figures only while it leads and goes on looking. Otherwise they would be shown twice, or old.
func TestOnlyTheLeaderShowsWhatItSaw(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m := New(Config{Registerer: registry, Service: "not UTF-8: \xff"})
	if _, err := m.Register(); err != nil {
		t.Fatal(err)
	}
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

// The due tasks that a limit holds back are counted, with the age of the oldest. A limit that holds back none has 0.
func TestLimitedTasksAreCounted(t *testing.T) {
	b := newBench(t)
	c := b.surveyor()
	seen := &sight{at: time.Now()}
	shown := func() string {
		t.Helper()
		b.OK(c.count(t.Context(), seen))
		var shown []string
		c.config.Metrics.found.Load().collect(seen, func(name string, value float64, labels ...string) {
			if word, of := strings.CutPrefix(name, "limit_"); of && (word == "waiting" || word == "oldest_due_age_seconds") {
				shown = append(shown, fmt.Sprintf("%s %s %.0f", labels[0], word, value/10))
			}
		})
		return strings.Join(shown, ", ")
	}
	if got := shown(); got != "" {
		t.Errorf("without a limit: %s", got)
	}
	for _, name := range []string{"full", "free"} {
		b.Did(b.Tasks.SetLimit(t.Context(), b.Pool,
			store.Limit{Name: name, Of: store.Type(strings.ToUpper(name)), Rate: 1, Interval: time.Hour}))
		seen.lanes.Limits = append(seen.lanes.Limits, taskdb.Limit{Name: name})
	}
	conn, err := b.Pool.Acquire(t.Context()) // the session of a live node holds its lock
	b.OK(err)
	defer conn.Release()
	b.Did(conn.Exec(t.Context(), `WITH node AS (
		INSERT INTO tasktable.nodes (service, version, host, types, queues)
		VALUES ('tests', '1', 'one', '{FULL}', '{"default": 5}') RETURNING number::int)
		SELECT pg_advisory_lock((class - CASE WHEN class >= 2147483648 THEN 4294967296 ELSE 0 END)::int, number)
		FROM node, tasktable.lock_class('node') AS class`))
	b.Exec(`INSERT INTO tasktable.limit_buckets VALUES ('full', clock_timestamp() + interval '1 hour')`)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at)
		SELECT i, '{"type": "FULL"}', clock_timestamp() FROM generate_series(1, 20) AS i`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET due_at = clock_timestamp() - interval '100 seconds' WHERE id = '7'`)
	want := "full waiting 2, full oldest_due_age_seconds 10, free waiting 0, free oldest_due_age_seconds 0"
	if got := shown(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
