package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// model is a random cluster, with due tasks. It knows what a plan may do, but not how.
type model struct {
	nodes []taskdb.LiveNode
	held  []int // slots of each node that are taken for long
	lanes []seen
	most  int
}

var modelTypes = []string{"A", "B", "L", "Q", "S"} // L has a limit; only Q is quick

func randomModel(random *rand.Rand) (m model, jobs []Job) {
	for i := range 1 + random.IntN(3) {
		one := node(int64(i+1), map[string]int{"default": 1 + random.IntN(5)})
		for _, kind := range modelTypes {
			if random.IntN(3) > 0 {
				one.Types = append(one.Types, kind)
			}
		}
		one.TypeSlots = map[string]int{"L": 1 + random.IntN(2)}
		held := random.IntN(one.Queues["default"] + 1)
		for range held {
			jobs = append(jobs, runs(one.Number, "other", 1, time.Hour))
		}
		m.nodes, m.held = append(m.nodes, one), append(m.held, held)
	}
	for _, kind := range modelTypes {
		for _, priority := range []int{0, 5} {
			if random.IntN(2) > 0 {
				continue
			}
			tasks := 1 + random.IntN(4)
			if kind == "Q" {
				tasks = 1 + random.IntN(900)
			}
			one := seen{lane: fmt.Sprint("default ", kind, " ", priority)}
			for range tasks {
				one.due = append(one.due, time.Duration(-random.IntN(1000))*time.Millisecond)
			}
			slices.Sort(one.due)
			m.lanes = append(m.lanes, one)
		}
	}
	m.most = 5000
	if random.IntN(4) == 0 {
		m.most = 1 + random.IntN(10)
	}
	return m, jobs
}

// works is the set of nodes that work a type, as bits.
func (m model) works(kind string) (nodes int) {
	for i, one := range m.nodes {
		if slices.Contains(one.Types, kind) {
			nodes |= 1 << i
		}
	}
	return nodes
}

// room is the worth of the free slots of some nodes, and how many tasks of type L they run at once.
func (m model) room(nodes int) (slots, limit int) {
	for i, one := range m.nodes {
		if nodes&(1<<i) != 0 {
			free := one.Queues["default"] - m.held[i]
			slots += free * slotWorth
			limit += min(one.TypeSlots["L"], free)
		}
	}
	return slots, limit
}

// The grants of a plan fit, none is left out that would fit, and none comes before a more urgent one.
func TestPlanAgainstAModel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(24, 11))
	for i := range 2000 {
		m, jobs := randomModel(random)
		p := planOf(Input{Nodes: m.nodes, Jobs: jobs, Rates: known, LookAhead: time.Second}, m.lanes, m.most)
		got := map[taskdb.LaneKey]int{}
		all := 0
		for _, one := range p.Grants(m.most) {
			got[one.Key()] = one.Tasks
			all += one.Tasks
		}
		for _, wrong := range m.judge(got, all) {
			t.Fatalf("%d: nodes %+v, held %v, lanes %v, most %d, grants %v: %s", i, m.nodes, m.held, m.lanes, m.most, got, wrong)
		}
	}
}

func (m model) judge(got map[taskdb.LaneKey]int, all int) (wrong []string) {
	cost := func(kind string) int { return known.cost(kind) }
	if all > m.most {
		wrong = append(wrong, "more than asked for")
	}
	for nodes := 1; nodes < 1<<len(m.nodes); nodes++ { // tasks that only these nodes work fit into them
		slots, limit := m.room(nodes)
		for _, one := range m.lanes {
			lane := laneOf(one.lane, 0)
			if works := m.works(lane.Type); works&^nodes == 0 {
				slots -= got[lane.Key()] * cost(lane.Type)
				if lane.Type == "L" {
					limit -= got[lane.Key()]
				}
			}
		}
		if slots < 0 || limit < 0 {
			wrong = append(wrong, fmt.Sprintf("too much for the nodes %b", nodes))
		}
	}
	for _, one := range m.lanes {
		lane := laneOf(one.lane, 0)
		works, tasks := m.works(lane.Type), got[lane.Key()]
		if tasks > len(one.due) && len(got) > 1 {
			wrong = append(wrong, "more than there are of "+one.lane)
		}
		if tasks >= len(one.due) || works == 0 || all == m.most {
			continue
		}
		// Each node that works a task which waits has too little left for it, or keeps that for another one.
		slots, _ := m.room(works)
		for _, other := range m.lanes {
			beside := laneOf(other.lane, 0)
			if m.works(beside.Type)&works != 0 {
				slots -= got[beside.Key()] * cost(beside.Type)
			}
			if lane.Type != "L" && beside.Type != "L" && m.overtakes(one, other, got) {
				wrong = append(wrong, other.lane+" goes before "+one.lane)
			}
		}
		if lane.Type != "L" && slots >= slotWorth*len(m.nodes) {
			wrong = append(wrong, "there is room for more of "+one.lane)
		}
	}
	return wrong
}

// overtakes reports whether another lane got a task that comes after one that waits, on nodes that work that one, too.
func (m model) overtakes(waits, other seen, got map[taskdb.LaneKey]int) bool {
	lane, beside := laneOf(waits.lane, 0), laneOf(other.lane, 0)
	if got[beside.Key()] == 0 || m.works(beside.Type)&^m.works(lane.Type) != 0 {
		return false
	}
	first, last := waits.due[got[lane.Key()]], other.due[got[beside.Key()]-1]
	if beside.Type == "Q" { // a batch has the place of its first task
		last = other.due[(got[beside.Key()]-1)/known.fits("Q")*known.fits("Q")]
	}
	if lane.Type == "Q" {
		first = waits.due[got[lane.Key()]/known.fits("Q")*known.fits("Q")]
	}
	return beside.Priority < lane.Priority || beside.Priority == lane.Priority && last > first
}
