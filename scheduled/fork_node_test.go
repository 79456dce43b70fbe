package scheduled

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

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
