package recurrence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// What a random expression is made of, weighted by repetition.
var pools = [6][]string{
	{"0", "0", "0", "0", "0", "0", "30", "*/20", "15-17"},
	{"0", "30", "*", "*/15", "0/20", "5-50/15", "0,59", "1/29"},
	{"0", "1", "2", "3", "*", "*", "*/2", "0-3", "22,23", "1/2", "20-23/3"},
	{"*", "*", "*", "?", "*/2", "1,28-31", "13", "*/1"},
	{"*", "*", "*", "MAR,APR,OCT,NOV", "2-12", "*/3"},
	{"*", "*", "*", "?", "SUN", "MON-FRI", "*/2", "sat,0"},
}

func randomExpression(random *rand.Rand) string {
	return expressionFrom(random, pools)
}

// TestAgainstBruteForce: around every change of the clocks, Next, Between and Last say of random expressions what a
// walk through time does.
func TestAgainstBruteForce(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 1))
	for _, s := range slices.Concat(years, oddities) {
		for _, c := range s.changes {
			from, to := max(s.from, c.at-30*3600), min(s.to, c.at+40*3600)
			for range 12 {
				expression := randomExpression(random)
				if random.IntN(12) == 0 {
					expression = fmt.Sprintf("@every %ds", 1000+random.IntN(20000))
				}
				phase := c.at - random.Int64N(1_000_000)
				p := planOf(expression, phase)
				if p.step == 1 && p.every == 0 { // the walk takes seconds
					from, to = max(from, c.at-3*3600), min(to, c.at+4*3600)
				}
				rule := mustParse(t, expression, s.zone).Anchored(time.Unix(phase, 0))
				t.Run(expression+" "+s.zone, func(t *testing.T) {
					checkFires(t, random, rule, from, to, p.brute(s, from, to))
				})
			}
		}
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
			if !got.After(end) {
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

// TestAsRobfig: where clocks never change, an expression means what robfig/cron says, descriptors included.
func TestAsRobfig(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 4))
	parser := cron.NewParser(
		cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor,
	)
	expressions := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
	for len(expressions) < 300 {
		expressions = append(expressions, randomExpression(random))
	}
	for _, expression := range expressions {
		schedule, err := parser.Parse("TZ=UTC " + expression)
		if err != nil {
			t.Fatal(err)
		}
		rule := mustParse(t, expression, "")
		at := time.Unix(random.Int64N(4_000_000_000), 0).UTC()
		for range 5 {
			next := rule.Next(at)
			if want := schedule.Next(at); !next.Equal(want) && !want.IsZero() { // it gives up after five years
				t.Errorf("%s after %s: got %s, want %s", expression, at, next, want)
			}
			at = next
		}
	}
}
