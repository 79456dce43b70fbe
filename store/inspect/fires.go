package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/recurrence"
)

// MaxFires is how many coming fires NextFires computes at most.
const MaxFires = 10000

// Fire is a time at which a recurring task is to fire.
type Fire struct {
	At time.Time `json:"at"`
	// Overdue: it should have fired. The leader forks it within a second, unless it is paused or nobody leads.
	Overdue bool `json:"overdue,omitempty"`
	// Paused names what keeps it from running, as far as is known now: "task", or a Scope as text. What becomes of it
	// at the end of the pause the task's CatchUpPaused says.
	Paused []string `json:"paused,omitempty"`
}

// Forecast is the coming fires of a recurring task, as things stand.
type Forecast struct {
	Task RecurringTask `json:"task"`
	// Now is the database's time that it begins at.
	Now time.Time `json:"now"`
	// Fires are in order. With a jitter each occurrence is due up to so much later. Which of them run also depends on
	// what cannot be known before: with OverlapSkip one is skipped while an earlier one has not ended.
	Fires []Fire `json:"fires"`
	// Ended says why there are no more; "": there are.
	Ended string `json:"ended,omitempty"`
	// ZoneDataDiffer says that the leader planned the first fire with other data of the time zone than this program
	// has. The fires after it are by this program's data.
	ZoneDataDiffer bool `json:"zone_data_differ,omitempty"`
}

// NextFires computes the coming fires of a recurring task, 1 to MaxFires of them, as the leader will plan them if
// nobody edits or pauses the task. It returns ErrNotFound or ErrNotRecurring.
func (i *Inspector) NextFires(ctx context.Context, db store.DB, id string, most int) (Forecast, error) {
	if most < 1 || most > MaxFires {
		return Forecast{}, fmt.Errorf("next fires of task %s: %w", id,
			check.Invalid("most", "must be between 1 and 10000", most))
	}
	task, err := i.GetRecurring(ctx, db, id)
	if err != nil {
		return Forecast{}, err
	}
	pauses, err := i.tasks.Pauses(ctx, db)
	if err != nil {
		return Forecast{}, err
	}
	now, err := i.tasks.Now(ctx, db)
	if err != nil {
		return Forecast{}, err
	}
	forecast, err := task.Forecast(now, pauses, most)
	if err != nil {
		return Forecast{}, fmt.Errorf("next fires of task %s: %w", id, err)
	}
	return forecast, nil
}

// Forecast computes the task's coming fires at a time, given the pauses that hold then: the first most of them. The
// error is that of an expression or a zone that cannot be read, and wraps ErrInvalid.
func (t RecurringTask) Forecast(now time.Time, pauses []store.Pause, most int) (Forecast, error) {
	forecast := Forecast{Task: t, Now: now, Fires: []Fire{}}
	if t.Status != store.StatusQueued && t.Status != store.StatusPaused {
		forecast.Ended = "it is " + string(t.Status)
		if t.Message != nil && *t.Message != "" {
			forecast.Ended += ": " + *t.Message
		}
		return forecast, nil
	}
	rule, err := recurrence.Parse(t.Cron, t.TimeZone)
	if err != nil {
		return forecast, check.Mark(err)
	}
	rule = rule.Anchored(t.StartsAt)
	var moved time.Time // the first fire, by this program's zone data
	if t.NextFire != nil && t.PlannedWall != nil && t.PlannedZoneData != nil && *t.PlannedZoneData != rule.ZoneData() {
		forecast.ZoneDataDiffer = true
		moved = rule.Next(rule.Replan(*t.PlannedWall, now))
	}
	runs := t.OccurrenceCount // what is paused does not count, unless it is caught up with
	for at := t.firstFire(now, rule); ; at = rule.Next(later(later(at, now), moved)) {
		switch {
		case at.IsZero():
			forecast.Ended = "the expression has no further fire"
		case t.EndsAt != nil && at.After(*t.EndsAt):
			forecast.Ended = "it ends at " + t.EndsAt.UTC().Format(time.RFC3339)
		case t.MaxOccurrences != nil && runs >= *t.MaxOccurrences:
			forecast.Ended = fmt.Sprintf("it ends after %d occurrences; skipped ones do not count", *t.MaxOccurrences)
		}
		if forecast.Ended != "" || len(forecast.Fires) >= most {
			return forecast, nil
		}
		fire := Fire{At: at, Overdue: !at.After(now), Paused: t.pausedAt(later(at, now), pauses)}
		if len(fire.Paused) == 0 {
			runs++
		}
		forecast.Fires = append(forecast.Fires, fire)
	}
}

// firstFire is the planned one, be it overdue, or what the leader will plan.
func (t RecurringTask) firstFire(now time.Time, rule *recurrence.Rule) time.Time {
	if t.NextFire != nil {
		return *t.NextFire
	}
	from := t.StartsAt.Add(-time.Nanosecond) // its beginning may be its first fire
	if t.PlanFrom == nil {                   // it is paused: what it has missed by then is no coming fire
		from = later(from, now)
	}
	for _, at := range []*time.Time{t.LastFire, t.PlanFrom} {
		if at != nil {
			from = later(from, *at)
		}
	}
	return rule.Next(from)
}

func (t RecurringTask) pausedAt(at time.Time, pauses []store.Pause) []string {
	var paused []string
	if t.Status == store.StatusPaused && (t.PausedUntil == nil || t.PausedUntil.After(at)) {
		paused = append(paused, "task")
	}
	for _, pause := range pauses {
		scope := pause.Of()
		if scope.Has(t.Queue, t.Type) && (pause.EndsAt == nil || pause.EndsAt.After(at)) {
			paused = append(paused, scope.String())
		}
	}
	return slices.Compact(paused)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
