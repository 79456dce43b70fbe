package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const (
	firesShown       = 10
	occurrencesShown = 50
)

// recurringTaskView is the page of one recurring task.
type recurringTaskView struct {
	Task     inspect.RecurringTask
	Row      store.Row
	Verbs    []verbView
	Sentence string
	Tone     string
	Fires    []fireView
	Forecast inspect.Forecast

	Occurrences []occurrenceView
	Strip       strip
	Chart       durationChart
}

// fireView is a coming fire in the zone of its task, or a day whose fires are left out. The template adds the time in
// the person's zone.
type fireView struct {
	inspect.Fire

	Wall string
	Days string // what calendars do to it
}

type occurrenceView struct {
	inspect.Occurrence

	Took  *time.Duration
	Delay *time.Duration // from the fire to the start
}

func (view recurringTaskView) Title() string { return view.Task.ID }

// healthTones has the tone of each health that is news.
var healthTones = map[inspect.Health]string{
	inspect.HealthFailing: "bad", inspect.HealthOverdue: "bad", inspect.HealthPaused: "warn", inspect.HealthOK: "good",
}

// toneOf is the tone of the sentence. A task whose fires went well may be held up now.
func toneOf(health inspect.Health, reason inspect.Reason) string {
	if tone := tones[reason.Code]; tone == "bad" || tone == "warn" {
		return tone
	}
	return healthTones[health]
}

func recurringTaskPage(ctx context.Context, v *visit) (any, error) {
	id := v.path("id")
	// The revision is read first, so that a change between the two reads is told when somebody acts.
	row, err := v.tasks.Get(ctx, v.db, id)
	if err != nil {
		return nil, err
	}
	view := recurringTaskView{Row: row, Verbs: v.verbsOf(row)}
	view.Verbs = slices.DeleteFunc(view.Verbs, func(one verbView) bool { return one.Dead })
	if view.Task, err = v.inspector.GetRecurring(ctx, v.db, id); err != nil {
		return nil, err
	}
	why, err := v.inspector.Why(ctx, v.db, id)
	if err != nil {
		return nil, err
	}
	view.Sentence = upper(why.Reason.Sentence(v.exact)) + "."
	view.Tone = toneOf(view.Task.Health, why.Reason)
	pauses, err := v.tasks.Pauses(ctx, v.db)
	if err != nil {
		return nil, err
	}
	// A task whose expression cannot be read has no fires. The leader makes it FAILED.
	view.Forecast, _ = view.Task.Forecast(v.now, pauses, firesShown)
	view.Fires = firesOf(view.Forecast)
	occurrences, err := v.inspector.Occurrences(ctx, v.db, occurrencesShown, id)
	for _, one := range occurrences {
		view.Occurrences = append(view.Occurrences, occurrenceViewOf(one))
	}
	view.Strip, view.Chart = stripOf(v, occurrences), chartOf(view.Occurrences)
	return view, err
}

// firesOf has each fire, and the first one of each day that is left out, by the wall clock of its task's zone.
func firesOf(forecast inspect.Forecast) []fireView {
	zone := zoneOrUTC(forecast.Task.TimeZone)
	wall := func(at time.Time) string { return at.In(zone).Format("Mon 2006-01-02 15:04:05 MST") }
	var fires []fireView
	for _, fire := range forecast.Fires {
		view := fireView{Fire: fire, Wall: wall(fire.At)}
		if fire.MovedFrom != nil {
			view.Days = "moved from " + wall(*fire.MovedFrom) + ": " + fire.Why
		}
		fires = append(fires, view)
	}
	for _, day := range forecast.LeftOut {
		out := inspect.Fire{At: day.At}
		fires = append(fires, fireView{Fire: out, Wall: wall(day.At), Days: "left out: " + day.Why})
	}
	slices.SortStableFunc(fires, func(a, b fireView) int { return a.At.Compare(b.At) })
	return fires
}

// zoneOrUTC is a zone of the database, which this machine may not know.
func zoneOrUTC(name string) *time.Location {
	if zone, err := zoneOf(name); err == nil {
		return zone
	}
	return time.UTC
}

func occurrenceViewOf(one inspect.Occurrence) occurrenceView {
	made := occurrenceView{Occurrence: one}
	if one.StartedAt != nil {
		made.Delay = new(max(0, one.StartedAt.Sub(one.ScheduledAt)))
		if one.FinishedAt != nil {
			made.Took = new(max(0, one.FinishedAt.Sub(*one.StartedAt)))
		}
	}
	return made
}

// durationChart has a bar for each occurrence, the oldest first. An occurrence that did not run has a flat one.
type durationChart struct {
	Label string // "": there is nothing to show
	Width int
	Max   time.Duration
	Bars  []durationBar
}

type durationBar struct {
	X, Y, Height int
	Class        string
	Text         string
}

var barClasses = map[store.Status]string{
	store.StatusCompleted: "good", store.StatusFailed: "bad", store.StatusExpired: "bad",
}

const (
	chartHeight = 80
	barStep     = 14
)

func chartOf(occurrences []occurrenceView) durationChart {
	chart := durationChart{Width: occurrencesShown * barStep}
	ran := false
	for _, one := range occurrences {
		if one.Took != nil {
			ran, chart.Max = true, max(chart.Max, *one.Took)
		}
	}
	if !ran {
		return durationChart{}
	}
	for _, one := range slices.Backward(occurrences) {
		bar := durationBar{X: len(chart.Bars) * barStep, Height: 2, Text: string(one.Status),
			Class: cmp.Or(barClasses[one.Status], "faint")}
		if one.Took != nil {
			bar.Text += ", " + words.Took(*one.Took)
			bar.Height = max(2, int(int64(chartHeight)*one.Took.Microseconds()/max(1, chart.Max.Microseconds())))
		}
		bar.Y = chartHeight - bar.Height
		chart.Bars = append(chart.Bars, bar)
	}
	chart.Label = fmt.Sprintf("How long the newest occurrences took: %s at most. The table below has each of them.",
		words.Took(chart.Max))
	return chart
}
