package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func runsAtMost(of string, most int) taskdb.Limit {
	scope, name, _ := strings.Cut(of, " ")
	return taskdb.Limit{Name: of, Scope: scope, ScopeName: name, MaxRunning: &most}
}

func startsAt(of string, interval time.Duration, burst int, full time.Duration) taskdb.Limit {
	one := runsAtMost(of, 0)
	one.MaxRunning, one.Interval, one.Burst, one.Full = nil, interval, burst, full
	return one
}

func TestLimits(t *testing.T) {
	t.Parallel()
	ten := []taskdb.LiveNode{
		node(1, map[string]int{"default": 5, "mail": 5}, "A", "B", "Q"), node(2, map[string]int{"default": 5}, "A", "B", "Q"),
	}
	lane := func(text string, tasks int) seen {
		return seen{lane: text, due: slices.Repeat([]time.Duration{-time.Second}, tasks)}
	}
	hours := func(n int) []Job { return slices.Repeat([]Job{runs(1, "A", 1, time.Hour)}, n) }
	for _, test := range []struct {
		name   string
		limits []taskdb.Limit
		lanes  []seen
		jobs   []Job
		want   string // grants with the jobs
		full   bool
		then   time.Duration
	}{
		{name: "none", lanes: []seen{lane("default A 0", 20)}, want: "default A 0: 10/10 in 0", then: -1, full: false},
		{name: "over all nodes", limits: []taskdb.Limit{runsAtMost("type A", 7)},
			lanes: []seen{lane("default A 0", 20)}, want: "default A 0: 7/7 in 7", then: -1},
		{name: "another type does not count", limits: []taskdb.Limit{runsAtMost("type B", 1)},
			lanes: []seen{lane("default A 0", 20)}, want: "default A 0: 10/10 in 0", then: -1},
		{name: "of a queue", limits: []taskdb.Limit{runsAtMost("queue mail", 2)},
			lanes: []seen{lane("mail A 0", 9), lane("default A 0", 1)},
			want:  "default A 0: 1/10 in 0; mail A 0: 2/2 in 2", then: -1},
		{name: "of everything, by priority", limits: []taskdb.Limit{runsAtMost("all", 4)},
			lanes: []seen{lane("default A 0", 9), lane("default B 5", 3)},
			want:  "default B 5: 3/3 in 3; default A 0: 1/1 in 1", then: -1},
		{name: "what runs counts, also of a dead node", limits: []taskdb.Limit{runsAtMost("type A", 4)},
			lanes: []seen{lane("default A 0", 9)},
			jobs:  append(hours(2), runs(9, "A", 1, time.Hour)), want: "default A 0: 1/1 in 1", then: -1},
		{name: "what waits in River counts, what has ended does not", limits: []taskdb.Limit{runsAtMost("type A", 4)},
			lanes: []seen{lane("default A 0", 9)},
			jobs:  []Job{waits("default", "A", 1), {Queue: "default", Type: "A", State: "completed", Tasks: 1}},
			want:  "default A 0: 3/3 in 3", then: -1},
		{name: "reached", limits: []taskdb.Limit{runsAtMost("type A", 2)}, jobs: hours(2),
			lanes: []seen{lane("default A 0", 9), lane("default B 0", 1)},
			want:  "default B 0: 8/8 in 0", full: true, then: -1},
		{name: "shrunk", limits: []taskdb.Limit{runsAtMost("type A", 1)}, jobs: hours(3),
			lanes: []seen{lane("default A 0", 9)}, full: true, then: -1},
		{name: "the smaller of two", limits: []taskdb.Limit{runsAtMost("type A", 5), runsAtMost("all", 3)},
			lanes: []seen{lane("default A 0", 9)}, want: "default A 0: 3/3 in 3", then: -1},
		{name: "a job carries many quick tasks", limits: []taskdb.Limit{runsAtMost("type Q", 2)},
			lanes: []seen{lane("default Q 0", 600)}, want: "default Q 0: 500/2 in 2", then: -1},
		{name: "tokens", limits: []taskdb.Limit{startsAt("type A", time.Second, 3, -1)},
			lanes: []seen{lane("default A 0", 9)}, want: "default A 0: 3/10 in 0", then: time.Second},
		{name: "some tokens are taken", limits: []taskdb.Limit{startsAt("type A", time.Second, 3, 1500*time.Millisecond)},
			lanes: []seen{lane("default A 0", 9)}, want: "default A 0: 1/10 in 0", then: 500 * time.Millisecond},
		{name: "no token", limits: []taskdb.Limit{startsAt("type A", time.Second, 3, 2700*time.Millisecond)},
			lanes: []seen{lane("default A 0", 9)}, then: 700 * time.Millisecond},
		{name: "it waits for half of a burst", limits: []taskdb.Limit{startsAt("type A", 10*time.Millisecond, 10,
			98*time.Millisecond)}, lanes: []seen{lane("default A 0", 9)}, then: 48 * time.Millisecond},
		{name: "but not for long", limits: []taskdb.Limit{startsAt("type A", 50*time.Millisecond, 100, 5*time.Second)},
			lanes: []seen{lane("default A 0", 9)}, then: 100 * time.Millisecond},
	} {
		input := Input{Nodes: ten, Jobs: test.jobs, Limits: test.limits, Rates: known, LookAhead: time.Second}
		p := planOf(input, test.lanes, 5000)
		var got []string
		for _, one := range p.Grants(5000) {
			got = append(got, fmt.Sprint(grantsOf([]taskdb.Grant{one}), " in ", one.Jobs))
		}
		if text := strings.Join(got, "; "); text != test.want || p.Full != test.full || p.Then != test.then {
			t.Errorf("%s: %q, full %t, then %s, want %q, %t, %s", test.name, text, p.Full, p.Then, test.want, test.full,
				test.then)
		}
	}
}

// An overfull bucket is written anew, also if no task takes a token.
func TestOverfullBuckets(t *testing.T) {
	t.Parallel()
	full := startsAt("type A", time.Second, 3, 3*time.Second)
	full.Overfull = true
	p := New(Input{Limits: []taskdb.Limit{full, startsAt("type B", time.Second, 3, 0), runsAtMost("all", 1)}})
	if got := fmt.Sprint(p.Tokens(nil)); got != "map[{type A }:0]" {
		t.Errorf("tokens %s", got)
	}
}

// Tasks of a limit are not claimed ahead of their time.
func TestLimitsLookNotAhead(t *testing.T) {
	t.Parallel()
	lane := laneOf("default A 0", 300*time.Millisecond)
	in := Input{Lanes: []taskdb.Lane{lane}, Nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 5}, "A")},
		Limits: []taskdb.Limit{runsAtMost("type A", 3)}, Rates: known, LookAhead: time.Second}
	if p := New(in); p.Then != lane.DueIn || len(p.Grants(10)) > 0 {
		t.Errorf("then %s, grants %v", p.Then, p.Grants(10))
	}
}

// Whatever the claims take of the grants, no limit is ever exceeded, and a plan that goes on after a claim counts it.
func TestLimitsAreNeverExceeded(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(26, 1))
	for i := range 3000 {
		m, jobs := randomModel(random)
		var limits []taskdb.Limit
		for _, of := range []string{"all", "queue default", "type A", "type L", "type Q", "type Q"} {
			one := runsAtMost(of, 1+random.IntN(8))
			if one.Name += fmt.Sprint(len(limits)); random.IntN(2) == 0 {
				one.Interval, one.Burst = time.Second, 1+random.IntN(300)
				one.Full = time.Duration(random.IntN(one.Burst+1)) * time.Second
			}
			if random.IntN(3) == 0 {
				limits = append(limits, one)
			}
		}
		p := planOf(Input{Nodes: m.nodes, Jobs: jobs, Limits: limits, Rates: known, LookAhead: time.Second}, m.lanes, m.most)
		all, tasks := slices.Clone(jobs), []taskdb.ClaimedLane(nil)
		for again := true; again; {
			var taken []taskdb.ClaimedLane
			for _, grant := range p.Grants(m.most) {
				some := grant.Tasks
				if random.IntN(3) == 0 {
					some = random.IntN(some + 1)
				}
				taken = append(taken, someOf(grant, some))
				for size := grant.JobSize(some); some > 0; some -= size {
					all = append(all, waits(grant.Queue, grant.Type, min(some, size)))
				}
			}
			tasks = append(tasks, taken...)
			again = p.Claimed(taken)
		}
		for _, limit := range limits {
			running, started := 0, 0
			for _, job := range all {
				if limit.Of(job.Queue, job.Type) {
					running++
				}
			}
			before := 0
			for _, job := range jobs {
				if limit.Of(job.Queue, job.Type) {
					before++
				}
			}
			for _, lane := range tasks {
				if limit.Of(lane.Grant.Queue, lane.Grant.Type) {
					started += lane.Len()
				}
			}
			if running > max(*limit.MaxRunning, before) || limit.Interval > 0 && started > max(limit.Tokens(), 0) {
				t.Fatalf("%d: limit %+v: %d run and %d were started; lanes %v, jobs %v", i, limit, running, started,
					m.lanes, jobs)
			}
		}
	}
}

// Each group has the tokens of its own bucket, also for a claim that follows in the same pass. A task without a group
// takes none.
func TestTokensOfGroups(t *testing.T) {
	t.Parallel()
	of := func(key string) taskdb.Lane {
		lane := laneOf("default A 0", -time.Second)
		lane.LimitKey = key
		return lane
	}
	p := New(Input{Nodes: []taskdb.LiveNode{node(1, map[string]int{"default": 50}, "A")}, Rates: known,
		Limits:  []taskdb.Limit{ratePerGroup("type A", time.Second, 4), startsAt("all", time.Second, 99, 0)},
		Buckets: bucketsOf(t, "g:a 2 g:b 0"), Lanes: []taskdb.Lane{of("g:a"), of("g:b"), of("g:")}})
	grants := func() string {
		times := slices.Repeat([]time.Duration{-time.Second}, 20)
		p.Peeked(p.Peeks(100), slices.Repeat([][]time.Duration{times}, len(p.Peeks(100))))
		var got []string
		for _, one := range p.Grants(100) {
			got = append(got, fmt.Sprint(one.LimitKey, " ", one.Tasks))
		}
		slices.Sort(got)
		return strings.Join(got, "; ")
	}
	if got := grants(); got != "g: 20; g:a 2; g:b 4" {
		t.Fatalf("grants %s", got)
	}
	claimed := func(key string, n int) taskdb.ClaimedLane {
		lane := someOf(taskdb.Grant{Lane: of(key)}, n)
		lane.Expired = make([]taskdb.ClaimedTask, 1)
		return lane
	}
	taken := []taskdb.ClaimedLane{claimed("g:a", 2), claimed("g:b", 1), claimed("g:", 1)}
	if got, want := fmt.Sprint(p.Tokens(taken)), "map[{all }:4 {type A g:a}:2 {type A g:b}:1]"; got != want {
		t.Errorf("tokens %s, want %s", got, want)
	}
	p.Claimed(taken)
	if got := grants(); got != "g: 20; g:b 3" {
		t.Errorf("then grants %s", got)
	}
}
