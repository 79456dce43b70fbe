package metrics

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
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
	var types []string
	for i := range maxTypeSeries - 10 {
		types = append(types, fmt.Sprintf("TYPE_%03d", i))
	}
	m, registry := registered(t, Config{Types: types, Queues: []string{"default"}})
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
