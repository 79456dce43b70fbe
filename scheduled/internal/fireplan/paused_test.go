package fireplan

import (
	"testing"
	"time"
)

// What was missed during a pause of the task itself, or of its queue, its type or everything, follows a
// policy of its own.
func TestDecidePaused(t *testing.T) {
	t.Parallel()
	at := func(hours ...float64) (times []time.Time) {
		for _, h := range hours {
			times = append(times, midday.Add(time.Duration(h*float64(time.Hour))))
		}
		return times
	}
	during := func(from, until float64) []Interval { ends := at(from, until); return []Interval{{ends[0], ends[1]}} }
	missed := func(policy string) Task { // fires of -3 h to noon are due
		r := hourly()
		r.CatchUpPaused, r.NextFire, r.LastFire = policy, midday.Add(-3*time.Hour), new(midday.Add(-4*time.Hour))
		return r
	}
	const latest, all = "missed while paused, and catch_up_paused runs only the latest",
		"missed while paused, and catch_up_paused runs only the latest 2"
	checkDecisions(t, []decision{
		{name: "resumed", task: justResumed("none"), want: `
			-2h0m0s to noon (3) skipped: missed while paused, and catch_up_paused is none
			count 7, last noon, next 1h0m0s`},
		{name: "resumed, latest", task: justResumed("latest"), want: `
			-2h0m0s to -1h0m0s (2) skipped: ` + latest + `
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "resumed, all", task: justResumed("all"), want: `
			-2h0m0s to noon (3) run
			count 10, last noon, next 1h0m0s`},
		{
			name: "resumed, all up to a limit", task: justResumed("all"),
			change: func(r *Task) { r.CatchUpLimit = 2 }, want: `
			-2h0m0s skipped: ` + all + `
			-1h0m0s to noon (2) run
			count 9, last noon, next 1h0m0s`,
		},
		{
			name: "resumed, and nothing was missed", task: justResumed("all"),
			change: func(r *Task) { r.LastFire = new(midday) }, want: `count 7, last noon, next 1h0m0s`,
		},
		{
			name: "resumed, has never fired", task: justResumed("latest"),
			change: func(r *Task) { r.LastFire, r.ScheduledAt = nil, midday.Add(-2*time.Hour) }, want: `
			-2h0m0s to -1h0m0s (2) skipped: ` + latest + `
			noon run
			count 8, last noon, next 1h0m0s`,
		},
		{
			name: "resumed, edited before the pause", task: justResumed("all"),
			change: func(r *Task) { r.EditedAt = new(midday.Add(-90 * time.Minute)) }, want: `
			-1h0m0s to noon (2) run
			count 9, last noon, next 1h0m0s`,
		},
		{
			name: "resumed before its beginning", task: justResumed("all"),
			change: func(r *Task) { r.ScheduledAt = midday.Add(5 * time.Hour) },
			want:   `count 7, last -3h0m0s, next 5h0m0s`,
		},
		{name: "resumed before its beginning, never fired", task: justResumed("all"),
			change: func(r *Task) { r.LastFire, r.ScheduledAt = nil, midday.Add(5*time.Hour) },
			want:   `count 7, next 5h0m0s`},
		{
			name: "resumed, then no leader", task: justResumed("none"),
			change: func(r *Task) { r.Now = midday.Add(130 * time.Minute) }, want: `
			-2h0m0s to noon (3) skipped: missed while paused, and catch_up_paused is none
			1h0m0s skipped: missed, and catch_up runs only the latest
			2h0m0s run
			count 8, last 2h0m0s, next 3h0m0s`,
		},
		{
			name: "resumed with both policies: only the last of the two runs", task: justResumed("latest"),
			change: func(r *Task) { r.Now = midday.Add(130 * time.Minute) }, want: `
			-2h0m0s to -1h0m0s (2) skipped: ` + latest + `
			noon skipped: missed, and a later one runs because overlap is skip
			1h0m0s skipped: missed, and catch_up runs only the latest
			2h0m0s run
			count 8, last 2h0m0s, next 3h0m0s`,
		},
		{
			name: "resumed with both policies, and may overlap: each runs its own latest", task: justResumed("latest"),
			change: func(r *Task) { r.Now, r.Overlap = midday.Add(130*time.Minute), "allow" },
			want: `
			-2h0m0s to -1h0m0s (2) skipped: ` + latest + `
			1h0m0s skipped: missed, and catch_up runs only the latest
			noon to 2h0m0s (2) run
			count 9, last 2h0m0s, next 3h0m0s`,
		},
		{name: "its queue was paused", task: missed("none"), pauses: during(-3.5, -0.5), want: `
			-3h0m0s to -1h0m0s (3) skipped: missed while paused, and catch_up_paused is none
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "its queue was paused, latest", task: missed("latest"), pauses: during(-3.5, -0.5), want: `
			-3h0m0s to -2h0m0s (2) skipped: ` + latest + `
			-1h0m0s skipped: missed, and a later one runs because overlap is skip
			noon run
			count 8, last noon, next 1h0m0s`},
		{
			name: "its queue was paused, latest, and may overlap", task: missed("latest"),
			change: func(r *Task) { r.Overlap = "allow" }, pauses: during(-3.5, -0.5), want: `
			-3h0m0s to -2h0m0s (2) skipped: ` + latest + `
			-1h0m0s to noon (2) run
			count 9, last noon, next 1h0m0s`,
		},
		{name: "its queue was paused, all", task: missed("all"), pauses: during(-3.5, -0.5), want: `
			-3h0m0s to noon (4) run
			count 11, last noon, next 1h0m0s`},
		{name: "from a fire until a fire", task: missed("none"), pauses: during(-3, -1), want: `
			-3h0m0s to -2h0m0s (2) skipped: missed while paused, and catch_up_paused is none
			-1h0m0s skipped: missed, and catch_up runs only the latest
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "two pauses", task: missed("none"), pauses: append(during(-9, -2.5), during(-1.5, -1.4)...), want: `
			-3h0m0s skipped: missed while paused, and catch_up_paused is none
			-2h0m0s to -1h0m0s (2) skipped: missed, and catch_up runs only the latest
			noon run
			count 8, last noon, next 1h0m0s`},
		{name: "a pause that still holds", task: missed("none"), pauses: []Interval{{From: at(-1.5)[0]}}, want: `
			-3h0m0s skipped: missed, and catch_up runs only the latest
			-1h0m0s to noon (2) skipped: missed while paused, and catch_up_paused is none
			-2h0m0s run
			count 8, last noon, next 1h0m0s`},
		{
			name: "paused in the instant of a fire", task: hourly(),
			pauses: []Interval{{From: midday, Until: midday.Add(time.Millisecond)}}, want: `
			noon skipped: missed while paused, and catch_up_paused is none
			count 7, last noon, next 1h0m0s`,
		},
	})
}
