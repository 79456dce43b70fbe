package scheduled

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
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

// hook collects what OnDead is told.
type hook struct {
	mu   sync.Mutex
	told map[string][]Failure // by task
}

func (h *hook) tell(_ context.Context, dead Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told == nil {
		h.told = map[string][]Failure{}
	}
	h.told[dead.ID] = append(h.told[dead.ID], dead)
	if strings.Contains(dead.ID, "panics") {
		panic("at the news")
	}
}

func (h *hook) of(id string) []Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told[id]
}

// refuseSQL is an application's triggers: one refuses the occurrences of a task, the other also lets nobody
// say so in its row.
const refuseSQL = `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the application says no'; END $$;
CREATE TRIGGER refuse_occurrence BEFORE INSERT ON tasktable.scheduled_tasks
	FOR EACH ROW WHEN (NEW.parent_id IN ('refused', 'stubborn')) EXECUTE FUNCTION refuse();
CREATE TRIGGER refuse_failure BEFORE UPDATE ON tasktable.scheduled_tasks
	FOR EACH ROW WHEN (NEW.id = 'stubborn' AND NEW.status = 'FAILED') EXECUTE FUNCTION refuse()`

// A recurring task whose occurrences cannot be made, or whose expression cannot be read, stops no other: neither from
// firing each second nor from being claimed.
func TestPoisonousFires(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.Exec(refuseSQL)
	good := []string{"good 1", "good 2", "good 3"}
	each := store.Recurrence{Cron: eachSecond, CatchUp: store.CatchUpAll, Overlap: store.OverlapAllow}
	for _, id := range append([]string{"refused", "stubborn", "unreadable", "zoneless"}, good...) {
		s.recur(id, each)
	}
	// Past all checks: what no parser takes, and what no robfig does.
	s.Exec(enginetest.UncheckedRecurrencesSQL)
	s.Exec(`UPDATE tasktable.scheduled_tasks SET cron = 'TZ=0 every so often' WHERE id = 'unreadable'`)
	s.Exec(`UPDATE tasktable.scheduled_tasks SET time_zone = 'Mars/Olympus' WHERE id = 'zoneless'`)
	var h hook
	s.node(
		func(c *Config) { c.OnDead = h.tell },
		handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }),
	)
	n := 0
	enginetest.Eventually(t, patience, "the others have fired three times", func() bool {
		s.Add(fmt.Sprint("plain ", n), nil)
		row := enginetest.Await(t, s.Pool, fmt.Sprint("plain ", n), patience, store.StatusCompleted)
		if late := row.StartedAt.Sub(row.ScheduledAt); late > limit(5*time.Second) {
			t.Errorf("a task started %s late", late)
		}
		n++
		return s.Count(`SELECT min(occurrence_count) FROM tasktable.scheduled_tasks WHERE id = ANY ($1)`, good) >= 3
	})
	for id, why := range map[string]string{
		"refused": "the application says no", "unreadable": "cron", "zoneless": "time_zone",
	} {
		if row := s.Is(id, store.StatusFailed, outcomesOf(s, id)...); !strings.Contains(
			taskdb.TextOf(row.Message), why,
		) {
			t.Errorf("%s failed with %q", id, taskdb.TextOf(row.Message))
		}
		enginetest.Eventually(t, patience, "the hook is told of "+id, func() bool { return len(h.of(id)) > 0 })
		if told := h.of(id); len(told) != 1 || told[0].Outcome != taskdb.OutcomeFailed || told[0].Status != "FAILED" ||
			told[0].Type != "JOB" || !strings.Contains(told[0].Error, why) {
			t.Errorf("told of %+v", told)
		}
	}
	s.Counts("dead letters", 3, `SELECT count(*) FROM tasktable.dead_letters`)
	s.Is("stubborn", store.StatusQueued)
	for _, id := range append([]string{"stubborn"}, good...) {
		s.Did(s.Tasks.Cancel(t.Context(), s.Pool, id))
	}
	for _, id := range good {
		lines := s.lines(id)
		if missing := gaps(lines, time.Second); missing != nil {
			t.Errorf("%s did not fire at %v", id, missing)
		}
		for _, one := range lines {
			if row := s.Is(
				one.ID, store.StatusCompleted, taskdb.OutcomeCompleted,
			); row.StartedAt.Sub(one.Fire) > limit(5*time.Second) {
				t.Errorf("%s started %s late", one.ID, row.StartedAt.Sub(one.Fire))
			}
		}
	}
}

// outcomesOf is a history that is not looked at.
func outcomesOf(s *bench, id string) []string { return enginetest.Outcomes(s.T, s.Pool, id) }

// declared is a recurring task that says which version of the service declares it.
func declared(id, version string) store.Task {
	return store.Task{ID: id, Payload: enginetest.Job{Name: version}, Recurrence: &store.Recurrence{Cron: farOff}}
}

// declares waits until the recurring tasks are as wanted: by id the version whose payload they have, ""
// for those cancelled.
func (s *bench) declares(want map[string]string) {
	s.T.Helper()
	var got map[string]string
	// Not Fatal in between: the last state is to be shown.
	deadline := time.Now().Add(10 * time.Second)
	enginetest.Eventually(s.T, patience, "the recurring tasks are looked at", func() bool {
		got = map[string]string{}
		rows, err := inspect.New(store.Config{}).List(s.T.Context(), s.Pool, inspect.Filter{Type: "JOB"})
		s.OK(err)
		for _, row := range rows {
			var payload enginetest.Job
			s.OK(json.Unmarshal(row.Payload, &payload))
			switch {
			case row.Cron == nil:
			case row.Status == store.StatusCancelled:
				got[row.ID] = ""
			default:
				got[row.ID] = payload.Name
			}
		}
		return maps.Equal(got, want) || time.Now().After(deadline)
	})
	if !maps.Equal(got, want) {
		s.T.Fatalf("the recurring tasks are %v, want %v", got, want)
	}
}

// What is declared fires, and goes on when a version without it has come and gone, be it between two looks of the
// older one's node.
func TestDeclaredTasksFire(t *testing.T) {
	s := newBench(t)
	each := declared("each", "1")
	each.Recurrence.Cron = eachSecond
	serve := func(every time.Duration, tasks ...store.Task) (stop func()) {
		return s.node(func(c *Config) { c.Recurring, c.declareEvery = append([]store.Task{}, tasks...), every },
			handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	}
	fires := func(least int) {
		t.Helper()
		enginetest.Eventually(t, patience, "it fires", func() bool {
			return s.Count(`SELECT coalesce(max(occurrence_count), 0) FROM tasktable.recurring_tasks`) >= least
		})
	}
	serve(1500*time.Millisecond, each)
	fires(1)
	stop := serve(time.Hour)
	s.declares(map[string]string{each.ID: ""})
	stop()
	fires(2)
	s.Did(s.Tasks.Cancel(t.Context(), s.Pool, each.ID))
	for _, one := range s.lines(each.ID) {
		s.Is(one.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
}

// A node with other zone data plans anew when it begins to lead.
func TestLeaderWithOtherZoneData(t *testing.T) {
	s := newBench(t)
	var log enginetest.LogText
	start := func(posix string) (stop func()) {
		return s.node(func(c *Config) {
			c.zones, c.Logger = enginetest.ZonesOf(posix), slog.New(slog.NewTextHandler(&log, nil))
		}, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	}
	yearly := store.Recurrence{Cron: "0 9 20 3 *", TimeZone: enginetest.Havana}
	s.recur("yearly", yearly)
	next := func() int {
		return s.Count(`SELECT coalesce(max(extract(hour FROM next_attempt_at AT TIME ZONE 'UTC')), 0)::int
			FROM tasktable.scheduled_tasks
			WHERE planned_revision = revision AND planned_zone_data <> ''`)
	}
	stop := start(enginetest.SummerFromMarch)
	enginetest.Eventually(t, patience, "it is planned by the first data", func() bool { return next() == 13 })
	start(enginetest.SummerFromApril)
	stop()
	enginetest.Eventually(
		t, 20*time.Second, "the other node leads, and plans anew", func() bool { return next() == 14 },
	)
	enginetest.Eventually(t, patience, "it says so", func() bool { return len(log.Lines("planning anew")) > 0 })
	if n := s.Count(`SELECT count(*)::int FROM tasktable.scheduled_tasks WHERE parent_id = 'yearly'`); n != 0 {
		t.Errorf("it has fired %d times", n)
	}
}
