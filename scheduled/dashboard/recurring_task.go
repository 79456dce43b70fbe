package dashboard

import (
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
	Revision int64
	Verbs    []verbView
	Sentence string
	Tone     string
	Fires    []fireView
	Forecast inspect.Forecast

	Occurrences []occurrenceView
	Strip       strip
	Chart       durationChart
}

// fireView is a coming fire in the zone of its task. The template adds the time in the person's zone.
type fireView struct {
	inspect.Fire

	Wall  string
	Holds []string // the pauses that hold it
}

type occurrenceView struct {
	inspect.Occurrence

	Took  *time.Duration
	Delay *time.Duration // from the fire to the start
}

// Title is the id.
func (view recurringTaskView) Title() string { return view.Task.ID }

// Ended reports whether the task fires no more.
func (view recurringTaskView) Ended() bool { return view.Task.Health == inspect.HealthEnded }

// toneOf is the tone of the sentence. A task whose fires went well may be held up now.
func toneOf(health inspect.Health, reason inspect.Reason) string {
	if tone := tones[reason.Code]; tone == "bad" || tone == "warn" {
		return tone
	}
	switch health {
	case inspect.HealthFailing, inspect.HealthOverdue:
		return "bad"
	case inspect.HealthPaused:
		return "warn"
	case inspect.HealthOK:
		return "good"
	case inspect.HealthEnded, inspect.HealthNew:
	}
	return ""
}

// SameZone reports whether times in the zone of the task and in that of the person are the same.
func (view recurringTaskView) SameZone(zone string) bool { return zone == view.Task.TimeZone }

func recurringTaskPage(ctx context.Context, v *visit) (any, error) {
	id := v.path("id")
	// The revision is read first, so that a change between the two reads is told when somebody acts.
	row, err := v.tasks.Get(ctx, v.db, id)
	if err != nil {
		return nil, err
	}
	view := recurringTaskView{Row: row, Revision: row.Revision, Verbs: v.verbsOf(row)}
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
	view.Strip, view.Chart = stripOf(v, occurrences), chartOf(occurrences)
	for _, one := range occurrences {
		view.Occurrences = append(view.Occurrences, occurrenceViewOf(one))
	}
	return view, err
}

// firesOf has each fire by the wall clock of its task's zone.
func firesOf(forecast inspect.Forecast) []fireView {
	zone := zoneOrUTC(forecast.Task.TimeZone)
	fires := make([]fireView, len(forecast.Fires))
	for i, fire := range forecast.Fires {
		fires[i] = fireView{Fire: fire, Wall: fire.At.In(zone).Format("Mon 2006-01-02 15:04:05 MST")}
		for _, by := range fire.Paused {
			fires[i].Holds = append(fires[i].Holds, pauseWords(by))
		}
	}
	return fires
}

// zoneOrUTC is a zone of the database, which this machine may not know.
func zoneOrUTC(name string) *time.Location {
	if zone, err := zoneOf(name); err == nil {
		return zone
	}
	return time.UTC
}

// pauseWords tells what is paused: task, or a Scope as text.
func pauseWords(by string) string {
	switch by {
	case "task":
		return "the task is paused"
	case "all":
		return "everything is paused"
	}
	return by + " is paused"
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

const (
	chartHeight = 80
	barStep     = 14
)

func chartOf(occurrences []inspect.Occurrence) durationChart {
	chart := durationChart{Width: occurrencesShown * barStep}
	ran := 0
	for _, one := range occurrences {
		if took := occurrenceViewOf(one).Took; took != nil {
			ran++
			chart.Max = max(chart.Max, *took)
		}
	}
	if ran == 0 {
		return durationChart{}
	}
	for i := range occurrences {
		one := occurrenceViewOf(occurrences[len(occurrences)-1-i])
		bar := durationBar{X: i * barStep, Height: 2, Class: barClass(one.Status), Text: string(one.Status)}
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

func barClass(status store.Status) string {
	switch status {
	case store.StatusCompleted:
		return "good"
	case store.StatusFailed, store.StatusExpired:
		return "bad"
	case store.StatusQueued, store.StatusExecuting, store.StatusCancelled, store.StatusPaused, store.StatusSkipped:
	}
	return "faint"
}
