package fireplan

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

func decide(r Task, rule Rule, pauses []Interval, blocked string, most int) Plan {
	return r.List(rule, pauses).Decide(blocked, most)
}

// decided writes a firing: fires in a row that share their fate on one line, then what becomes of the task.
func decided(f Plan) string {
	var text strings.Builder
	for from := 0; from < len(f.Fires); {
		to := from + 1
		for to < len(f.Fires) && f.Fires[to].Skip == f.Fires[from].Skip {
			to++
		}
		text.WriteString(offset(f.Fires[from].At))
		if to-from > 1 {
			fmt.Fprintf(&text, " to %s (%d)", offset(f.Fires[to-1].At), to-from)
		}
		if skip := f.Fires[from].Skip; skip != "" {
			text.WriteString(" skipped: " + skip + "\n")
		} else {
			text.WriteString(" run\n")
		}
		from = to
	}
	fmt.Fprintf(&text, "count %d", f.Count)
	if f.Last != nil {
		text.WriteString(", last " + offset(*f.Last))
	}
	if !f.Next.IsZero() {
		text.WriteString(", next " + offset(f.Next))
	}
	if f.Ended != "" {
		text.WriteString(", " + f.Ended)
	}
	return text.String()
}

func offset(at time.Time) string {
	if at.Equal(midday) {
		return "noon"
	}
	return at.Sub(midday).String()
}

// hourly is an hourly task whose next fire, as planned, is at noon, and comes on time.
func hourly() Task {
	return Task{
		ID: "tick", Cron: "0 * * * *", Overlap: "skip", CatchUp: "latest", CatchUpPaused: "none", CatchUpLimit: 100,
		ScheduledAt: midday.Add(-24 * time.Hour), LastFire: new(midday.Add(-time.Hour)), NextFire: midday,
		OccurrenceCount: 7, Planned: true, Now: midday.Add(50 * time.Millisecond),
	}
}

// late is a task of each minute that has not fired from noon on, for some minutes: as many of its fires as
// the minutes are due.
func late(policy string, minutes int) Task {
	r := hourly()
	r.Cron, r.CatchUp, r.LastFire, r.Now = "* * * * *", policy, new(midday.Add(-time.Minute)), midday.Add(
		time.Duration(minutes-1)*time.Minute+50*time.Millisecond,
	)
	return r
}

// justEdited is a task that was edited at ten past noon: its fires are not planned yet.
func justEdited() Task {
	r := hourly()
	r.Planned, r.NextFire, r.LastFire, r.Now = false, midday.Add(10*time.Minute), new(midday), midday.Add(
		10*time.Minute+50*time.Millisecond,
	)
	return r
}

// justResumed is a task that was resumed at ten past noon, and has not fired since three hours before.
func justResumed(policy string) Task {
	r := justEdited()
	r.Resumed, r.CatchUpPaused, r.LastFire = true, policy, new(midday.Add(-3*time.Hour))
	return r
}

type decision struct {
	name    string
	task    Task
	change  func(*Task)
	pauses  []Interval
	blocked string
	want    string // as decided writes it, indented
}

func checkDecisions(t *testing.T, tests []decision) {
	t.Helper()
	for _, test := range tests {
		if test.change != nil {
			test.change(&test.task)
		}
		rule, err := recurrence.Parse(test.task.Cron, test.task.TimeZone)
		if err != nil {
			t.Fatal(err)
		}
		got := decide(test.task, rule.Anchored(test.task.ScheduledAt), test.pauses, test.blocked, math.MaxInt)
		var want []string
		for line := range strings.Lines(test.want) {
			if line = strings.TrimSpace(line); line != "" {
				want = append(want, line)
			}
		}
		if decided(got) != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, decided(got), strings.Join(want, "\n"))
		}
		if got.Runs != strings.Contains(test.want+"\n", " run\n") {
			t.Errorf("%s: runs: %v", test.name, got.Runs)
		}
	}
}

func TestDecideOnTime(t *testing.T) {
	t.Parallel()
	checkDecisions(t, []decision{
		{name: "on time", task: hourly(), want: `
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "at the very instant", task: hourly(), change: func(r *Task) { r.Now = midday }, want: `
			noon run
			count 8, last noon, next 1h0m0s`},
		{
			name: "its first fire", task: hourly(),
			change: func(r *Task) { r.LastFire, r.OccurrenceCount = nil, 0 }, want: `
			noon run
			count 1, last noon, next 1h0m0s`,
		},
		{
			name: "every so often, counted from its beginning", task: hourly(),
			change: func(r *Task) { r.Cron, r.ScheduledAt = "@every 25m", midday.Add(-50*time.Minute) }, want: `
			noon run
			count 8, last noon, next 25m0s`,
		},
		{name: "an earlier occurrence has not ended", task: hourly(), blocked: "because", want: `
			noon skipped: because
			count 7, last noon, next 1h0m0s`},
	})
}

// An edit fires nothing: the next fire is the first after it, or after the task's beginning.
func TestDecideAfterAnEdit(t *testing.T) {
	t.Parallel()
	created := func(start time.Duration) func(*Task) {
		return func(r *Task) { r.LastFire, r.OccurrenceCount, r.ScheduledAt = nil, 0, midday.Add(start) }
	}
	checkDecisions(t, []decision{
		{name: "edited", task: justEdited(), want: `count 7, last noon, next 1h0m0s`},
		{
			name: "edited in the instant of a fire", task: justEdited(),
			change: func(r *Task) { r.NextFire, r.LastFire = midday, nil }, want: `count 7, next 1h0m0s`,
		},
		{name: "edited just before a fire", task: justEdited(), change: func(r *Task) {
			r.NextFire, r.LastFire, r.Now = midday.Add(-time.Microsecond), nil, midday.Add(-time.Microsecond)
		}, want: `count 7, next noon`},
		{
			name: "planned late: the fire after the edit is missed, the one before it is not", task: justEdited(),
			change: func(r *Task) { r.Now = midday.Add(61 * time.Minute) }, want: `
			1h0m0s run
			count 8, last 1h0m0s, next 2h0m0s`,
		},
		{name: "created", task: justEdited(), change: created(10 * time.Minute), want: `count 0, next 1h0m0s`},
		{
			name: "created with a beginning long past", task: justEdited(), change: created(-1000 * time.Hour),
			want: `count 0, next 1h0m0s`,
		},
		{
			name: "begins between two fires", task: justEdited(), change: created(150 * time.Minute),
			want: `count 0, next 3h0m0s`,
		},
		{name: "begins at a fire", task: justEdited(), change: created(2 * time.Hour), want: `count 0, next 2h0m0s`},
		{
			name: "begins just after a fire", task: justEdited(), change: created(2*time.Hour + time.Microsecond),
			want: `count 0, next 3h0m0s`,
		},
		{name: "began while there was no leader", task: justEdited(), change: func(r *Task) {
			created(2 * time.Hour)(r)
			r.Now = midday.Add(4 * time.Hour)
		}, want: `
			2h0m0s to 3h0m0s (2) skipped: missed, and catch_up runs only the latest
			4h0m0s run
			count 1, last 4h0m0s, next 5h0m0s`},
		{name: "every so often, from a beginning to come", task: justEdited(),
			change: func(r *Task) { created(15 * time.Minute)(r); r.Cron = "@every 45m" },
			want:   `count 0, next 15m0s`},
		{name: "every so often, from a beginning that is past", task: justEdited(),
			change: func(r *Task) { created(-15 * time.Minute)(r); r.Cron = "@every 45m" },
			want:   `count 0, next 30m0s`},
		{name: "edited by a clock that is behind", task: justEdited(),
			change: func(r *Task) { r.NextFire, r.Now = midday.Add(-5*time.Minute), midday.Add(-5*time.Minute) },
			want:   `count 7, last noon, next 1h0m0s`},
		{name: "edited by a clock that was behind", task: justEdited(),
			change: func(r *Task) { r.NextFire = midday.Add(-500 * time.Minute) },
			want:   `count 7, last noon, next 1h0m0s`},
		{name: "what it missed before is not made up for by the edit", task: justEdited(),
			change: func(r *Task) { r.LastFire = new(midday.Add(-9 * time.Hour)) },
			want:   `count 7, last -9h0m0s, next 1h0m0s`},
	})
}

func TestDecideCatchUp(t *testing.T) {
	t.Parallel()
	hour := func(policy string, late time.Duration) Task {
		r := hourly()
		r.CatchUp, r.Now = policy, midday.Add(late)
		return r
	}
	checkDecisions(t, []decision{
		{name: "latest, 1", task: late("latest", 1), want: `
			noon run
			count 8, last noon, next 1m0s`},
		{name: "latest, 2", task: late("latest", 2), want: `
			noon skipped: missed, and catch_up runs only the latest
			1m0s run
			count 8, last 1m0s, next 2m0s`},
		{name: "latest, an hour", task: late("latest", 60), want: `
			noon to 58m0s (59) skipped: missed, and catch_up runs only the latest
			59m0s run
			count 8, last 59m0s, next 1h0m0s`},
		{name: "latest, 59 minutes late", task: hour("latest", 59*time.Minute), want: `
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "all, 2", task: late("all", 2), want: `
			noon to 1m0s (2) run
			count 9, last 1m0s, next 2m0s`},
		{name: "all, an hour", task: late("all", 60), want: `
			noon to 59m0s (60) run
			count 67, last 59m0s, next 1h0m0s`},
		{name: "all, as many as its limit", task: late("all", 100), want: `
			noon to 1h39m0s (100) run
			count 107, last 1h39m0s, next 1h40m0s`},
		{name: "all, more than its limit", task: late("all", 103), want: `
			noon to 2m0s (3) skipped: missed, and catch_up runs only the latest 100
			3m0s to 1h42m0s (100) run
			count 107, last 1h42m0s, next 1h43m0s`},
		{name: "all, a limit of one", task: late("all", 3), change: func(r *Task) { r.CatchUpLimit = 1 }, want: `
			noon to 1m0s (2) skipped: missed, and catch_up runs only the latest 1
			2m0s run
			count 8, last 2m0s, next 3m0s`},
		{name: "none, 2: not even the one that is on time", task: late("none", 2), want: `
			noon to 1m0s (2) skipped: missed, and catch_up is none
			count 7, last 1m0s, next 2m0s`},
		{name: "none, an hour", task: late("none", 60), want: `
			noon to 59m0s (60) skipped: missed, and catch_up is none
			count 7, last 59m0s, next 1h0m0s`},
		{name: "none, 59 s late", task: hour("none", 59*time.Second), want: `
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "none, a minute late", task: hour("none", time.Minute), want: `
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "none, 61 s late", task: hour("none", 61*time.Second), want: `
			noon skipped: missed, and catch_up is none
			count 7, last noon, next 1h0m0s`},
		{
			name: "blocked: the reasons of what was missed stay, and what would have run says what is in its way",
			task: late("latest", 3), blocked: "because", want: `
			noon to 1m0s (2) skipped: missed, and catch_up runs only the latest
			2m0s skipped: because
			count 7, last 2m0s, next 3m0s`,
		},
		{name: "all, blocked", task: late("all", 3), blocked: "because", want: `
			noon to 2m0s (3) skipped: because
			count 7, last 2m0s, next 3m0s`},
	})
}
