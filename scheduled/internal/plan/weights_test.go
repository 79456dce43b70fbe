package plan

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// A group keeps its turn until it has had as many batches as its weight. A grant of many quick tasks is several.
func TestGranted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		was                 Served
		weight, tasks, fits int
		want                Served
	}{
		{Served{}, 0, 1, 1, Served{Turn: 7}},
		{Served{Turn: 2}, 1, 1, 1, Served{Turn: 7}},
		{Served{Turn: 2}, 3, 1, 1, Served{Turn: 2, Had: 1}},
		{Served{Turn: 2, Had: 1}, 3, 1, 1, Served{Turn: 2, Had: 2}},
		{Served{Turn: 2, Had: 2}, 3, 1, 1, Served{Turn: 7}},
		{Served{Turn: 2, Had: 2}, 3, 9, 1, Served{Turn: 7}},
		{Served{Turn: 2}, 3, 20, 10, Served{Turn: 2, Had: 2}},
		{Served{Turn: 2}, 3, 21, 10, Served{Turn: 7}},
		{Served{Turn: 2, Had: 8}, 3, 1, 1, Served{Turn: 7}}, // its weight has become smaller
	} {
		got := test.was
		got.Granted(taskdb.Grant{Lane: taskdb.Lane{Weight: test.weight}, Tasks: test.tasks, Fits: test.fits}, 7)
		if got != test.want {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

// fairness has groups whose tasks are due, and some slots. In each step the plan is asked for grants, and the oldest task
// ends.
type fairness struct {
	slots  int
	limit  taskdb.Limit
	served map[string]*Served
	jobs   []Job
	number int64
}

// step returns the groups that were granted tasks.
func (f *fairness) step() (granted []string) {
	var heads []KeyHead
	for key, one := range f.served {
		heads = append(heads, KeyHead{Key: key, DueIn: -time.Minute, Served: *one})
	}
	lanes := NewTurns([]taskdb.Limit{f.limit}, f.jobs, nil).Of(laneOf("default A 0", 0).Key(), heads)
	p := New(Input{Lanes: lanes, Jobs: f.jobs, Limits: []taskdb.Limit{f.limit},
		Nodes: []taskdb.LiveNode{node(1, map[string]int{"default": f.slots}, "A")}})
	peeks := p.Peeks(100)
	times := make([][]time.Duration, len(peeks))
	for i, peek := range peeks {
		times[i] = make([]time.Duration, peek.Most)
	}
	p.Peeked(peeks, times)
	f.number++
	for _, grant := range p.Grants(100) {
		f.served[grant.LimitKey].Granted(grant, f.number)
		for range grant.Tasks {
			granted = append(granted, grant.LimitKey)
			f.jobs = append(f.jobs, keyed("A", grant.LimitKey))
		}
	}
	f.jobs = f.jobs[1:]
	return granted
}

// With weights 3 and 1, the first group gets three of four grants, however many slots there are. Alone it gets all of
// them. With others, each has its turn.
func TestWeights(t *testing.T) {
	t.Parallel()
	for slots := 1; slots <= 12; slots++ {
		f := fairness{slots: slots, limit: weighted(), served: map[string]*Served{"g:a": {}, "g:b": {}}}
		got := map[string]int{}
		run := func(grants int) {
			clear(got)
			for n := 0; n < grants; {
				granted := f.step()
				if len(f.jobs) != slots-1 {
					t.Fatalf("%d slots: %d jobs", slots, len(f.jobs)+1)
				}
				for _, key := range granted {
					got[key]++
				}
				n += len(granted)
			}
		}
		if run(400); got["g:a"] < 300-slots || got["g:a"] > 300+slots {
			t.Errorf("%d slots: %v", slots, got)
		}
		delete(f.served, "g:b")
		if run(40); got["g:b"] > 0 {
			t.Errorf("%d slots, one alone: %v", slots, got)
		}
		f.served["g:b"], f.served["g:c"], f.served["g:d"] = &Served{Turn: f.number}, &Served{Turn: f.number}, &Served{Turn: f.number}
		run(300)
		for key, least := range map[string]int{"g:a": 140, "g:b": 45, "g:c": 45, "g:d": 45} {
			if got[key] < least {
				t.Errorf("%d slots, four groups: %v", slots, got)
			}
		}
	}
}
