package fireplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// year is the fires of an expression in a zone, from a time to another. The tests of the package recurrence compare the
// rule with a walk through time.
type year struct {
	cron, zone string
	from, to   time.Time
	rule       *recurrence.Rule
	fires      []time.Time
}

// anchor is where @every counts from.
var anchor = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC).AddDate(0, 0, -14000)

// years are the fires of 2026 and of a leap year. Beirut has no midnight in March. They take their time, so the tests
// share them.
var years = sync.OnceValues(func() (all []year, err error) {
	for _, zone := range []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Beirut", "UTC"} {
		for _, cron := range []string{
			"@daily", "30 2 * * *", "@hourly", "*/15 * * * *", "@every 45m", "0 12 31 * *", "0 3 29 2 *",
			"0 6 13 * FRI",
		} {
			if often := cron == "*/15 * * * *" || cron == "@every 45m"; often && zone != "Australia/Lord_Howe" {
				continue // they take their time
			}
			y := year{cron: cron, zone: zone, from: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
			if y.to = y.from.AddDate(1, 0, 0); cron == "0 3 29 2 *" {
				y.to = y.from.AddDate(3, 0, 0)
			}
			rule, err := recurrence.Parse(cron, zone)
			if err != nil {
				return nil, err
			}
			y.rule = rule.Anchored(anchor)
			for fire := y.rule.Next(y.from); !fire.After(y.to); fire = y.rule.Next(fire) {
				y.fires = append(y.fires, fire)
			}
			if len(y.fires) == 0 {
				return nil, fmt.Errorf("%s never fires in %s", cron, zone)
			}
			all = append(all, y)
		}
	}
	return all, nil
})

// eachYear runs a test on each year, with random numbers of its own.
func eachYear(t *testing.T, test func(y year, random *rand.Rand)) {
	t.Helper()
	all, err := years()
	if err != nil {
		t.Fatal(err)
	}
	for i, y := range all {
		test(y, rand.New(rand.NewPCG(1, uint64(i))))
	}
}

// is compares fires, in order, with those of the year.
func (y year) is(t *testing.T, fires []time.Time) {
	t.Helper()
	if !slices.EqualFunc(fires, y.fires, time.Time.Equal) {
		t.Errorf("%s in %s until %s: %d fires, want %d", y.cron, y.zone, y.to, len(fires), len(y.fires))
	}
}

// simulate plays a leader that looks at a new task when look says, given when its next fire is, up to the
// year's end, and returns what was decided each time. What the leader would write to the row is carried from
// one look to the next.
func (y year) simulate(change func(*Task), look func(next time.Time) time.Time) (fires []fire) {
	r := hourly()
	r.Planned, r.LastFire, r.OccurrenceCount, r.CatchUpLimit = false, nil, 0, 10000
	r.ScheduledAt, r.NextFire, r.Now = anchor, y.from, y.from
	if change != nil {
		change(&r)
	}
	for {
		f := decide(r, y.rule, nil, "", 500)
		fires = append(fires, f.Fires...)
		r.LastFire, r.OccurrenceCount, r.NextFire, r.Planned = f.Last, f.Count, f.Next, true
		if f.Next.IsZero() || f.Next.After(y.to) {
			return fires
		}
		if r.Now = look(f.Next); r.Now.After(y.to) {
			r.Now = y.to
		}
	}
}

func instants(t *testing.T, y year, fires []fire) (times []time.Time) {
	t.Helper()
	for _, one := range fires {
		if one.Skip != "" {
			t.Fatalf("%s in %s: %s does not run: %s", y.cron, y.zone, one.At, one.Skip)
		}
		times = append(times, one.At)
	}
	return times
}

// A simulated clock runs through whole years: a leader that looks at each next fire in time forks exactly the fires of
// the rule.
func TestYears(t *testing.T) {
	t.Parallel()
	eachYear(t, func(y year, _ *rand.Rand) {
		y.is(t, instants(t, y, y.simulate(nil, func(next time.Time) time.Time { return next })))
	})
}

// A leader that is away again and again, for up to ten days, makes up for each fire exactly once, with catch_up all.
func TestYearsWithALeaderThatIsOftenAway(t *testing.T) {
	t.Parallel()
	eachYear(t, func(y year, random *rand.Rand) {
		late := func(next time.Time) time.Time { return next.Add(time.Duration(random.Int64N(int64(240 * time.Hour)))) }
		y.is(t, instants(t, y, y.simulate(func(r *Task) { r.CatchUp = "all" }, late)))
	})
}

// Whatever does not run is told: with catch_up latest and none, each fire is run or has a row, as long as a
// row is for one fire.
func TestYearsTellOfEachFire(t *testing.T) {
	t.Parallel()
	eachYear(t, func(y year, random *rand.Rand) {
		if len(y.fires) > 10000 {
			return
		}
		for _, policy := range []string{"latest", "none"} {
			late := func(next time.Time) time.Time {
				return next.Add(time.Duration(random.Int64N(int64(24 * time.Hour))))
			}
			var times []time.Time
			runs := 0
			for _, one := range y.simulate(func(r *Task) { r.CatchUp = policy }, late) {
				if strings.Contains(one.Skip, "so were the fires") {
					t.Fatalf("%s: more than %d in a day", y.cron, MaxSkipped)
				}
				if one.Skip == "" {
					runs++
				}
				times = append(times, one.At)
			}
			if y.is(t, times); policy == "latest" && runs == 0 {
				t.Errorf("%s in %s: none ran", y.cron, y.zone)
			}
		}
	})
}
