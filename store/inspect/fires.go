package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/recurrence"
)

// MaxFires is the maximum number of fires that NextFires computes.
const MaxFires = 10000

// Fire is a time at which a recurring task will fire.
type Fire struct {
	At time.Time `json:"at"`
	// Overdue tells that the task should have fired already. The leader creates the occurrence within a second,
	// unless the task is paused or there is no leader.
	Overdue bool `json:"overdue,omitempty"`
	// Paused lists the pauses that will keep the occurrence from running, as far as they are known now. Each is
	// "task" or a Scope as text. The task's CatchUpPaused decides what happens to the fire at the end of the pause.
	Paused []string `json:"paused,omitempty"`
	// MovedFrom is when the expression would fire without its calendars, if these have moved the fire. Why says by
	// which day, such as "2027-12-24 is out (company: closed)".
	MovedFrom *time.Time `json:"moved_from,omitempty"`
	Why       string     `json:"why,omitempty"`
}

// Holds has a sentence for each of Paused, such as "everything is paused".
func (f Fire) Holds() []string {
	holds := make([]string, len(f.Paused))
	for i, by := range f.Paused {
		switch by {
		case "task":
			by = "the task"
		case "all":
			by = "everything"
		}
		holds[i] = by + " is paused"
	}
	return holds
}

// Forecast has the coming fires of a recurring task, provided that nobody edits or pauses the task.
type Forecast struct {
	Task RecurringTask `json:"task"`
	// Now is the database's time at which the forecast begins.
	Now time.Time `json:"now"`
	// Fires are in order. If the task has a Jitter, each occurrence is due up to that much later. A forecast cannot
	// know which occurrences will run. With OverlapSkip, for example, an occurrence is skipped if an earlier one has
	// not ended.
	Fires []Fire `json:"fires"`
	// LeftOut are the days, at most MaxLeftOut, whose fires the task's calendars leave out, up to the last of Fires.
	// LeftOutMore tells that there are perhaps more.
	LeftOut     []LeftOut `json:"left_out,omitempty"`
	LeftOutMore bool      `json:"left_out_more,omitempty"`
	// Ended tells why there are no further fires. It is "" if there are.
	Ended string `json:"ended,omitempty"`
	// ZoneDataDiffer tells that the leader planned the first fire by other data of the time zone than this program
	// has. The later fires are computed by this program's data.
	ZoneDataDiffer bool `json:"zone_data_differ,omitempty"`
}

// NextFires computes the next fires of a recurring task, as the leader will plan them if nobody edits or pauses the
// task. most is the maximum number of fires, from 1 to MaxFires. The error wraps store.ErrNotFound if the task does
// not exist, and store.ErrNotRecurring if it does not recur.
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

// Forecast computes the first fires of the task after now, at most `most` of them. pauses are the pauses that hold at
// that time. The error wraps store.ErrInvalid if the expression or the zone cannot be read.
func (t RecurringTask) Forecast(now time.Time, pauses []store.Pause, most int) (Forecast, error) {
	return t.ForecastAfter(time.Time{}, now, pauses, most)
}

// ForecastAfter is Forecast without the fires until a time. With the zero time it leaves out none. The fires that it
// leaves out count for the task's MaxOccurrences.
func (t RecurringTask) ForecastAfter(after, now time.Time, pauses []store.Pause, most int) (Forecast, error) {
	forecast := Forecast{Task: t, Now: now, Fires: []Fire{}}
	if t.Status != store.StatusQueued && t.Status != store.StatusPaused {
		forecast.Ended = "it is " + string(t.Status)
		if t.Message != nil && *t.Message != "" {
			forecast.Ended += ": " + *t.Message
		}
		return forecast, nil
	}
	rule, err := t.Rule()
	if err != nil {
		return forecast, check.Mark(err)
	}
	rule = rule.Anchored(t.StartsAt)
	var moved time.Time // the first fire, by this program's zone data
	if t.NextFire != nil && t.PlannedWall != nil && t.PlannedZoneData != nil && *t.PlannedZoneData != rule.ZoneData() {
		forecast.ZoneDataDiffer = true
		moved = rule.Next(rule.Replan(*t.PlannedWall, now))
	}
	runs := t.OccurrenceCount // a paused fire does not count, unless it is caught up later
	at := t.firstFire(now, rule)
	if !at.IsZero() && !at.After(after) && t.MaxOccurrences == nil { // nobody counts those that are left out
		at = rule.Next(later(later(after, now), moved))
	}
	for ; ; at = rule.Next(later(later(at, now), moved)) {
		switch {
		case at.IsZero():
			forecast.Ended = noFire(rule)
		case t.EndsAt != nil && at.After(*t.EndsAt):
			forecast.Ended = "it ends at " + t.EndsAt.UTC().Format(time.RFC3339)
		case t.MaxOccurrences != nil && runs >= *t.MaxOccurrences:
			forecast.Ended = fmt.Sprintf("it ends after %d occurrences; skipped ones do not count", *t.MaxOccurrences)
		}
		if forecast.Ended != "" || len(forecast.Fires) >= most {
			from := later(later(after, now), t.StartsAt.Add(-time.Nanosecond))
			forecast.LeftOut, forecast.LeftOutMore = ExplainFires(rule, from, forecast.Fires)
			return forecast, nil
		}
		fire := Fire{At: at, Overdue: !at.After(now), Paused: t.pausedAt(later(at, now), pauses)}
		if len(fire.Paused) == 0 {
			runs++
		}
		if at.After(after) {
			forecast.Fires = append(forecast.Fires, fire)
		}
	}
}

// noFire tells why a rule has no fire.
func noFire(rule *recurrence.Rule) string {
	if names := rule.Calendars(); len(names) > 0 {
		return "no day of the next 20 years is in by the calendars " + strings.Join(names, ", ")
	}
	return "the expression has no further fire"
}

// firstFire returns the planned next fire, which may be overdue. If there is none, it returns the fire that the
// leader will plan.
func (t RecurringTask) firstFire(now time.Time, rule *recurrence.Rule) time.Time {
	if t.NextFire != nil {
		return *t.NextFire
	}
	from := t.StartsAt.Add(-time.Nanosecond) // the task may fire at the time at which it begins
	if t.PlanFrom == nil {                   // it is paused, and the fires that it has missed are not to come
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
