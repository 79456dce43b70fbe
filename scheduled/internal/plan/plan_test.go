package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// The tests write a lane as "queue type priority", and a grant as such a lane with "tasks/slots".

func laneOf(text string, in time.Duration) taskdb.Lane {
	var one taskdb.Lane
	if _, err := fmt.Sscan(text, &one.Queue, &one.Type, &one.Priority); err != nil {
		panic(err)
	}
	one.DueIn = in
	return one
}

func grantsOf(grants []taskdb.Grant) string {
	var texts []string
	for _, one := range grants {
		texts = append(texts, fmt.Sprintf("%s %s %d: %d/%d", one.Queue, one.Type, one.Priority, one.Tasks, one.Slots))
	}
	return strings.Join(texts, "; ")
}

func node(number int64, queues map[string]int, types ...string) taskdb.LiveNode {
	return taskdb.LiveNode{Number: number, Queues: queues, Types: types, Held: true}
}

func waits(queue, kind string, tasks int) Job {
	return Job{Queue: queue, Type: kind, State: Available, Tasks: tasks}
}

func runs(number int64, kind string, tasks int, age time.Duration) Job {
	return Job{Queue: "default", Type: kind, State: Running, Node: number, Tasks: tasks, Age: age}
}

// Q is quick, S takes long, and no node has measured the other types.
var known = Rates{Took: map[string]time.Duration{"Q": time.Millisecond, "S": 10 * time.Second}}

// A lane that is alone gets all the room that its nodes have for it.
func TestRoom(t *testing.T) {
	t.Parallel()
	lanes := []string{"default A 0", "default B 0", "default C 0", "default Q 0", "bulk A 0"}
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
		jobs  []Job
		want  string
	}{
		{name: "no node"},
		{name: "one node", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A", "B")},
			want: "default A 0: 10/10; default B 0: 10/10"},
		{
			name: "nobody has the type or the queue",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 10}, "D"), node(2, map[string]int{"mail": 10}, "A", "B"),
			},
		},
		{name: "a queue without slots", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 0}, "A")}},
		{name: "two nodes",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 10, "bulk": 1}, "A"), node(2, map[string]int{"default": 5}, "A", "C"),
			},
			want: "default A 0: 15/15; default C 0: 5/5; bulk A 0: 1/1"},
		{name: "a job that waits is deducted where most is free, and a job for nobody nowhere",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 10}, "A"), node(2, map[string]int{"default": 5}, "A", "B"),
			},
			jobs: []Job{waits("default", "A", 7), waits("bulk", "A", 1000), waits("default", "Z", 1000)},
			want: "default A 0: 8/15; default B 0: 5/5"},
		{name: "a stuck service does not starve another",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 2}, "A"), node(2, map[string]int{"default": 5}, "B"),
			},
			jobs: []Job{waits("default", "A", 500), runs(1, "A", 1, time.Hour), runs(1, "A", 1, time.Hour)},
			want: "default B 0: 5/5"},
		{name: "two types of a node add up", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A", "B")},
			jobs: []Job{waits("default", "A", 4), waits("default", "B", 4)},
			want: "default A 0: 2/10; default B 0: 2/10"},
		{name: "a dead node's job takes no room", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "C")},
			jobs: []Job{runs(1, "C", 1, time.Hour), runs(7, "C", 500, time.Hour), waits("default", "C", 2)},
			want: "default C 0: 7/9"},
		{name: "a job that has just begun may end soon", nodes: ten,
			jobs: []Job{runs(1, "A", 1, 900*time.Millisecond), runs(1, "B", 1, 1100*time.Millisecond)},
			want: "default A 0: 9/9; default B 0: 9/9; default Q 0: 2250/9"},
		{name: "jobs that take long hold their slots until shortly before their end", nodes: ten,
			jobs: []Job{
				runs(1, "S", 1, 0), runs(1, "S", 1, 8900*time.Millisecond), runs(1, "S", 1, 9100*time.Millisecond),
				runs(1, "S", 1, 11100*time.Millisecond),
			},
			want: "default A 0: 7/7; default B 0: 7/7; default Q 0: 1750/7"},
		{name: "quick jobs end soon, and do not if they hang", nodes: ten,
			jobs: []Job{
				runs(1, "Q", 250, 0), runs(1, "Q", 250, time.Second), runs(1, "Q", 250, 2*time.Second),
				runs(1, "Q", 2000, 0),
			},
			want: "default A 0: 8/8; default B 0: 8/8; default Q 0: 2000/8"},
		{name: "quick tasks take less", nodes: ten,
			jobs: []Job{waits("default", "Q", 1260)},
			want: "default A 0: 4/10; default B 0: 4/10; default Q 0: 1240/10"},
		{name: "however quick, not too many", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 100}, "Q")},
			jobs: []Job{runs(1, "Q", 20000, 19500*time.Millisecond)}},
		{name: "transactional tasks have room by places", nodes: transactional,
			want: "default A 0: 3/3; default B 0: 10/10"},
		{name: "a transactional job takes a slot and a place", nodes: transactional,
			jobs: []Job{runs(1, "A", 1, time.Hour)}, want: "default A 0: 2/2; default B 0: 9/9"},
		{name: "transactional jobs that wait for a place take its room", nodes: transactional,
			jobs: slices.Repeat([]Job{runs(1, "A", 1, 0)}, 5), want: "default A 0: 1/1; default B 0: 10/10"},
		{name: "plain jobs leave the places, but not the slots", nodes: transactional,
			jobs: slices.Repeat([]Job{runs(1, "B", 1, time.Hour)}, 9), want: "default A 0: 1/1; default B 0: 1/1"},
		{name: "a type with a limit has room by its own slots", nodes: limited(1),
			want: "default A 0: 3/3; default B 0: 10/10; bulk A 0: 3/3"},
		{name: "its jobs take them in each queue", nodes: limited(1),
			jobs: []Job{runs(1, "A", 1, time.Hour), waits("bulk", "A", 1)},
			want: "default A 0: 1/2; default B 0: 9/9; bulk A 0: 1/2"},
		{name: "when they are all taken, the other slots are free for other types", nodes: limited(1),
			jobs: slices.Repeat([]Job{runs(1, "A", 1, time.Hour)}, 3), want: "default B 0: 7/7"},
		{name: "jobs that wait in River for them wait for a slot, too", nodes: limited(1),
			jobs: slices.Repeat([]Job{waits("default", "A", 1)}, 3), want: "default B 0: 7/10"},
		{name: "when all slots are taken, no slot of the type helps", nodes: limited(1),
			jobs: slices.Repeat([]Job{runs(1, "B", 1, time.Hour)}, 10), want: "bulk A 0: 3/3"},
		{name: "each node has its own limit", nodes: limited(2),
			want: "default A 0: 6/6; default B 0: 20/20; bulk A 0: 6/6"},
	} {
		var got []string
		for _, one := range lanes {
			p := New(Input{Lanes: []taskdb.Lane{laneOf(one, 0)}, Nodes: test.nodes, Jobs: test.jobs, Rates: known})
			if grants := p.Grants(5000); len(grants) > 0 {
				got = append(got, grantsOf(grants))
			} else if p.Full != (p.First == 0) {
				t.Errorf("%s: %s: full %t", test.name, one, p.Full)
			}
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, strings.Join(got, "; "), test.want)
		}
	}
}

// A node that shares its slots has all of them for each of its queues. Their weights decide which queue gets a slot.
func TestRoomOfSharedSlots(t *testing.T) {
	t.Parallel()
	shared := node(1, map[string]int{"critical": 6, "default": 3, "low": 1}, "A")
	shared.Shares = true
	taskdb.ShareSlots(shared.Queues)
	jobs := []Job{waits("low", "A", 4)}
	for range 3 { // of unknown end: they take the slots of all queues
		jobs = append(jobs, Job{Queue: "low", Type: "A", State: Running, Node: 1, Tasks: 1, Age: time.Minute})
	}
	got := New(Input{
		Lanes: []taskdb.Lane{laneOf("critical A 0", 0), laneOf("low A 0", 0)}, Nodes: []taskdb.LiveNode{shared},
		Jobs: jobs,
	}).Grants(5000)
	if grantsOf(got) != "critical A 0: 7/7; low A 0: 3/7" {
		t.Errorf("grants %s", grantsOf(got))
	}
}

// seen is a lane with the tasks that a look has found: in how long each is due.
type seen struct {
	lane string
	due  []time.Duration
}

// count makes so many tasks that have been due for so many seconds.
func count(tasks, late int) []time.Duration {
	return slices.Repeat([]time.Duration{time.Duration(-late) * time.Second}, tasks)
}

// planOf makes a plan, and answers its look at the tasks.
func planOf(in Input, lanes []seen, most int) *Plan {
	tasks := map[taskdb.LaneKey][]time.Duration{}
	for _, one := range lanes {
		lane := laneOf(one.lane, one.due[0])
		in.Lanes = append(in.Lanes, lane)
		tasks[lane.Key()] = one.due
	}
	p := New(in)
	answer(p, tasks, in.LookAhead, most)
	return p
}

func answer(p *Plan, tasks map[taskdb.LaneKey][]time.Duration, lookAhead time.Duration, most int) {
	peeks := p.Peeks(most)
	found := make([][]time.Duration, len(peeks))
	for i, one := range peeks {
		until := time.Duration(0)
		if one.Near {
			until = lookAhead
		}
		for _, in := range tasks[one.Key()] {
			if in <= until && len(found[i]) < one.Most {
				found[i] = append(found[i], in)
			}
		}
	}
	p.Peeked(peeks, found)
}

func TestGrants(t *testing.T) {
	t.Parallel()
	two := node(1, map[string]int{"default": 2}, "A", "B", "Q")
	limited := node(1, map[string]int{"default": 4}, "A", "B", "Q")
	limited.TypeSlots = map[string]int{"A": 1}
	near := []time.Duration{500 * time.Millisecond}
	for _, test := range []struct {
		name  string
		nodes []taskdb.LiveNode
		jobs  []Job
		lanes []seen
		most  int
		want  string
		full  bool
	}{
		{name: "the higher priority comes first, and the older of equal ones", nodes: []taskdb.LiveNode{two}, most: 100,
			lanes: []seen{
				{"default A 0", count(5, 100)}, {"default B 9", count(1, 1)}, {"default Q 0", count(1, 3)},
			},
			want: "default B 9: 1/2; default A 0: 1/2", full: true},
		{name: "tasks of equal priority are merged by their times", nodes: []taskdb.LiveNode{two}, most: 100,
			lanes: []seen{
				{"default A 0", append(count(1, 9), count(1, 1)...)}, {"default B 0", count(5, 5)},
			},
			want: "default A 0: 1/2; default B 0: 1/2"},
		{name: "no more than asked for", nodes: []taskdb.LiveNode{two}, most: 1,
			lanes: []seen{{"default A 0", count(5, 9)}, {"default B 0", count(5, 5)}},
			want:  "default A 0: 1/2"},
		{name: "each lane gets what it has", nodes: []taskdb.LiveNode{two}, most: 5000,
			lanes: []seen{{"default Q 9", count(100, 1)}, {"default Q 0", count(100, 1)}, {"default A -9", count(2, 9)}},
			want:  "default Q 9: 100/2; default Q 0: 100/2; default A -9: 1/2"},
		{name: "quick tasks do not go before a more urgent one that needs a whole slot",
			nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 1}, "A", "Q")}, most: 5000,
			jobs:  []Job{waits("default", "Q", 100)},
			lanes: []seen{{"default A 9", count(1, 1)}, {"default Q 0", count(9, 99)}}, full: true},
		{name: "but on nodes that do not work the urgent one",
			nodes: []taskdb.LiveNode{
				node(1, map[string]int{"default": 1}, "A", "Q"), node(2, map[string]int{"default": 1}, "Q"),
			},
			jobs: []Job{runs(1, "Q", 250, 0), waits("default", "A", 1)}, most: 5000,
			lanes: []seen{{"default A 9", count(1, 1)}, {"default Q 0", count(300, 99)}},
			want:  "default Q 0: 250/2", full: true},
		{name: "a task that waits for a place leaves the slots to others", nodes: []taskdb.LiveNode{limited}, most: 5000,
			jobs:  []Job{runs(1, "A", 1, time.Hour)},
			lanes: []seen{{"default A 9", count(5, 9)}, {"default B 0", count(9, 1)}},
			want:  "default B 0: 3/3", full: true},
		{name: "it gets its place, and others the slots", nodes: []taskdb.LiveNode{limited}, most: 5000,
			lanes: []seen{{"default A 9", count(5, 9)}, {"default B 0", count(2, 1)}},
			want:  "default A 9: 1/1; default B 0: 2/4"},
		{name: "near tasks come after all that are due", nodes: []taskdb.LiveNode{two}, most: 5000,
			lanes: []seen{{"default B 9", near}, {"default A -9", count(2, 1)}}, want: "default A -9: 2/2"},
		{name: "near tasks take at most half of the slots",
			nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A")}, most: 5000,
			lanes: []seen{{"default A 0", slices.Repeat(near, 9)}}, want: "default A 0: 5/2"},
		{name: "jobs in hand count", nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 10}, "A", "Q")}, most: 5000,
			jobs:  []Job{runs(1, "Q", 1, 0), waits("default", "A", 1), waits("default", "A", 1)},
			lanes: []seen{{"default A 0", slices.Repeat(near, 9)}}, want: "default A 0: 2/1"},
		{name: "near tasks of several lanes share the jobs that may wait",
			nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 40}, "Q", "A")}, most: 5000,
			lanes: []seen{{"default Q 0", slices.Repeat(near, 900)}, {"default Q 1", slices.Repeat(near, 100)}},
			want:  "default Q 1: 100/1; default Q 0: 900/9"},
	} {
		p := planOf(Input{Nodes: test.nodes, Jobs: test.jobs, Rates: known, LookAhead: time.Second}, test.lanes, test.most)
		if got := grantsOf(p.Grants(test.most)); got != test.want || p.Full != test.full {
			t.Errorf("%s:\n got %s, full %t\nwant %s, full %t", test.name, got, p.Full, test.want, test.full)
		}
	}
}

// someOf returns what a claim by the grant has taken.
func someOf(grant taskdb.Grant, tasks int) taskdb.ClaimedLane {
	return taskdb.ClaimedLane{Grant: grant, Tasks: make([]taskdb.ClaimedTask, tasks)}
}

// Lanes whose tasks others have locked leave their room to other lanes. Near tasks of theirs may be had.
func TestClaimed(t *testing.T) {
	t.Parallel()
	in := Input{Nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 4}, "A", "B")}, LookAhead: time.Second}
	take := func(lanes ...string) (taken []taskdb.ClaimedLane) {
		for _, text := range lanes {
			taken = append(taken, someOf(taskdb.Grant{Lane: laneOf(text, 0)}, 1))
		}
		return taken
	}
	for _, test := range []struct {
		name  string
		lanes []seen
		taken [][]taskdb.ClaimedLane
		want  string // the grants of each claim
	}{
		{"one lane has given less than its room", []seen{{"default A 0", count(9, 1)}},
			[][]taskdb.ClaimedLane{take("default A 0")}, "default A 0: 4/4"},
		{"one lane has given nothing", []seen{{"default A 0", count(9, 1)}},
			[][]taskdb.ClaimedLane{nil, nil, nil}, "default A 0: 4/4 | default A 0: 4/4 | default A 0: 2/1 near | "},
		{"all that was seen", []seen{{"default A 0", count(2, 1)}, {"default B 0", count(1, 1)}},
			[][]taskdb.ClaimedLane{take("default A 0", "default A 0", "default B 0")},
			"default A 0: 2/4; default B 0: 1/4"},
		{"others get the room", []seen{{"default A 1", count(9, 1)}, {"default B 0", count(9, 1)}},
			[][]taskdb.ClaimedLane{take("default A 1"), nil, take("default B 0", "default B 0", "default B 0")},
			"default A 1: 4/4 | default A 1: 3/4 | default B 0: 3/4"},
		{"rows that were just edited keep their place",
			[]seen{{"default A 1", count(3, 1)}, {"default B 0", count(9, 1)}},
			[][]taskdb.ClaimedLane{take("default A 1", "default B 0"), take("default A 1", "default A 1")},
			"default A 1: 3/4; default B 0: 1/4 | default A 1: 2/4"},
		{"and near tasks what is left", []seen{{"default A 1", count(3, 1)}, {"default B 0", count(1, 1)}},
			[][]taskdb.ClaimedLane{take("default B 0"), nil, nil},
			"default A 1: 3/4; default B 0: 1/4 | default A 1: 3/4 | default A 1: 1/0 near | "},
	} {
		p, got := planOf(in, test.lanes, 100), []string{}
		for again := true; again; {
			grants := p.Grants(100)
			text := grantsOf(grants)
			if len(grants) > 0 && grants[len(grants)-1].Near {
				text += " near"
			}
			if got = append(got, text); len(grants) == 0 {
				break
			}
			again, test.taken = p.Claimed(test.taken[0]), test.taken[1:]
		}
		if strings.Join(got, " | ") != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, strings.Join(got, " | "), test.want)
		}
	}
}

// A plan says when to look next, and which recurring tasks fire. It leaves out lanes that are paused.
func TestWhenToLook(t *testing.T) {
	t.Parallel()
	recurring := func(in time.Duration) taskdb.Lane {
		one := laneOf("default R 0", in)
		one.Recurring = true
		return one
	}
	in := func(d time.Duration) taskdb.Lane { return laneOf("default A 0", d) }
	for _, test := range []struct {
		lanes  []taskdb.Lane
		paused []taskdb.Pause
		want   string // first, then, lanes that fire
	}{
		{nil, nil, "-1ns -1ns 0"},
		{[]taskdb.Lane{in(time.Minute)}, nil, "59s 59s 0"},
		{[]taskdb.Lane{in(-time.Minute)}, nil, "0s -1ns 0"},
		{[]taskdb.Lane{in(time.Second / 2)}, nil, "0s 500ms 0"},
		{[]taskdb.Lane{in(time.Minute), recurring(time.Second)}, nil, "1s 1s 0"},
		{[]taskdb.Lane{in(time.Minute), recurring(-time.Second)}, nil, "0s 59s 1"},
		{[]taskdb.Lane{in(time.Minute), recurring(-time.Second)}, []taskdb.Pause{{Scope: "type", Name: "R"}}, "59s 59s 0"},
		{[]taskdb.Lane{laneOf("default X 0", 0)}, nil, "-1ns -1ns 0"},
	} {
		p := New(Input{
			Lanes: test.lanes, Paused: test.paused, LookAhead: time.Second,
			Nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 1}, "A", "R")},
		})
		if got := fmt.Sprint(p.First, p.Then, len(p.Fires)); got != test.want {
			t.Errorf("%v: %s, want %s", test.lanes, got, test.want)
		}
	}
}
