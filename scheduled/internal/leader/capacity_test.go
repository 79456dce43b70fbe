package leader

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

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
	waits := func(queue, kind string, tasks int) riverjobs.Seen {
		return riverjobs.Seen{Queue: queue, Type: kind, State: riverjobs.Available, Tasks: tasks}
	}
	runs := func(number int64, kind string, tasks int, age time.Duration) riverjobs.Seen {
		return riverjobs.Seen{
			Queue: "default", Type: kind, State: riverjobs.Running, Client: taskdb.ClientID(number), Tasks: tasks,
			Age: age,
		}
	}
	known := rates{took: map[string]time.Duration{"Q": time.Millisecond, "S": 10 * time.Second}}
	ten := []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A", "B", "Q", "S")}
	transactional := []taskdb.LiveNode{{
		Number: 1, Queues: map[string]int{"default": 10}, Types: []string{"A", "B"}, Transactional: []string{"A"},
		Places: 3,
	}}
	limited := func(nodes int) (made []taskdb.LiveNode) {
		for i := range nodes {
			one := node(int64(i+1), map[string]int{"default": 10, "bulk": 5}, "A", "B")
			one.TypeSlots = map[string]int{"A": 3}
			made = append(made, one)
		}
		return made
	}
	for _, test := range []struct {
		name  string
		nodes []taskdb.LiveNode
		jobs  []riverjobs.Seen
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
			jobs: []riverjobs.Seen{waits("default", "A", 7), waits("bulk", "A", 1000), waits("default", "Z", 1000)},
			want: "default A 9: 0 3 10; default B 5: 1 5 5; default A 0: 0 3 10"},
		{name: "a stuck service does not starve another",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 2}, "A"), node(2, map[string]int{"default": 5}, "B"),
			},
			jobs: []riverjobs.Seen{waits("default", "A", 500), runs(1, "A", 1, time.Hour), runs(1, "A", 1, time.Hour)},
			want: "default A 9: 0 0 0; default B 5: 1 5 5; default A 0: 0 0 0"},
		{name: "two types of a pool add up", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A", "B")},
			jobs: []riverjobs.Seen{waits("default", "A", 4), waits("default", "B", 4)},
			want: "default A 9: 0 2 10; default B 5: 0 2 10; default A 0: 0 2 10"},
		{name: "a dead node's job takes no room", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "C")},
			jobs: []riverjobs.Seen{runs(1, "C", 1, time.Hour), runs(7, "C", 500, time.Hour), waits("default", "C", 2)},
			want: "default C 0: 0 7 9"},
		{name: "another node's job does not take this one's slot",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 2}, "C"), node(2, map[string]int{"default": 1}, "D"),
			},
			jobs: []riverjobs.Seen{runs(2, "D", 1, time.Hour)}, want: "default C 0: 1 2 2"},
		{name: "a job of another type takes the slot",
			nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 2}, "C", "D")},
			jobs:  []riverjobs.Seen{runs(1, "D", 1, time.Hour)}, want: "default C 0: 0 1 1"},
		{name: "a job that has just begun may end soon", nodes: ten[:1],
			jobs: []riverjobs.Seen{runs(1, "A", 1, 900*time.Millisecond), runs(1, "B", 1, 1100*time.Millisecond)},
			want: "default A 9: 0 9 9; default B 5: 0 9 9; default A 0: 0 9 9; default Q 0: 0 9 9"},
		{name: "jobs that take long hold their slots until shortly before their end", nodes: ten[:1],
			jobs: []riverjobs.Seen{
				runs(1, "S", 1, 0), runs(1, "S", 1, 8900*time.Millisecond), runs(1, "S", 1, 9100*time.Millisecond),
				runs(1, "S", 1, 11100*time.Millisecond),
			},
			want: "default A 9: 0 7 7; default B 5: 0 7 7; default A 0: 0 7 7; default Q 0: 0 7 7"},
		{name: "quick jobs end soon, and do not if they hang", nodes: ten[:1],
			jobs: []riverjobs.Seen{
				runs(1, "Q", 250, 0), runs(1, "Q", 250, time.Second), runs(1, "Q", 250, 2*time.Second),
				runs(1, "Q", 2000, 0),
			},
			want: "default A 9: 0 8 8; default B 5: 0 8 8; default A 0: 0 8 8; default Q 0: 0 8 8"},
		{
			name: "quick tasks take less", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "Q")},
			jobs: []riverjobs.Seen{waits("default", "Q", 1250)}, want: "default Q 0: 0 5 10",
		},
		{
			name: "however quick, not too many", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 100}, "Q")},
			jobs: []riverjobs.Seen{runs(1, "Q", 20000, 19500*time.Millisecond)}, want: "default Q 0: 0 0 100",
		},
		{
			name: "transactional tasks have room by places", nodes: transactional,
			want: "default A 9: 1 3 3; default B 5: 0 10 10; default A 0: 1 3 3",
		},
		{name: "a transactional job takes a slot and a place", nodes: transactional,
			jobs: []riverjobs.Seen{runs(1, "A", 1, time.Hour)},
			want: "default A 9: 1 2 2; default B 5: 0 9 9; default A 0: 1 2 2"},
		{name: "transactional jobs that wait for a place take its room", nodes: transactional,
			jobs: slices.Repeat([]riverjobs.Seen{runs(1, "A", 1, 0)}, 5),
			want: "default A 9: 1 1 1; default B 5: 0 10 10; default A 0: 1 1 1"},
		{name: "plain jobs leave the places, but not the slots", nodes: transactional,
			jobs: slices.Repeat([]riverjobs.Seen{runs(1, "B", 1, time.Hour)}, 9),
			want: "default A 9: 1 1 1; default B 5: 0 1 1; default A 0: 1 1 1"},
		{name: "a type with a limit has room by its own slots, in all queues together", nodes: limited(1),
			want: "default A 9: 1 3 3; default B 5: 0 10 10; default A 0: 1 3 3; bulk A -1: 1 3 3"},
		{name: "its jobs take them in each queue", nodes: limited(1),
			jobs: []riverjobs.Seen{
				runs(1, "A", 1, time.Hour), {Queue: "bulk", Type: "A", State: riverjobs.Available, Tasks: 1},
			},
			want: "default A 9: 1 1 2; default B 5: 0 9 9; default A 0: 1 1 2; bulk A -1: 1 1 2"},
		{name: "when they are all taken, the other slots are free for other types", nodes: limited(1),
			jobs: slices.Repeat([]riverjobs.Seen{runs(1, "A", 1, time.Hour)}, 3),
			want: "default A 9: 1 0 0; default B 5: 0 7 7; default A 0: 1 0 0; bulk A -1: 1 0 0"},
		{name: "what waits in River for them waits for a slot, too", nodes: limited(1),
			jobs: slices.Repeat([]riverjobs.Seen{waits("default", "A", 1)}, 3),
			want: "default A 9: 1 0 3; default B 5: 0 7 10; default A 0: 1 0 3; bulk A -1: 1 0 3"},
		{name: "when all slots are taken, no slot of the type helps", nodes: limited(1),
			jobs: slices.Repeat([]riverjobs.Seen{runs(1, "B", 1, time.Hour)}, 10),
			want: "default A 9: 1 0 0; default B 5: 0 0 0; default A 0: 1 0 0; bulk A -1: 1 0 3"},
		{name: "each node has its own limit", nodes: limited(2),
			want: "default A 9: 1 6 6; default B 5: 0 20 20; default A 0: 1 6 6; bulk A -1: 1 6 6"},
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

// A node that shares its slots counts with all of them for each of its queues.
func TestBudgetOfSharedSlots(t *testing.T) {
	t.Parallel()
	node := taskdb.LiveNode{
		Number: 1, Queues: map[string]int{"critical": 6, "default": 3, "low": 1}, Types: []string{"A"}, Held: true,
		Shares: true,
	}
	taskdb.ShareSlots(node.Queues)
	jobs := []riverjobs.Seen{{Queue: "low", Type: "A", State: riverjobs.Available, Tasks: 4}}
	for range 3 { // of unknown end: they take the slots of all queues
		jobs = append(jobs, riverjobs.Seen{
			Queue: "low", Type: "A", State: riverjobs.Running, Client: taskdb.ClientID(1), Tasks: 1, Age: time.Minute,
		})
	}
	var rooms []string
	for _, b := range budget(
		[]taskdb.Lane{{Queue: "critical", Type: "A"}, {Queue: "low", Type: "A"}}, []taskdb.LiveNode{node}, jobs,
		rates{},
	) {
		rooms = append(rooms, fmt.Sprint(b.Queue, " ", b.Room/slotCost, " ", b.Slots))
	}
	if fmt.Sprint(rooms) != "[critical 7 7 low 3 7]" {
		t.Errorf("rooms %v", rooms)
	}
}
