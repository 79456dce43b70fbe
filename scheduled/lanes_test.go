package scheduled

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

func lanesText(lanes []lane) string {
	var text []string
	for _, l := range lanes {
		text = append(text, fmt.Sprintf("%s %s %d %s", l.Queue, l.Type, l.Priority, l.DueIn))
	}
	return strings.Join(text, "\n")
}

func TestLanes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	list := func() string {
		t.Helper()
		lanes, err := b.lanes(t.Context(), b.pool, &noon)
		if err != nil {
			t.Fatal(err)
		}
		return lanesText(lanes.tasks)
	}
	if got := list(); got != "" {
		t.Errorf("an empty table has lanes: %s", got)
	}
	other := store.JSON(`{"type":"OTHER"}`)
	b.schedule(
		store.Task{Payload: job{"a"}, At: noon.Add(time.Minute)},
		store.Task{Payload: job{"b"}, At: noon.Add(time.Second)},
		store.Task{Payload: job{"c"}, At: noon.Add(-time.Second), Priority: 7},
		store.Task{ID: "d", Payload: other, At: noon.Add(-time.Hour)},
		store.Task{ID: "e", Payload: other, At: noon, Queue: "bulk"},
		store.Task{ID: "f", Payload: other, At: noon.AddDate(1, 0, 0), Queue: "a-year"},
		store.Task{ID: "paused", Payload: other, At: noon, Queue: "paused"},
	)
	if _, err := tasks.Pause(t.Context(), b.pool, "paused"); err != nil {
		t.Fatal(err)
	}
	want := "a-year OTHER 0 168h0m0s\nbulk OTHER 0 0s\ndefault JOB 0 1s\ndefault JOB 7 -1s\ndefault OTHER 0 -1h0m0s"
	if got := list(); got != want {
		t.Errorf("lanes\n%s\nwant\n%s", got, want)
	}
	b.take(noon.Add(time.Second)) // b: what is held is in no lane
	if got := list(); got != strings.Replace(want, "JOB 0 1s", "JOB 0 1m0s", 1) {
		t.Errorf("lanes after the claim\n%s", got)
	}
}

// planNode is what the test reads of EXPLAIN's JSON.
type planNode struct {
	NodeType string     `json:"Node Type"`
	Index    string     `json:"Index Name"`
	Relation string     `json:"Relation Name"`
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Removed  float64    `json:"Rows Removed by Filter"`
	Plans    []planNode `json:"Plans"`
}

func explain(t *testing.T, tx pgx.Tx, sql string, args ...any) planNode {
	t.Helper()
	var text string
	if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

// The list costs a probe a lane, however many tasks the lanes hold, and whether or not the statistics know of them.
func TestLanesAreListedByProbes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	// 42 small lanes, and one of a type that no node has, with many tasks.
	b.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, priority, revision, next_attempt_at)
		SELECT 'small ' || i, jsonb_build_object('type', 'TYPE_' || i % 7), 'TYPE_' || i % 7, 'queue' || i % 2, i % 3, i, clock_timestamp() FROM generate_series(1, 600) AS i
		UNION ALL
		SELECT 'foreign ' || i, '{"type":"FOREIGN"}', 'FOREIGN', 'default', 0, i, clock_timestamp() FROM generate_series(1, 20000) AS i`)
	b.inTx(func(tx pgx.Tx) {
		for _, statistics := range []string{"stale", "fresh"} {
			plan := explain(t, tx, lanesSQL, nil)
			probes, rows := 0.0, 0.0
			var walk func(planNode)
			walk = func(n planNode) {
				if n.Relation == "scheduled_tasks" {
					if n.NodeType != "Index Only Scan" || n.Index != "scheduled_tasks_claimable" {
						t.Errorf("%s statistics: %s of %s", statistics, n.NodeType, n.Index)
					}
					probes += n.Loops
					rows += n.Loops * (n.Rows + n.Removed)
				}
				for _, child := range n.Plans {
					walk(child)
				}
			}
			walk(plan)
			if probes != 44 || rows > probes { // rows are rounded up to one a probe
				t.Errorf("%s statistics: %v probes read %v rows for 43 lanes", statistics, probes, rows)
			}
			if _, err := tx.Exec(t.Context(), `ANALYZE tasktable.scheduled_tasks`); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestBudget(t *testing.T) {
	t.Parallel()
	var lanes []lane
	for _, l := range []struct {
		queue, kind string
		priority    int
	}{{"default", "A", 0}, {"default", "A", 9}, {"default", "B", 5}, {"default", "C", 0}, {"default", "Q", 0}, {"bulk", "A", -1}} {
		lanes = append(lanes, lane{Queue: l.queue, Type: l.kind, Priority: l.priority})
	}
	node := func(number int64, queues map[string]int, types ...string) liveNode {
		return liveNode{Number: number, Queues: queues, Types: types, Held: true}
	}
	for _, test := range []struct {
		name  string
		nodes []liveNode
		loads []load
		want  string // queue type priority: pool room slots
	}{
		{name: "no node", want: ""},
		{name: "one node", nodes: []liveNode{node(1, map[string]int{"default": 10}, "A", "B")},
			want: "default A 9: 0 20 10; default B 5: 0 20 10; default A 0: 0 20 10"},
		{name: "nobody has the type or the queue", nodes: []liveNode{node(1, map[string]int{"default": 10}, "D"), node(2, map[string]int{"mail": 10}, "A", "B")}},
		{name: "a queue without slots", nodes: []liveNode{node(1, map[string]int{"default": 0}, "A")}},
		{name: "two nodes share a pool", nodes: []liveNode{node(1, map[string]int{"default": 10}, "A", "B"), node(2, map[string]int{"default": 5}, "B", "A")},
			want: "default A 9: 0 30 15; default B 5: 0 30 15; default A 0: 0 30 15"},
		{name: "types apart", nodes: []liveNode{node(1, map[string]int{"default": 10, "bulk": 1}, "A"), node(2, map[string]int{"default": 5}, "B", "C")},
			want: "default A 9: 0 20 10; default B 5: 1 10 5; default A 0: 0 20 10; default C 0: 1 10 5; bulk A -1: 2 2 1"},
		{name: "loads take the room of their own pool", nodes: []liveNode{node(1, map[string]int{"default": 10}, "A"), node(2, map[string]int{"default": 5}, "B")},
			loads: []load{{"default", "A", nil, 15, 1}, {"bulk", "A", nil, 1000, 1}, {"default", "Z", nil, 1000, 1}},
			want:  "default A 9: 0 5 10; default B 5: 1 10 5; default A 0: 0 5 10"},
		{name: "a stuck service does not starve another", nodes: []liveNode{node(1, map[string]int{"default": 10}, "A"), node(2, map[string]int{"default": 5}, "B")},
			loads: []load{{"default", "A", nil, 500, 1}},
			want:  "default A 9: 0 0 10; default B 5: 1 10 5; default A 0: 0 0 10"},
		{name: "two types of a pool add up", nodes: []liveNode{node(1, map[string]int{"default": 10}, "A", "B")},
			loads: []load{{"default", "A", nil, 8, 1}, {"default", "B", nil, 8, 1}}, want: "default A 9: 0 4 10; default B 5: 0 4 10; default A 0: 0 4 10"},
		{name: "what a dead node has does not take the room of others", nodes: []liveNode{node(1, map[string]int{"default": 10}, "C")},
			loads: []load{{"default", "C", new(clientID(1)), 3, 1}, {"default", "C", new(clientID(7)), 500, 1}, {"default", "C", new("another's"), 500, 1}, {"default", "C", nil, 2, 1}},
			want:  "default C 0: 0 15 10"},
		{name: "quick tasks take less", nodes: []liveNode{node(1, map[string]int{"default": 10}, "Q")}, loads: []load{{"default", "Q", nil, 1250, 1}}, want: "default Q 0: 0 15 10"},
		{name: "however quick, not too many", nodes: []liveNode{node(1, map[string]int{"default": 100}, "Q")}, loads: []load{{"default", "Q", nil, 20000, 100}}, want: "default Q 0: 0 0 100"},
	} {
		fits := func(kind string) int {
			if kind == "Q" {
				return slotCost
			}
			return 1
		}
		var got []string
		for _, l := range budget(slices.Clone(lanes), test.nodes, test.loads, fits) {
			got = append(got, fmt.Sprintf("%s %s %d: %d %d %d", l.Queue, l.Type, l.Priority, l.Pool, l.Room/slotCost, l.Slots))
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, strings.Join(got, "; "), test.want)
		}
	}
}
