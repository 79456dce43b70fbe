package scheduled

import (
	"context"
	"slices"
	"strings"
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
func (s *stage) recur(name string, recurrence store.Recurrence) store.Receipt {
	s.t.Helper()
	return s.schedule(name, func(task *store.Task) { task.Recurrence = &recurrence })
}

// handleFired is handle for occurrences: the test waits for their runs under the recurring task's id.
func (s *stage) handleFired(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
	a := &act{Task: task, ctx: ctx, end: make(chan error, 1)}
	s.of(parentOf(task.ID)) <- a
	select {
	case err := <-a.end:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return errOver
	}
}

// handleFiredDeaf is handleFired for a handler that does not mind its context.
func (s *stage) handleFiredDeaf(_ context.Context, task *handlers.Task[enginetest.Job]) error {
	return s.handleFired(context.Background(), task)
}

// parentOf is the recurring task of an occurrence; another task's id is its own.
func parentOf(id string) string {
	parent, _, _ := strings.Cut(id, "@")
	return parent
}

// planned waits until the next fire of recurring tasks, as they are now, is known.
func (s *stage) planned(ids ...string) {
	s.t.Helper()
	enginetest.Eventually(s.t, patience, "the next fires are planned", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.recurring_tasks WHERE id = ANY ($1)
			AND next_fire IS NOT NULL`, ids) == len(ids)
	})
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
func (s *stage) lines(parent string) []line {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT id, scheduled_at AS fire, status, message, started_at
		FROM tasktable.scheduled_tasks WHERE parent_id = $1 ORDER BY scheduled_at`, parent)
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[line])
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func inStatus(lines []line, status store.Status) (found []line) {
	for _, one := range lines {
		if one.Status == status {
			found = append(found, one)
		}
	}
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
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(
		nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }),
		handlers.Func("CRON", func(context.Context) error { return nil }),
	)
	ends := time.Now().Truncate(time.Second).Add(4 * time.Second)
	// Where they overlap, as on a busy machine, both run.
	s.recur("counted", store.Recurrence{Cron: eachSecond, MaxOccurrences: 4, Overlap: store.OverlapAllow})
	s.recur("ends", store.Recurrence{Cron: eachSecond, EndsAt: ends, Overlap: store.OverlapAllow})
	s.recur("every", store.Recurrence{Cron: "@every 1s", MaxOccurrences: 3, Overlap: store.OverlapAllow})
	begins := ends.Add(-time.Second / 2)
	s.schedule("begins", func(task *store.Task) {
		task.At, task.Recurrence = begins, &store.Recurrence{Cron: eachSecond, MaxOccurrences: 1}
	})
	cron := store.Cron("CRON", eachSecond)
	cron.Recurrence.MaxOccurrences, cron.Recurrence.Overlap = 2, store.OverlapAllow
	enginetest.Schedule(t, s.pool, cron)

	ended := map[string]string{"counted": "ended after 4 occurrences",
		"ends": "ended at " + ends.UTC().Format(time.RFC3339), "every": "ended after 3 occurrences",
		"begins": "ended after 1 occurrences", "recurring-CRON": "ended after 2 occurrences"}
	var late []time.Duration
	for id, message := range ended {
		row := s.is(id, store.StatusCompleted)
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
			row := s.is(one.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
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

// What is run now, or backfilled, runs at once, beside the planned fires: the recurring task stays as it is.
func TestExtraOccurrences(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(nil, handlers.Handle(s.handleFired))
	s.recur("extra", store.Recurrence{Cron: "0 * * * *"})
	s.planned("extra")
	before := enginetest.Await(t, s.pool, "extra", patience, store.StatusQueued)

	asked := time.Now()
	if receipt, err := s.tasks.RunNow(t.Context(), s.pool, "extra"); err != nil || receipt.Outcome != store.Queued {
		t.Fatalf("run now: %+v, %v", receipt, err)
	}
	a := s.begins("extra")
	if took := time.Since(asked); took > limit(2*time.Second) {
		t.Errorf("run now began after %s", took)
	}
	// One more beside it, and another while the task is paused: overlap is for fires.
	if _, err := s.tasks.RunNow(t.Context(), s.pool, "extra"); err != nil {
		t.Fatal(err)
	}
	b := s.begins("extra")
	if _, err := s.tasks.Pause(t.Context(), s.pool, "extra"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.tasks.RunNow(t.Context(), s.pool, "extra"); err != nil {
		t.Fatal(err)
	}
	c := s.begins("extra")
	for _, a := range []*act{a, b, c} {
		a.end <- nil
		s.is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	if _, err := s.tasks.Resume(t.Context(), s.pool, "extra"); err != nil {
		t.Fatal(err)
	}
	s.planned("extra")
	after := enginetest.Await(t, s.pool, "extra", patience, store.StatusQueued)
	if after.OccurrenceCount != 0 || after.StartedAt != nil || !after.NextAttemptAt.Equal(*before.NextAttemptAt) {
		t.Errorf("the task was %+v, is %+v", before, after)
	}

	hour := time.Now().Truncate(time.Hour).Add(-24 * time.Hour)
	for _, want := range []int{5, 0} { // those that are there already stay as they are
		n, err := s.tasks.Backfill(t.Context(), s.pool, "extra", hour, hour.Add(5*time.Hour), 100)
		if err != nil || n != want {
			t.Fatalf("backfill made %d, %v, want %d", n, err, want)
		}
		for range n {
			s.begins("extra").end <- nil
		}
	}
	for i := range 5 {
		s.is(
			"extra@"+hour.Add(time.Duration(i+1)*time.Hour).UTC().Format(time.RFC3339), store.StatusCompleted,
			taskdb.OutcomeCompleted,
		)
	}
	if n := len(s.lines("extra")); n != 8 {
		t.Errorf("%d occurrences", n)
	}
	if row := enginetest.Await(t, s.pool, "extra", patience, store.StatusQueued); row.OccurrenceCount != 0 ||
		!row.NextAttemptAt.Equal(*before.NextAttemptAt) {
		t.Errorf("the task was %+v, is %+v", before, row)
	}
	s.idle("extra")
}
