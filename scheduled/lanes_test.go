package scheduled

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func lanesText(lanes []taskdb.Lane) string {
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
		lanes, err := b.Lanes(t.Context(), b.pool, &noon)
		if err != nil {
			t.Fatal(err)
		}
		return lanesText(lanes.Tasks)
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
		SELECT 'small ' || i, jsonb_build_object('type', 'TYPE_' || i % 7), 'TYPE_' || i % 7, 'queue' || i % 2, i % 3,
			i, clock_timestamp() FROM generate_series(1, 600) AS i
		UNION ALL
		SELECT 'foreign ' || i, '{"type":"FOREIGN"}', 'FOREIGN', 'default', 0, i, clock_timestamp()
			FROM generate_series(1, 20000) AS i`)
	b.inTx(func(tx pgx.Tx) {
		for _, statistics := range []string{"stale", "fresh"} {
			plan := explain(t, tx, taskdb.LanesSQL, nil, nil)
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
	var lanes []taskdb.Lane
	for _, l := range []struct {
		queue, kind string
		priority    int
	}{
		{"default", "A", 0}, {"default", "A", 9}, {"default", "B", 5}, {"default", "C", 0}, {"default", "Q", 0},
		{"bulk", "A", -1},
	} {
		lanes = append(lanes, taskdb.Lane{Queue: l.queue, Type: l.kind, Priority: l.priority})
	}
	node := func(number int64, queues map[string]int, types ...string) taskdb.LiveNode {
		return taskdb.LiveNode{Number: number, Queues: queues, Types: types, Held: true}
	}
	waits := func(queue, kind string, tasks int) seenJob {
		return seenJob{Queue: queue, Type: kind, State: jobAvailable, Tasks: tasks}
	}
	runs := func(number int64, kind string, tasks int, age time.Duration) seenJob {
		return seenJob{
			Queue: "default", Type: kind, State: jobRunning, Client: taskdb.ClientID(number), Tasks: tasks, Age: age,
		}
	}
	known := rates{took: map[string]time.Duration{"Q": time.Millisecond, "S": 10 * time.Second}}
	ten := []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A", "B", "Q", "S")}
	transactional := []taskdb.LiveNode{{
		Number: 1, Queues: map[string]int{"default": 10}, Types: []string{"A", "B"}, Transactional: []string{"A"},
		Places: 3,
	}}
	for _, test := range []struct {
		name  string
		nodes []taskdb.LiveNode
		jobs  []seenJob
		want  string // queue type priority: pool, room in slots, slots
	}{
		{name: "no node", want: ""},
		{name: "one node", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A", "B")},
			want: "default A 9: 0 10 10; default B 5: 0 10 10; default A 0: 0 10 10"},
		{
			name: "nobody has the type or the queue",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 10}, "D"), node(2, map[string]int{"mail": 10}, "A", "B"),
			},
		},
		{name: "a queue without slots", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 0}, "A")}},
		{name: "two nodes share a pool",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 10}, "A", "B"), node(2, map[string]int{"default": 5}, "B", "A"),
			},
			want: "default A 9: 0 15 15; default B 5: 0 15 15; default A 0: 0 15 15"},
		{name: "types apart",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 10, "bulk": 1}, "A"), node(2, map[string]int{"default": 5}, "B", "C"),
			},
			want: "default A 9: 0 10 10; default B 5: 1 5 5; default A 0: 0 10 10; default C 0: 1 5 5; " +
				"bulk A -1: 2 1 1"},
		{name: "waiting jobs take the room of their own pool",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 10}, "A"), node(2, map[string]int{"default": 5}, "B"),
			},
			jobs: []seenJob{waits("default", "A", 7), waits("bulk", "A", 1000), waits("default", "Z", 1000)},
			want: "default A 9: 0 3 10; default B 5: 1 5 5; default A 0: 0 3 10"},
		{name: "a stuck service does not starve another",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 2}, "A"), node(2, map[string]int{"default": 5}, "B"),
			},
			jobs: []seenJob{waits("default", "A", 500), runs(1, "A", 1, time.Hour), runs(1, "A", 1, time.Hour)},
			want: "default A 9: 0 0 0; default B 5: 1 5 5; default A 0: 0 0 0"},
		{name: "two types of a pool add up", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A", "B")},
			jobs: []seenJob{waits("default", "A", 4), waits("default", "B", 4)},
			want: "default A 9: 0 2 10; default B 5: 0 2 10; default A 0: 0 2 10"},
		{name: "a dead node's job takes no room", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "C")},
			jobs: []seenJob{runs(1, "C", 1, time.Hour), runs(7, "C", 500, time.Hour), waits("default", "C", 2)},
			want: "default C 0: 0 7 9"},
		{name: "another node's job does not take this one's slot",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 2}, "C"), node(2, map[string]int{"default": 1}, "D"),
			},
			jobs: []seenJob{runs(2, "D", 1, time.Hour)}, want: "default C 0: 1 2 2"},
		{name: "a job of another type takes the slot",
			nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 2}, "C", "D")},
			jobs:  []seenJob{runs(1, "D", 1, time.Hour)}, want: "default C 0: 0 1 1"},
		{name: "a job that has just begun may end soon", nodes: ten[:1],
			jobs: []seenJob{runs(1, "A", 1, 900*time.Millisecond), runs(1, "B", 1, 1100*time.Millisecond)},
			want: "default A 9: 0 9 9; default B 5: 0 9 9; default A 0: 0 9 9; default Q 0: 0 9 9"},
		{name: "jobs that take long hold their slots until shortly before their end", nodes: ten[:1],
			jobs: []seenJob{
				runs(1, "S", 1, 0), runs(1, "S", 1, 8900*time.Millisecond), runs(1, "S", 1, 9100*time.Millisecond),
				runs(1, "S", 1, 11100*time.Millisecond),
			},
			want: "default A 9: 0 7 7; default B 5: 0 7 7; default A 0: 0 7 7; default Q 0: 0 7 7"},
		{name: "quick jobs end soon, and do not if they hang", nodes: ten[:1],
			jobs: []seenJob{
				runs(1, "Q", 250, 0), runs(1, "Q", 250, time.Second), runs(1, "Q", 250, 2*time.Second),
				runs(1, "Q", 2000, 0),
			},
			want: "default A 9: 0 8 8; default B 5: 0 8 8; default A 0: 0 8 8; default Q 0: 0 8 8"},
		{
			name: "quick tasks take less", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "Q")},
			jobs: []seenJob{waits("default", "Q", 1250)}, want: "default Q 0: 0 5 10",
		},
		{
			name: "however quick, not too many", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 100}, "Q")},
			jobs: []seenJob{runs(1, "Q", 20000, 19500*time.Millisecond)}, want: "default Q 0: 0 0 100",
		},
		{
			name: "transactional tasks have room by places", nodes: transactional,
			want: "default A 9: 0 3 3; default B 5: 1 10 10; default A 0: 0 3 3",
		},
		{name: "a transactional job takes a slot and a place", nodes: transactional,
			jobs: []seenJob{runs(1, "A", 1, time.Hour)},
			want: "default A 9: 0 2 2; default B 5: 1 9 9; default A 0: 0 2 2"},
		{name: "transactional jobs that wait for a place take its room", nodes: transactional,
			jobs: slices.Repeat([]seenJob{runs(1, "A", 1, 0)}, 5),
			want: "default A 9: 0 1 1; default B 5: 1 10 10; default A 0: 0 1 1"},
		{name: "plain jobs leave the places, but not the slots", nodes: transactional,
			jobs: slices.Repeat([]seenJob{runs(1, "B", 1, time.Hour)}, 9),
			want: "default A 9: 1 1 1; default B 5: 0 1 1; default A 0: 1 1 1"},
	} {
		var got []string
		for _, l := range budget(slices.Clone(lanes), test.nodes, test.jobs, known) {
			got = append(
				got, fmt.Sprintf("%s %s %d: %d %d %d", l.Queue, l.Type, l.Priority, l.Pool, l.Room/slotCost, l.Slots),
			)
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, strings.Join(got, "; "), test.want)
		}
	}
}
