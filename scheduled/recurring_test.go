package scheduled

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const (
	eachSecond = "* * * * * *"
	farOff     = "0 0 29 2 *" // no fire within a test
)

// recur schedules a recurring task under its name as id.
func (s *bench) recur(name string, recurrence store.Recurrence) store.Receipt {
	s.T.Helper()
	return s.Add(name, func(task *store.Task) { task.Recurrence = &recurrence })
}

// line is what the table says about one fire.
type line struct {
	ID        string
	Fire      time.Time
	Status    store.Status
	Message   *string
	StartedAt *time.Time
}

// lines lists the fires of a recurring task.
func (s *bench) lines(parent string) []line {
	s.T.Helper()
	rows, err := s.Pool.Query(s.T.Context(), `SELECT id, scheduled_at AS fire, status, message, started_at
		FROM tasktable.scheduled_tasks WHERE parent_id = $1 ORDER BY scheduled_at`, parent)
	s.OK(err)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[line])
	s.OK(err)
	return found
}

// gaps lists the fires of a period that have no line between the first and the last that have.
func gaps(lines []line, period time.Duration) (missing []time.Time) {
	for i := 1; i < len(lines); i++ {
		for at := lines[i-1].Fire.Add(period); at.Before(lines[i].Fire); at = at.Add(period) {
			missing = append(missing, at)
		}
	}
	return missing
}

// Recurring tasks fire at their times, each fire is an occurrence of its own that runs at once, and the task's row
// keeps count until it ends.
func TestRecurringTasksFire(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(
		nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }),
		handlers.Func("CRON", func(context.Context) error { return nil }),
	)
	ends := time.Now().Truncate(time.Second).Add(4 * time.Second)
	// Where they overlap or are late, as on a busy machine, all run.
	each := func(change func(*store.Recurrence)) store.Recurrence {
		all := store.Recurrence{Cron: eachSecond, Overlap: store.OverlapAllow, CatchUp: store.CatchUpAll}
		change(&all)
		return all
	}
	s.recur("counted", each(func(r *store.Recurrence) { r.MaxOccurrences = 4 }))
	s.recur("ends", each(func(r *store.Recurrence) { r.EndsAt = ends }))
	s.recur("every", each(func(r *store.Recurrence) { r.Cron, r.MaxOccurrences = "@every 1s", 3 }))
	begins := ends.Add(-time.Second / 2)
	s.Add("begins", func(task *store.Task) {
		task.At, task.Recurrence = begins, new(each(func(r *store.Recurrence) { r.MaxOccurrences = 1 }))
	})
	cron := store.Cron("CRON", eachSecond)
	cron.Recurrence = new(each(func(r *store.Recurrence) { r.MaxOccurrences = 2 }))
	enginetest.Schedule(t, s.Pool, cron)

	ended := map[string]string{"counted": "ended after 4 occurrences",
		"ends": "ended at " + ends.UTC().Format(time.RFC3339), "every": "ended after 3 occurrences",
		"begins": "ended after 1 occurrences", "recurring-CRON": "ended after 2 occurrences"}
	var late []time.Duration
	for id, message := range ended {
		row := s.Is(id, store.StatusCompleted)
		if taskdb.TextOf(row.Message) != message {
			t.Errorf("%s ended with %q", id, taskdb.TextOf(row.Message))
		}
		lines := s.lines(id)
		if len(lines) == 0 || row.OccurrenceCount != len(lines) || !row.StartedAt.Equal(lines[len(lines)-1].Fire) {
			t.Fatalf("%s has fired at %v: %+v", id, lines, row)
		}
		if missing := gaps(lines, time.Second); missing != nil {
			t.Errorf("%s did not fire at %v", id, missing)
		}
		for _, one := range lines {
			row := s.Is(one.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
			late = append(late, row.StartedAt.Sub(one.Fire))
			if id != "every" && (one.Fire.Nanosecond() != 0 || one.ID != id+"@"+one.Fire.UTC().Format(time.RFC3339)) {
				t.Errorf("%s fired at %s as %s", id, one.Fire, one.ID)
			}
		}
	}
	if lines := s.lines("ends"); lines[len(lines)-1].Fire.After(ends) ||
		ends.Sub(lines[len(lines)-1].Fire) > time.Second/2 {
		t.Errorf("the last fire until %s was at %s", ends, lines[len(lines)-1].Fire)
	}
	if first := s.lines("begins")[0].Fire; !first.Equal(ends) {
		t.Errorf("the first fire from %s on was at %s", begins, first)
	}
	slices.Sort(late)
	t.Logf("late by %v", late)
	if late[0] < 0 || late[len(late)/2] > limit(500*time.Millisecond) { // usually some 10 ms
		t.Errorf("late by %v", late)
	}
}
