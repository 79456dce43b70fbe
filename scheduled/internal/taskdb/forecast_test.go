package taskdb_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// What the store says will fire is what the leader forks, fire by fire, also after an edit that is yet to be
// planned, and to the end.
func TestForecastIsWhatTheLeaderForks(t *testing.T) {
	t.Parallel()
	berlin := func(of *store.Task) { of.Recurrence.TimeZone = "Europe/Berlin" }
	for name, c := range map[string]struct {
		cron, edited string
		begins       time.Time
		change       func(*store.Task)
		fires        int // before the edit, and after it
	}{
		"hourly":      {"@hourly", "*/20 * * * *", noon, nil, 5},
		"in its zone": {"0 9 * * *", "0 9 * * MON", noon, berlin, 4},
		"clocks change": {
			"30 2 * * *", "*/30 2 * * *", time.Date(noon.Year(), time.March, 20, 0, 0, 0, 0, time.UTC),
			berlin, 12,
		},
		"every": {"@every 47m", "@every 13m", noon.Add(17 * time.Second), nil, 5},
		"ends": {
			"@hourly", "30 * * * *", noon,
			func(of *store.Task) { of.Recurrence.EndsAt = noon.Add(5 * time.Hour) }, 4,
		},
		"after some": {
			"@hourly", "30 * * * *", noon, func(of *store.Task) { of.Recurrence.MaxOccurrences = 5 }, 3,
		},
		"has begun then": {"30 * * * *", "0 * * * *", noon.Add(30 * time.Minute), nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			now := c.begins.Add(-time.Second)
			b.Recur("tick", c.cron, c.begins, func(of *store.Task) {
				of.Recurrence.Overlap = store.OverlapAllow
				if c.change != nil {
					c.change(of)
				}
			})
			now = b.follow(now, c.fires)
			b.Exec(`UPDATE tasktable.scheduled_tasks SET cron = $1 WHERE id = 'tick'`, c.edited)
			b.follow(now, c.fires)
		})
	}
}

// follow forecasts some fires as of now, and has the leader look at each of them. It returns when the last one was.
func (b *bench) follow(now time.Time, most int) time.Time {
	b.T.Helper()
	forecast := b.forecast(now, most)
	forked := len(b.occurrences())
	for i, fire := range forecast.Fires {
		if fire.Overdue || len(fire.Paused) > 0 || !fire.At.After(now) {
			b.T.Fatalf("as of %v: %+v", now, fire)
		}
		b.Fires(fire.At.Add(-time.Millisecond)) // which plans what was edited, and fires nothing
		b.Fires(fire.At)
		occurrences := b.occurrences()
		if len(occurrences) != forked+i+1 || !occurrences[len(occurrences)-1].Equal(fire.At) {
			b.T.Fatalf("fire %d is forecast for %v, and the occurrences are %v", i, fire.At, occurrences)
		}
		now = fire.At
	}
	ended := b.forecast(now, 1)
	if row := enginetest.Await(
		b.T, b.Pool, "tick", time.Second, store.StatusQueued, store.StatusCompleted,
	); (row.Status == store.StatusCompleted) != (ended.Ended != "" && len(ended.Fires) == 0) {
		b.T.Fatalf("the task is %s, and the forecast %+v", row.Status, ended)
	}
	if len(forecast.Fires) < most && forecast.Ended == "" {
		b.T.Fatalf("fewer than %d fires: %+v", most, forecast)
	}
	return now
}

func (b *bench) forecast(now time.Time, most int) inspect.Forecast {
	b.T.Helper()
	task, err := inspect.New(store.Config{}).GetRecurring(b.T.Context(), b.Pool, "tick")
	b.OK(err)
	forecast, err := task.Forecast(now, nil, most)
	b.OK(err)
	return forecast
}

// occurrences are the times of those that were forked.
func (b *bench) occurrences() []time.Time {
	b.T.Helper()
	rows, err := inspect.New(store.Config{}).List(b.T.Context(), b.Pool, inspect.Filter{})
	b.OK(err)
	rows = slices.DeleteFunc(rows, func(row store.Row) bool { return row.ParentID == nil })
	at := make([]time.Time, len(rows))
	for i, row := range rows {
		at[i] = row.ScheduledAt
	}
	return at
}
