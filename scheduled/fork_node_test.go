package scheduled

import (
	"context"
	"errors"
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
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.exec(refuseSQL)
	good := []string{"good 1", "good 2", "good 3"}
	each := store.Recurrence{Cron: eachSecond, CatchUp: store.CatchUpAll, Overlap: store.OverlapAllow}
	for _, id := range append([]string{"refused", "stubborn", "unreadable", "zoneless"}, good...) {
		s.recur(id, each)
	}
	// Past all checks: what no parser takes, and what no robfig does.
	s.exec(readsAllCronSQL)
	s.exec(knowsAllZonesSQL)
	s.exec(`UPDATE tasktable.scheduled_tasks SET cron = 'TZ=0 every so often' WHERE id = 'unreadable'`)
	s.exec(`UPDATE tasktable.scheduled_tasks SET time_zone = 'Mars/Olympus' WHERE id = 'zoneless'`)
	var h hook
	s.node(
		func(c *Config) { c.OnDead = h.tell },
		handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }),
	)
	n := 0
	enginetest.Eventually(t, patience, "the others have fired three times", func() bool {
		s.schedule(fmt.Sprint("plain ", n), nil)
		row := enginetest.Await(t, s.pool, fmt.Sprint("plain ", n), patience, store.StatusCompleted)
		if late := row.StartedAt.Sub(row.ScheduledAt); late > limit(2*time.Second) {
			t.Errorf("a task started %s late", late)
		}
		n++
		return s.count(`SELECT min(occurrence_count) FROM tasktable.scheduled_tasks WHERE id = ANY ($1)`, good) >= 3
	})
	for id, why := range map[string]string{
		"refused": "the application says no", "unreadable": "cron", "zoneless": "time_zone",
	} {
		if row := s.is(id, store.StatusFailed, outcomesOf(s, id)...); !strings.Contains(
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
	if n := s.count(`SELECT count(*) FROM tasktable.dead_letters`); n != 3 {
		t.Errorf("%d dead letters", n)
	}
	s.is("stubborn", store.StatusQueued)
	for _, id := range append([]string{"stubborn"}, good...) {
		if _, err := s.tasks.Cancel(t.Context(), s.pool, id); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range good {
		lines := s.lines(id)
		if missing := gaps(lines, time.Second); missing != nil {
			t.Errorf("%s did not fire at %v", id, missing)
		}
		for _, one := range lines {
			if row := s.is(
				one.ID, store.StatusCompleted, taskdb.OutcomeCompleted,
			); row.StartedAt.Sub(one.Fire) > limit(time.Second) {
				t.Errorf("%s started %s late", one.ID, row.StartedAt.Sub(one.Fire))
			}
		}
	}
}

// outcomesOf is a history that is not looked at.
func outcomesOf(s *stage, id string) []string { return enginetest.Outcomes(s.t, s.pool, id) }

// An application's open transaction on a recurring task, on its occurrence, or with an occurrence of its own making
// for the very time, stops no other task.
func TestLocksStopNoOtherFire(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(nil, handlers.Handle(s.handleFired))
	each := store.Recurrence{Cron: eachSecond, Overlap: store.OverlapCancelRunning}
	for _, id := range []string{"task locked", "occurrence locked", "occurrence made"} {
		s.recur(id, each)
	}
	s.recur("free", store.Recurrence{Cron: eachSecond, Overlap: store.OverlapAllow})
	first := s.begins("occurrence locked")
	for _, id := range []string{"task locked", "occurrence made"} {
		s.begins(id).end <- nil
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(
		t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id = ANY ($1) FOR UPDATE`,
		[]string{"task locked", first.ID},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT tasktable.fork_occurrence('occurrence made',
		date_trunc('second', clock_timestamp()) + n * interval '1 second')
		FROM generate_series(1, 60) AS n`); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		s.free(i, limit)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Then they go on.
	if cause := first.ends(t, patience); !errors.Is(cause, handlers.ErrCancelled) {
		t.Errorf("%s ended: %v", first.ID, cause)
	}
	for _, id := range []string{"task locked", "occurrence locked"} {
		s.begins(id)
	}
	for _, id := range []string{"task locked", "occurrence locked", "occurrence made", "free"} {
		if _, err := s.tasks.Cancel(t.Context(), s.pool, id); err != nil {
			t.Fatal(err)
		}
	}
}

// free sees a task run at its time, and another fire.
func (s *stage) free(i int, limit func(time.Duration) time.Duration) {
	s.t.Helper()
	s.schedule(fmt.Sprint("plain ", i), nil)
	for _, id := range []string{fmt.Sprint("plain ", i), "free"} {
		a := s.begins(id)
		if late := a.StartedAt.Sub(a.DueAt); late > limit(2*time.Second) {
			s.t.Errorf("%s started %s late", a.ID, late)
		}
		a.end <- nil
	}
}
