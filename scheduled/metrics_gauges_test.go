package scheduled

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
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
			{Queue: "default", Type: "JOB", Priority: 5, DueIn: -time.Minute},
			{Queue: "default", Type: "JOB", DueIn: time.Hour},
			{Queue: "bulk", Type: "OTHER", DueIn: -time.Second},
			{Queue: "not UTF-8: \xff", Type: "A", DueIn: -time.Hour},
			{Queue: "not UTF-8: \xfe", Type: "A", DueIn: -time.Minute},
		},
		Recurring: []taskdb.Lane{{Queue: "default", Type: "JOB", Recurring: true, DueIn: -time.Second}},
		Paused:    []taskdb.Pause{{Scope: "queue", Name: "bulk"}},
	}}
	got := lanesShown(seen, nodes, map[laneLabels]int{
		{"default", "JOB", "5"}: 7, {"default", "JOB", firesPriority}: 1, {"default", "GONE", "0"}: 0,
		{"not UTF-8: \xff", "A", "0"}: 3,
	})
	want := map[laneLabels]laneShown{
		{"default", "JOB", "5"}:              {depth: 7, counted: true, dueIn: -time.Minute, nodes: 2},
		{"default", "JOB", "0"}:              {dueIn: time.Hour, nodes: 2},
		{"default", "JOB", firesPriority}:    {depth: 1, counted: true, dueIn: -time.Second, nodes: 2},
		{"default", "GONE", "0"}:             {counted: true},
		{"bulk", "OTHER", "0"}:               {dueIn: -time.Second, paused: true},
		{otherLabel, otherLabel, otherLabel}: {depth: 3, counted: true, dueIn: -time.Hour},
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
		one := taskdb.Lane{Queue: fmt.Sprintf("queue%04d", i), Type: "JOB", DueIn: -time.Duration(i) * time.Second}
		seen.lanes.Tasks, depth[labelsOf(one)] = append(seen.lanes.Tasks, one), 2
	}
	seen.lanes.Paused = []taskdb.Pause{{Scope: "queue", Name: "queue2999"}}
	nodes := []taskdb.LiveNode{{
		Number: 1, Queues: map[string]int{"queue0000": 1, "queue2000": 1}, Types: []string{"JOB"}, Held: true,
	}}
	got := lanesShown(seen, nodes, depth)
	if len(got) != maxLaneSeries+1 {
		t.Errorf("%d lanes are shown", len(got))
	}
	if first := got[laneLabels{"queue0000", "JOB", "0"}]; first != (laneShown{depth: 2, counted: true, nodes: 1}) {
		t.Errorf("the first: %+v", first)
	}
	rest := got[laneLabels{otherLabel, otherLabel, otherLabel}]
	if want := (laneShown{depth: 2 * (3000 - maxLaneSeries), counted: true, dueIn: -2998 * time.Second}); rest != want {
		t.Errorf("the rest: %+v, want %+v", rest, want)
	}
}

// What one node knows for all it shows while it leads and goes on looking; else it would be shown twice, and old.
func TestOnlyTheLeaderShowsWhatItSaw(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	registry := prometheus.NewPedanticRegistry()
	tr := s.prepare(func(c *Config) { c.Metrics = registry }, handlers.Handle(s.handle))
	if _, err := tr.metrics.register(registry); err != nil {
		t.Fatal(err)
	}
	shows := func() bool { return has(scraped(t, registry), "nodes") }
	if got := scraped(t, registry); got["node_up"] != 0 || got["leader"] != 0 || has(got, "slots default") {
		t.Errorf("before it has begun: %v", got)
	}
	tr.metrics.begun(tr.instance)
	tr.metrics.sees(taskdb.ListedLanes{}, []taskdb.LiveNode{{Number: 1, Held: true}})
	if shows() {
		t.Error("it does not lead")
	}
	tr.session.leading.Store(true)
	if !shows() {
		t.Error("it leads")
	}
	tr.metrics.seen.Store(&sight{at: time.Now().Add(-sightValid)})
	if shows() {
		t.Error("it has not looked for long")
	}
	tr.session.leading.Store(false)
	tr.run()
	eventually(t, 10*time.Second, "it leads and looks", shows)
}
