package recurrence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// schedules are the expressions that each change of the clocks is tried with, beside the random ones.
var schedules = []string{
	"@daily", "30 2 * * *", "30 1 * * *", "45 1 * * *", "30 23 * * *", "0 9 * * MON-FRI", // once a day
	"0,30 0-3 * * *", "15 2,3 * * *", "0 0-23 * * *", // fixed times, several of which may fall into a gap
	"@hourly", "*/15 * * * *", "0/20 2 * * *", "*/20 1,2,23 * * SAT,SUN", // wildcards
	"15 30 2 * * *", "*/20 30 2 * * *", // seconds
	"@every 17m30s", "@every 45m", "@every 24h", // elapsed time
	"0 12 31 * *", "59 23 28-31 * *", "0 3 29 2 *", "@monthly", "@weekly", "@yearly", // ends of months, the leap day
	"0 6 13 * FRI", "0 0 */10 * 0", "0 6 13 * *", // day of month and day of week
}

// Random expressions are made of these members, weighted by repetition. Package robfig/cron reads the first, and it
// does not read the second.
var (
	pools = [6][]string{
		{"0", "0", "0", "0", "0", "0", "30", "*/20", "15-17"},
		{"0", "30", "*", "*/15", "0/20", "5-50/15", "0,59", "1/29"},
		{"0", "1", "2", "3", "*", "*", "*/2", "0-3", "22,23", "1/2", "20-23/3"},
		{"*", "*", "*", "?", "*/2", "1,28-31", "13", "*/1"},
		{"*", "*", "*", "MAR,APR,OCT,NOV", "2-12", "*/3"},
		{"*", "*", "*", "?", "SUN", "MON-FRI", "*/2", "sat,0"},
	}
	crontabPools = [6][]string{
		{"0", "0", "0", "0", "0", "0", "55-5", "*/30"},
		{"0", "30", "*/15", "50-10/20", "45-15", "0,59"},
		{"2", "2", "1-3", "22-2", "23-1/2", "*", "0"},
		{"*", "*", "?", "L", "L-1", "L-7", "1W", "15W", "30W", "LW", "28-3", "1,L", "L-2W", "12-14,LW"},
		{"*", "*", "*", "NOV-APRIL", "october-3", "MARCH,OCT", "9-5/2"},
		{"*", "*", "?", "7", "5-7", "FRI-MON", "sunday", "5L", "SUNL", "SUN#1", "7#2", "wed#5", "MON-3,6#4", "6-2/2"},
	}
)

func randomExpression(random *rand.Rand, from [6][]string) string {
	fields := make([]string, len(from))
	for i, pool := range from {
		fields[i] = pool[random.IntN(len(pool))]
	}
	if fields[0] == "0" && random.IntN(2) == 0 {
		fields = fields[1:]
	}
	return strings.Join(fields, " ")
}

// TestAgainstBruteForce compares Next, Between and Last with a walk through time that reads the expression by itself.
// It does so over whole years, and around each change of the clocks, where the walk may take seconds as its step.
func TestAgainstBruteForce(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 1))
	fires := 0
	try := func(s stretch, expression string, from, to, change int64) {
		phase := change - random.Int64N(1_000_000)
		p := planOf(expression, phase)
		if p.step == 1 && p.every == 0 {
			from, to = max(from, change-3*3600), min(to, change+4*3600)
		}
		rule := mustParse(t, expression, s.zone).Anchored(time.Unix(phase, 0))
		want := p.brute(s, from, to)
		fires += len(want)
		t.Run(expression+" "+s.zone, func(t *testing.T) { checkFires(t, random, rule, from, to, want) })
	}
	for _, s := range slices.Concat(years, oddities) {
		for range 3 {
			try(s, randomExpression(random, pools), s.from, s.to, s.from+3*3600)
			try(s, randomExpression(random, crontabPools), s.from, s.to, s.from+3*3600)
		}
		for _, c := range s.changes {
			from, to := max(s.from, c.at-3*86400), min(s.to, c.at+3*86400)
			for _, expression := range schedules {
				try(s, expression, from, to, c.at)
			}
			for range 10 {
				try(s, randomExpression(random, pools), from, to, c.at)
				try(s, randomExpression(random, crontabPools), from, to, c.at)
				try(s, fmt.Sprintf("@every %ds", 1000+random.IntN(20000)), from, to, c.at)
			}
		}
	}
	if fires < 20000 {
		t.Errorf("only %d fires were compared", fires)
	}
}

func checkFires(t *testing.T, random *rand.Rand, rule *Rule, from, to int64, want []int64) {
	start, end := time.Unix(from, 0), time.Unix(to, 0)
	all, more := rule.Between(start, end, len(want))
	if got := seconds(all); more || !slices.Equal(got, want) {
		t.Fatalf(
			"between %s and %s: got %d fires, want %d; more: %t%s", stamp(from), stamp(to), len(got), len(want), more,
			difference(got, want),
		)
	}
	if !slices.IsSortedFunc(all, time.Time.Compare) {
		t.Fatal("not in order")
	}
	if last := rule.Last(start, end); last.IsZero() != (len(want) == 0) ||
		!last.IsZero() && last.Unix() != want[len(want)-1] {
		t.Fatalf("last: got %s", last)
	}
	for range 20 {
		after := start.Add(time.Duration(random.Int64N(int64(end.Sub(start)))))
		if len(want) > 0 && random.IntN(2) == 0 {
			after = time.Unix(want[random.IntN(len(want))], random.Int64N(3)-1) // a nanosecond around a fire
		}
		i, _ := slices.BinarySearchFunc(want, after, func(fire int64, after time.Time) int {
			if time.Unix(fire, 0).After(after) {
				return 1
			}
			return -1
		})
		got := rule.Next(after)
		if i == len(want) {
			if never := got.IsZero() && rule.choice != nil; !never && !got.After(end) {
				t.Fatalf("next after %s: got %s, want none before %s", after.UTC(), got, end.UTC())
			}
		} else if got.Unix() != want[i] {
			t.Fatalf("next after %s: got %s, want %s", after.UTC(), got, stamp(want[i]))
		}
	}
}

func difference(got, want []int64) string {
	for _, fire := range got {
		if !slices.Contains(want, fire) {
			return "; not wanted: " + stamp(fire)
		}
	}
	for _, fire := range want {
		if !slices.Contains(got, fire) {
			return "; missing: " + stamp(fire)
		}
	}
	return ""
}

func seconds(times []time.Time) []int64 {
	list := make([]int64, len(times))
	for i, at := range times {
		list[i] = at.Unix()
	}
	return list
}
