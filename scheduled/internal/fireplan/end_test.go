package fireplan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

func TestDecideEnd(t *testing.T) {
	t.Parallel()
	most := func(count, most int) func(*Task) {
		return func(r *Task) { r.OccurrenceCount, r.MaxOccurrences = count, &most }
	}
	ends := func(after time.Duration) func(*Task) {
		return func(r *Task) { r.EndsAt = new(midday.Add(after)) }
	}
	both := func(changes ...func(*Task)) func(*Task) {
		return func(r *Task) {
			for _, change := range changes {
				change(r)
			}
		}
	}
	checkDecisions(t, []decision{
		{name: "its last occurrence", task: hourly(), change: most(2, 3), want: `
			noon run
			count 3, last noon, ended after 3 occurrences`},
		{name: "its last but one", task: hourly(), change: most(1, 3), want: `
			noon run
			count 2, last noon, next 1h0m0s`},
		{name: "the last comes in the middle of what was missed", task: late("all", 5), change: most(1, 3), want: `
			noon to 1m0s (2) run
			count 3, last 1m0s, ended after 3 occurrences`},
		{name: "what does not run does not count", task: late("latest", 5), change: most(1, 3), want: `
			noon to 3m0s (4) skipped: missed, and catch_up runs only the latest
			4m0s run
			count 2, last 4m0s, next 5m0s`},
		{name: "nor what is blocked", task: hourly(), change: most(2, 3), blocked: "because", want: `
			noon skipped: because
			count 2, last noon, next 1h0m0s`},
		{
			name: "edited to end after what it has had", task: justEdited(), change: most(7, 3),
			want: `count 7, last noon, ended after 7 occurrences`,
		},
		{name: "ends before the next fire", task: hourly(), change: ends(30 * time.Minute), want: `
			noon run
			count 8, last noon, ended at 2030-01-01T12:30:00Z`},
		{name: "ends with the next fire", task: hourly(), change: ends(time.Hour), want: `
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "ends with this fire", task: hourly(), change: ends(0), want: `
			noon run
			count 8, last noon, ended at 2030-01-01T12:00:00Z`},
		{
			name: "has ended before this fire", task: hourly(), change: ends(-time.Second),
			want: `count 7, last -1h0m0s, ended at 2030-01-01T11:59:59Z`,
		},
		{
			name: "ended in the middle of what was missed, all", task: late("all", 5), change: ends(150 * time.Second),
			want: `
			noon to 2m0s (3) run
			count 10, last 2m0s, ended at 2030-01-01T12:02:30Z`,
		},
		{
			name: "ended in the middle of what was missed: the latest before it runs", task: late("latest", 5),
			change: ends(2 * time.Minute), want: `
			noon to 1m0s (2) skipped: missed, and catch_up runs only the latest
			2m0s run
			count 8, last 2m0s, ended at 2030-01-01T12:02:00Z`,
		},
		{
			name: "ended in the middle of what was missed: the limit counts from the end", task: late("all", 60),
			change: both(ends(9*time.Minute), func(r *Task) { r.CatchUpLimit = 4 }), want: `
			noon to 5m0s (6) skipped: missed, and catch_up runs only the latest 4
			6m0s to 9m0s (4) run
			count 11, last 9m0s, ended at 2030-01-01T12:09:00Z`,
		},
		{
			name: "ended in the middle of what was missed, none", task: late("none", 5),
			change: ends(150 * time.Second), want: `
			noon to 2m0s (3) skipped: missed, and catch_up is none
			count 7, last 2m0s, ended at 2030-01-01T12:02:30Z`,
		},
		{name: "ended while it was paused", task: justResumed("latest"), change: ends(-90 * time.Minute), want: `
			-2h0m0s run
			count 8, last -2h0m0s, ended at 2030-01-01T10:30:00Z`},
		{
			name: "edited to end in the past", task: justEdited(), change: ends(-time.Hour),
			want: `count 7, last noon, ended at 2030-01-01T11:00:00Z`,
		},
		{name: "ends before it begins", task: justEdited(),
			change: both(ends(time.Hour), func(r *Task) {
				r.ScheduledAt, r.LastFire = midday.Add(2*time.Hour), nil
			}),
			want: `count 7, ended at 2030-01-01T13:00:00Z`},
		{name: "both ends at once", task: late("all", 5), change: both(ends(time.Minute), most(0, 2)), want: `
			noon to 1m0s (2) run
			count 2, last 1m0s, ended after 2 occurrences`},
	})
}

func TestDecideTheLastFireOfAll(t *testing.T) {
	t.Parallel()
	rule, err := recurrence.Parse("@yearly", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	r := hourly()
	r.NextFire = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	r.Now = r.NextFire
	f := decide(r, rule, nil, "", math.MaxInt)
	if len(f.Fires) != 1 || !f.Next.IsZero() || f.Ended != "ended: the expression has no further fire" {
		t.Errorf("decided %+v", f)
	}
}

// Of many fires that do not run, one row tells for the earlier ones.
func TestDecideManySkipped(t *testing.T) {
	t.Parallel()
	const latest = "missed, and catch_up runs only the latest"
	checkDecisions(t, []decision{
		{name: "100", task: late("latest", 101), want: `
			noon to 1h39m0s (100) skipped: ` + latest + `
			1h40m0s run
			count 8, last 1h40m0s, next 1h41m0s`},
		{name: "101: 100 rows", task: late("latest", 102), want: `
			noon skipped: ` + latest + `; so were the fires after it until 2030-01-01T12:01:00Z
			2m0s to 1h40m0s (99) skipped: ` + latest + `
			1h41m0s run
			count 8, last 1h41m0s, next 1h42m0s`},
		{name: "a day", task: late("none", 24*60), want: `
			noon skipped: missed, and catch_up is none; so were the fires after it until 2030-01-02T10:20:00Z
			22h21m0s to 23h59m0s (99) skipped: missed, and catch_up is none
			count 7, last 23h59m0s, next 24h0m0s`},
		{name: "a day, all", task: late("all", 24*60), want: `
			noon skipped: ` + latest + ` 100; so were the fires after it until 2030-01-02T08:40:00Z
			20h41m0s to 22h19m0s (99) skipped: ` + latest + ` 100
			22h20m0s to 23h59m0s (100) run
			count 107, last 23h59m0s, next 24h0m0s`},
	})
}

// However many fires were missed, deciding about them takes a bounded time, and the latest of them are what runs.
func TestDecideVeryManyMissed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		cron   string
		policy string
		missed time.Duration
		ends   time.Duration
		runs   int
		last   time.Duration
		ended  bool
	}{
		{"a day of seconds", "* * * * * *", "latest", 24 * time.Hour, 0, 1, 24 * time.Hour, false},
		{"two days of seconds", "* * * * * *", "latest", 48 * time.Hour, 0, 1, 48 * time.Hour, false},
		{"two days of seconds, all", "* * * * * *", "all", 48 * time.Hour, 0, 10000, 48 * time.Hour, false},
		{"two days of seconds, none", "* * * * * *", "none", 48 * time.Hour, 0, 0, 48 * time.Hour, false},
		{"ten years of seconds", "* * * * * *", "all", 87660 * time.Hour, 0, 10000, 87660 * time.Hour, false},
		{
			"ten years of seconds, of which it had a year to live", "* * * * * *", "all", 87660 * time.Hour,
			8766 * time.Hour, 10000, 8766 * time.Hour, true,
		},
		{"ten years of minutes", "* * * * *", "all", 87660 * time.Hour, 0, 10000, 87660 * time.Hour, false},
		{
			"a day a year of seconds", "* * * 1 1 *", "all", 5000 * time.Hour, 0, 10000, 11*time.Hour - time.Second,
			false,
		},
		{"every second of ten years", "@every 1s", "latest", 87660 * time.Hour, 0, 1, 87660 * time.Hour, false},
	} {
		rule, err := recurrence.Parse(test.cron, "Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		r := hourly()
		r.CatchUp, r.CatchUpLimit, r.Now = test.policy, 10000, midday.Add(test.missed)
		if test.ends != 0 {
			r.EndsAt = new(midday.Add(test.ends))
		}
		counted := &counted{rule: rule}
		f := decide(r, counted, nil, "", math.MaxInt)
		most := 600 // for one fire that runs, and a row for each of 100 others
		if test.policy == "all" {
			most = 40000 // ten thousand run
		}
		if counted.steps > most {
			t.Errorf("%s: took %d steps", test.name, counted.steps)
		}
		var runs, skips []fire
		for _, one := range f.Fires {
			if one.Skip == "" {
				runs = append(runs, one)
			} else {
				skips = append(skips, one)
			}
		}
		if len(runs) != test.runs || f.Count != 7+test.runs || len(skips) != MaxSkipped ||
			!f.Last.Equal(midday.Add(test.last)) || (f.Ended != "") != test.ended {
			t.Errorf(
				"%s: %d run, %d are skipped, count %d, the last %s, %q", test.name, len(runs), len(skips), f.Count,
				offset(*f.Last), f.Ended,
			)
		}
		if !skips[0].At.Equal(midday) || !strings.Contains(skips[0].Skip, "; so were the fires after it until 20") {
			t.Errorf("%s: the first is %s %s", test.name, offset(skips[0].At), skips[0].Skip)
		}
		if len(runs) > 0 && !runs[len(runs)-1].At.Equal(*f.Last) {
			t.Errorf("%s: the last that runs is %s", test.name, offset(runs[len(runs)-1].At))
		}
	}
}

// Those left out may have been missed for another reason than those that follow: the first tells for them, and does
// not run for them.
func TestDecideVeryManyMissedWhilePaused(t *testing.T) {
	t.Parallel()
	r := late("latest", 1)
	r.Cron, r.CatchUpPaused, r.Now = "* * * * * *", "latest", midday.Add(48*time.Hour)
	rule, err := recurrence.Parse(r.Cron, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	f := decide(r, rule, []Interval{{midday.Add(-time.Hour), midday.Add(time.Hour)}}, "", math.MaxInt)
	if got := f.Fires[0]; !got.At.Equal(midday) ||
		!strings.HasPrefix(
			got.Skip,
			"missed while paused, and catch_up_paused runs only the latest; so were the fires after it until 2030-01-0",
		) {
		t.Errorf("the first: %+v", got)
	}
	if got := f.Fires[len(f.Fires)-1]; f.Count != r.OccurrenceCount+1 || !got.At.Equal(r.Now) || got.Skip != "" {
		t.Errorf("count %d, the last: %+v", f.Count, got)
	}
}

// A task that is always looked at in time fires in Berlin as its clocks say, also where they change.
func TestDecideWhereClocksChange(t *testing.T) {
	t.Parallel()
	quarters := func(from, to string) (times []string) {
		at, err := time.Parse(time.RFC3339, from)
		if err != nil {
			t.Fatal(err)
		}
		for ; at.Format(time.RFC3339) <= to; at = at.Add(15 * time.Minute) {
			times = append(times, at.Format(time.RFC3339))
		}
		return times
	}
	for _, test := range []struct {
		name, cron, from string
		want             []string
	}{
		// 02:00 to 03:00 does not exist on 29 March 2026: 02:30 fires at 03:00, which is 01:00 UTC.
		{
			"a gap", "30 2 * * *", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		},
		// 02:00 to 03:00 comes twice on 25 October 2026: 02:30 fires the first time only.
		{
			"a repeated hour", "30 2 * * *", "2026-10-24T00:00:00Z",
			[]string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		},
		{
			"a gap, each quarter", "*/15 * * * *", "2026-03-29T00:15:00Z",
			quarters("2026-03-29T00:30:00Z", "2026-03-29T02:00:00Z"),
		},
		{
			"a repeated hour, each quarter", "*/15 * * * *", "2026-10-24T23:30:00Z",
			quarters("2026-10-24T23:45:00Z", "2026-10-25T02:30:00Z"),
		},
	} {
		rule, err := recurrence.Parse(test.cron, "Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.Parse(time.RFC3339, test.from)
		if err != nil {
			t.Fatal(err)
		}
		r := hourly()
		r.NextFire, r.LastFire = rule.Next(from), nil
		var got []string
		for range test.want {
			r.Now = r.NextFire
			f := decide(r, rule, nil, "", math.MaxInt)
			if len(f.Fires) != 1 || f.Fires[0].Skip != "" {
				t.Errorf("%s: %s", test.name, decided(f))
				break
			}
			got = append(got, f.Fires[0].At.UTC().Format(time.RFC3339))
			r.NextFire, r.LastFire = f.Next, f.Last
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// Fires that are too many for one look are left to the next looks. These go on from where it was, and decide the same
// as one look would have, whatever has happened to the task's occurrences in between.
func TestDecideInParts(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*Task){
		"all":                         func(*Task) {},
		"a limit":                     func(r *Task) { r.CatchUpLimit = 70 },
		"most occurrences":            func(r *Task) { r.MaxOccurrences = new(r.OccurrenceCount + 45) },
		"ends":                        func(r *Task) { r.EndsAt = new(midday.Add(150 * time.Minute)) },
		"only the latest when paused": func(r *Task) { r.CatchUpPaused = "latest" },
		"its only run is the last":    func(r *Task) { r.CatchUp = "latest" },
	}
	pauses := []Interval{
		{midday.Add(20 * time.Minute), midday.Add(50 * time.Minute)},
		{midday.Add(90 * time.Minute), midday.Add(100 * time.Minute)},
	}
	rule, err := recurrence.Parse("* * * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range changes {
		r := late("all", 180)
		change(&r)
		whole := decide(r, rule, pauses, "", math.MaxInt)
		slices.SortFunc(whole.Fires, func(a, b fire) int { return a.At.Compare(b.At) })
		parts, blocked := Plan{}, ""
		for range len(whole.Fires)/20 + 1 {
			one := decide(r, rule, pauses, blocked, 20)
			if len(one.Fires) > 20 || !one.Runs {
				t.Fatalf("%s: a look decides about %d fires: %v", name, len(one.Fires), one.Runs)
			}
			slices.SortFunc(one.Fires, func(a, b fire) int { return a.At.Compare(b.At) })
			one.Fires = append(parts.Fires, one.Fires...)
			parts, blocked = one, "an occurrence of the part before has not ended"
			r.LastFire, r.OccurrenceCount, r.NextFire = one.Last, one.Count, one.Next
			r.Now = r.Now.Add(time.Minute) // meanwhile the next fire becomes due
			if one.Ended != "" || !r.GoesOn() {
				break
			}
		}
		if got, want := decided(parts), decided(whole); got != want {
			t.Errorf("%s: in parts\n%s\nat once\n%s", name, got, want)
		}
	}
	// Fires that are blocked are not left to looks that do not know it.
	r := late("all", 180)
	if f := decide(r, rule, pauses, "because", 20); f.Runs || len(f.Fires) != MaxSkipped || !f.Next.After(r.Now) {
		t.Errorf("blocked: %s", decided(f))
	}
}

// counted is a rule that counts how often it looks for a next fire.
type counted struct {
	rule  *recurrence.Rule
	steps int
}

func (c *counted) Next(after time.Time) time.Time { c.steps++; return c.rule.Next(after) }

func (c *counted) Between(from, to time.Time, most int) (fires []time.Time, more bool) {
	fires, more = c.rule.Between(from, to, most)
	c.steps += len(fires) + 1
	return fires, more
}

func (c *counted) Last(from, to time.Time) time.Time { c.steps += 40; return c.rule.Last(from, to) }
