package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func perGroup(of string, most int) taskdb.Limit {
	one := runsAtMost(of, most)
	if one.Per = "group"; most == 0 {
		one.MaxRunning = nil
	}
	return one
}

// weighted is a limit that gives group a the weight 3.
func weighted() taskdb.Limit {
	one := perGroup("all", 0)
	one.Weights = store.Weights{"a": 3}
	return one
}

func ratePerGroup(of string, interval time.Duration, burst int) taskdb.Limit {
	one := startsAt(of, interval, burst, 0)
	one.Per = "group"
	return one
}

// bucketsOf makes buckets of keys, each with the seconds until it is full.
func bucketsOf(t *testing.T, text string) Buckets {
	t.Helper()
	full, fields := map[string]time.Duration{}, strings.Fields(text)
	for i := 1; i < len(fields); i += 2 {
		seconds, err := time.ParseDuration(fields[i] + "s")
		if err != nil {
			t.Fatal(err)
		}
		full[fields[i-1]] = seconds
	}
	return func(_ taskdb.Limit, key string) time.Duration { return full[key] }
}

// keyed is a job of a group that runs for long.
func keyed(kind, key string) Job {
	one := runs(1, kind, 1, time.Hour)
	one.Key = key
	return one
}

func TestTurns(t *testing.T) {
	t.Parallel()
	one, rate := []taskdb.Limit{perGroup("type A", 1)}, []taskdb.Limit{ratePerGroup("type A", time.Second, 4)}
	for _, test := range []struct {
		name   string
		heads  string // key, seconds until it is due, turn
		limits []taskdb.Limit
		jobs   []Job
		full   string // key and the seconds until its bucket is full
		want   string // key and the seconds until it counts as due
	}{
		{name: "the oldest first", heads: "g:a -1 0; g:b -3 0; g:c -2 0", limits: one, want: "g:b -3; g:c -2; g:a -1"},
		{name: "one that was served comes later, at the time of the others", heads: "g:a -9 7; g:b -3 0; g:c -2 5",
			limits: one, want: "g:b -9; g:c -3; g:a -2"},
		{name: "of which fewer run comes first", heads: "g:a -9 1; g:b -3 7", limits: []taskdb.Limit{perGroup("all", 5)},
			jobs: []Job{keyed("A", "g:a"), keyed("B", "g:a"), keyed("A", "g:b")}, want: "g:b -9; g:a -3"},
		{name: "by weight", heads: "g:a -9 7; g:b -3 0", limits: []taskdb.Limit{weighted()},
			jobs: []Job{keyed("A", "g:a"), keyed("A", "g:a"), keyed("A", "g:b")}, want: "g:a -9; g:b -3"},
		{name: "as many as its weight run", heads: "g:a -9 1; g:b -3 7", limits: []taskdb.Limit{weighted()},
			jobs: slices.Repeat([]Job{keyed("A", "g:a")}, 3), want: "g:b -9; g:a -3"},
		{name: "fewer than its weight run, and another has the turn", heads: "g:a -9 7; g:b -3 1",
			limits: []taskdb.Limit{weighted()}, jobs: []Job{keyed("A", "g:a")}, want: "g:b -9; g:a -3"},
		{name: "the largest weight", heads: "g:a -9 1; g:b -3 7", limits: []taskdb.Limit{perGroup("type A", 9), weighted()},
			jobs: slices.Repeat([]Job{keyed("A", "g:a")}, 2), want: "g:a -9; g:b -3"},
		{name: "reached", heads: "g:a -9 1; g:b -3 7", limits: one, jobs: []Job{keyed("A", "g:a")},
			want: "g:a -9; g:b -3"},
		{name: "one of those that are reached stands for all", heads: "g:a -9 1; g:b -3 7; g:c -1 0", limits: one,
			jobs: []Job{keyed("A", "g:a"), keyed("A", "g:b")}, want: "g:b -3; g:c -1"},
		{name: "no maximum", heads: "g:a -9 1; g:b -3 0", limits: []taskdb.Limit{perGroup("all", 0)},
			jobs: []Job{keyed("A", "g:a")}, want: "g:b -9; g:a -3"},
		{name: "jobs of another type do not count", heads: "g:a -9 1", limits: one, jobs: []Job{keyed("B", "g:a")},
			want: "g:a -9"},
		{name: "no group", heads: "g: -9 3; g:b -3 4", limits: one, jobs: []Job{keyed("A", "g:"), keyed("A", "g:b")},
			want: "g:b -3; g: -9"},
		{name: "to come", heads: "g:a 2 0; g:b -3 4", limits: one, want: "g:a 2; g:b -3"},
		{name: "no token", heads: "g:a -9 0; g:b -3 0", limits: rate, full: "g:a 5 g:b 3", want: "g:a 2; g:b -3"},
		{name: "without a token it is due when there is one", heads: "g:a -9 0; g:b -3 0; g:c 4 0", limits: rate,
			full: "g:a 8 g:b 9", want: "g:c 4"},
		{name: "of those without a token the next one", heads: "g:a -9 0; g:b -3 0; g:c 4 0", limits: rate,
			full: "g:a 6 g:b 5", want: "g:b 2"},
		{name: "no token, and as many run as may", heads: "g:a -9 0", full: "g:a 5", want: "g:a 2",
			limits: append(rate, one...), jobs: []Job{keyed("A", "g:a")}},
		{name: "a token, but as many run as may", heads: "g:a -9 0", full: "g:a 1", want: "g:a -9",
			limits: append(rate, one...), jobs: []Job{keyed("A", "g:a")}},
		{name: "of two rates both must have a token", heads: "g:a -9 0", full: "g:a 6",
			limits: []taskdb.Limit{ratePerGroup("all", 2*time.Second, 4), ratePerGroup("type A", time.Second, 4)},
			want:   "g:a 3"},
		{name: "without a group", heads: "g: -9 0", limits: rate, full: "g: 9", want: "g: -9"},
	} {
		var heads []KeyHead
		for _, text := range strings.Split(test.heads, "; ") {
			fields := strings.Split(text, " ")
			head := KeyHead{Key: strings.Join(fields[:len(fields)-2], " ")}
			var seconds int
			if _, err := fmt.Sscan(fields[len(fields)-2], &seconds); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscan(fields[len(fields)-1], &head.Turn); err != nil {
				t.Fatal(err)
			}
			head.DueIn = time.Duration(seconds) * time.Second
			head.Head = time.Unix(0, 0).Add(head.DueIn)
			heads = append(heads, head)
		}
		var got []string
		for _, lane := range NewTurns(test.limits, test.jobs, bucketsOf(t, test.full)).Of(laneOf("default A 0", 0).Key(), heads) {
			got = append(got, fmt.Sprintf("%s %d", lane.LimitKey, lane.DueIn/time.Second))
		}
		if text := strings.Join(got, "; "); text != test.want {
			t.Errorf("%s: %s, want %s", test.name, text, test.want)
		}
	}
}

// Each group gets one slot before another gets a second one, and all slots are used. A group that has reached its limit
// gets none, and the leader looks again soon.
func TestTurnsShareTheSlots(t *testing.T) {
	t.Parallel()
	nodes := []taskdb.LiveNode{node(1, map[string]int{"default": 6}, "A")}
	of := func(group string, dueIn time.Duration) taskdb.Lane {
		lane := laneOf("default A 0", dueIn)
		lane.LimitKey = group
		return lane
	}
	grants := func(limit taskdb.Limit, jobs ...Job) (string, bool) {
		p := New(Input{Nodes: nodes, Limits: []taskdb.Limit{limit}, Rates: known, Jobs: jobs,
			Lanes: []taskdb.Lane{of("g:a", -9), of("g:b", -3), of("g:c", -1)}})
		peeks := p.Peeks(100)
		times := make([][]time.Duration, len(peeks))
		for i, peek := range peeks {
			times[i] = make([]time.Duration, peek.Most)
			for j := range times[i] {
				times[i][j] = -10 // all are older than the first ones of the others
			}
		}
		p.Peeked(peeks, times)
		var got []string
		for _, grant := range p.Grants(100) {
			got = append(got, fmt.Sprint(grant.LimitKey, " ", grant.Tasks))
		}
		return strings.Join(got, "; "), p.Full
	}
	for _, test := range []struct {
		limit taskdb.Limit
		jobs  []Job
		want  string
		full  bool
	}{
		{limit: perGroup("all", 1), want: "g:a 1; g:b 1; g:c 1"},
		{limit: perGroup("all", 2), want: "g:a 2; g:b 2; g:c 2"},
		{limit: perGroup("all", 0), want: "g:a 2; g:b 2; g:c 2"},
		{limit: perGroup("all", 1), jobs: []Job{keyed("A", "g:a")}, want: "g:b 1; g:c 1", full: true},
	} {
		if got, full := grants(test.limit, test.jobs...); got != test.want || full != test.full {
			t.Errorf("at most %v, jobs %v: %s, full %t, want %s", test.limit.MaxRunning, test.jobs, got, full, test.want)
		}
	}
}

// Whatever the claims take of the grants, of no group do more tasks run than a limit says. While there is room, some
// group gets it.
func TestLimitsOfGroupsAreNeverExceeded(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(26, 2))
	kinds := []string{"A", "L", "Q"}
	for i := range 3000 {
		nodes := []taskdb.LiveNode{node(1, map[string]int{"default": 1 + random.IntN(6)}, kinds...),
			node(2, map[string]int{"default": 1 + random.IntN(6)}, kinds...)}
		var limits []taskdb.Limit
		for _, of := range []string{"all", "queue default", "type A", "type L", "type Q"} {
			one := perGroup(of, random.IntN(4))
			if random.IntN(4) == 0 {
				one = runsAtMost(of, 1+random.IntN(8))
			}
			if one.Name += fmt.Sprint(len(limits)); random.IntN(2) == 0 {
				limits = append(limits, one)
			}
		}
		group := func() string { return []string{"g:", "g:a", "g:b", "g:c", "g:d"}[random.IntN(5)] }
		var jobs []Job
		for range random.IntN(8) {
			one := waits("default", kinds[random.IntN(3)], 1)
			if one.Key = group(); random.IntN(2) == 0 {
				one.State, one.Node = Running, 1
			}
			jobs = append(jobs, one)
		}
		var lanes []taskdb.Lane
		turns := NewTurns(limits, jobs, nil)
		for _, kind := range kinds {
			lane := laneOf("default "+kind+" 0", -time.Second)
			if taskdb.PrefixOf(limits, "default", kind) == "" {
				lanes = append(lanes, lane)
				continue
			}
			var heads []KeyHead
			for _, key := range []string{"g:", "g:a", "g:b", "g:c", "g:d"} {
				if random.IntN(3) > 0 {
					heads = append(heads, KeyHead{Key: key, DueIn: -time.Duration(random.IntN(9))})
				}
			}
			lanes = append(lanes, turns.Of(lane.Key(), heads)...)
		}
		p := New(Input{Lanes: lanes, Nodes: nodes, Jobs: jobs, Limits: limits, Rates: known, LookAhead: time.Second})
		peeks := p.Peeks(100)
		times := make([][]time.Duration, len(peeks))
		for j, peek := range peeks {
			times[j] = slices.Repeat([]time.Duration{-time.Second}, 1+random.IntN(peek.Most))
		}
		p.Peeked(peeks, times)
		all := slices.Clone(jobs)
		for again := true; again; {
			var taken []taskdb.ClaimedLane
			for _, grant := range p.Grants(100) {
				some := grant.Tasks
				if random.IntN(3) == 0 {
					some = random.IntN(some + 1)
				}
				taken = append(taken, someOf(grant, some))
				for size := grant.JobSize(some); some > 0; some -= size {
					one := waits(grant.Queue, grant.Type, min(some, size))
					one.Key = grant.LimitKey
					all = append(all, one)
				}
			}
			again = p.Claimed(taken)
		}
		before, after := countRunning(limits, jobs), countRunning(limits, all)
		for of, n := range after {
			if most := limits[of.limit].MaxRunning; most != nil && n > max(*most, before[of]) {
				t.Fatalf("%d: limit %+v: %d of %q run; lanes %v, jobs %v", i, limits[of.limit], n, of.key, lanes, jobs)
			}
		}
	}
}

// In order, a group has one task at a time, of the lane whose first task comes first by its priority and its own time.
func TestKeepOrder(t *testing.T) {
	t.Parallel()
	nodes := []taskdb.LiveNode{node(1, map[string]int{"default": 6}, "A", "B")}
	limit := perGroup("all", 1)
	limit.InOrder = true
	of := func(lane, key string, dueIn, late time.Duration) taskdb.Lane {
		made := laneOf(lane, dueIn)
		made.LimitKey, made.Late = key, late
		if made.Key().Counted() {
			made.InOrder = "all"
		}
		return made
	}
	rates := Rates{Took: map[string]time.Duration{"A": time.Millisecond, "B": time.Millisecond}}
	for _, test := range []struct {
		name  string
		lanes []taskdb.Lane
		jobs  []Job
		want  string
	}{
		{name: "one task, though many would fit in a job", lanes: []taskdb.Lane{of("default A 0", "g:a", -9, 9)},
			want: "default A 0 g:a 1 in jobs of 1"},
		{name: "by its own time, not by that of its turn", want: "default B 0 g:a 1 in jobs of 1",
			lanes: []taskdb.Lane{of("default A 0", "g:a", -9, 3), of("default B 0", "g:a", -1, 5)}},
		{name: "by priority", want: "default B 1 g:a 1 in jobs of 1",
			lanes: []taskdb.Lane{of("default A 0", "g:a", -9, 9), of("default B 1", "g:a", -1, 1)}},
		{name: "two groups", want: "default A 0 g:a 1 in jobs of 1; default B 0 g:b 1 in jobs of 1",
			lanes: []taskdb.Lane{of("default A 0", "g:a", -9, 9), of("default B 0", "g:b", -1, 1)}},
		{name: "one runs", lanes: []taskdb.Lane{of("default A 0", "g:a", -9, 9), of("default B 0", "g:a", -1, 1)},
			jobs: []Job{keyed("B", "g:a")}},
		{name: "without a group", lanes: []taskdb.Lane{of("default A 0", "g:", -9, 9)},
			want: "default A 0 g: 500 in jobs of 84"},
	} {
		p := New(Input{Nodes: nodes, Limits: []taskdb.Limit{limit}, Rates: rates, Jobs: test.jobs, Lanes: test.lanes})
		var got []string
		for _, grant := range p.Grants(500) {
			got = append(got, fmt.Sprintf("%s %s %d %s %d in jobs of %d", grant.Queue, grant.Type, grant.Priority,
				grant.LimitKey, grant.Tasks, grant.JobSize(grant.Tasks)))
		}
		slices.Sort(got)
		if text := strings.Join(got, "; "); text != test.want {
			t.Errorf("%s: %s, want %s", test.name, text, test.want)
		}
	}
}
