package scheduled

import (
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// What a fire does while an earlier occurrence still runs.
func TestOverlap(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(nil, handlers.Handle(s.handleFired))
	s.recur("skip", store.Recurrence{Cron: eachSecond, Overlap: store.OverlapSkip, MaxOccurrences: 2})
	s.recur("allow", store.Recurrence{Cron: eachSecond, Overlap: store.OverlapAllow, MaxOccurrences: 3})
	s.recur("cancel", store.Recurrence{Cron: eachSecond, Overlap: store.OverlapCancelRunning, MaxOccurrences: 3})

	// All three at once.
	var allowed []*act
	for range 3 {
		allowed = append(allowed, s.begins("allow"))
	}
	// Each is cancelled by the next, but the last.
	cancelled := []*act{s.begins("cancel"), s.begins("cancel")}
	for _, a := range cancelled {
		if cause := a.ends(t, patience); !errors.Is(cause, handlers.ErrCancelled) {
			t.Errorf("%s ended: %v", a.ID, cause)
		}
		s.is(a.ID, store.StatusCancelled, taskdb.OutcomeSuperseded)
	}
	last := s.begins("cancel")
	if last.StartedAt.Sub(last.ScheduledAt) > limit(time.Second) {
		t.Errorf("what cancels an earlier one started %s late", last.StartedAt.Sub(last.ScheduledAt))
	}
	// Skipped as long as the first runs, and the table says for which.
	first := s.begins("skip")
	enginetest.Eventually(t, patience, "two fires are skipped", func() bool {
		return len(inStatus(s.lines("skip"), store.StatusSkipped)) >= 2
	})
	s.idle("skip")
	for _, a := range append(allowed, last, first) {
		a.end <- nil
		s.is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	next := s.begins("skip")
	next.end <- nil
	s.is(next.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
	for id, counts := range map[string]int{"skip": 2, "allow": 3, "cancel": 3} {
		if row := s.is(id, store.StatusCompleted); row.OccurrenceCount != counts {
			t.Errorf("%s counts %d", id, row.OccurrenceCount)
		}
		if missing := gaps(s.lines(id), time.Second); missing != nil {
			t.Errorf("%s has nothing for %v", id, missing)
		}
	}
	for _, one := range inStatus(s.lines("skip"), store.StatusSkipped) {
		if taskdb.TextOf(one.Message) != "an earlier occurrence has not ended: "+first.ID {
			t.Errorf("the fire at %s was skipped: %s", one.Fire, taskdb.TextOf(one.Message))
		}
		if !one.Fire.After(first.ScheduledAt) || !one.Fire.Before(next.ScheduledAt) {
			t.Errorf("the fire at %s was skipped, between %s and %s", one.Fire, first.ScheduledAt, next.ScheduledAt)
		}
	}
	s.idle("skip", "allow", "cancel")
}

// An earlier occurrence has ended only when its handler has: not when it is cancelled, or waits for its next attempt.
func TestOverlapWithWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(
		func(c *Config) { c.Backoff = func(int, error) time.Duration { return time.Hour } },
		handlers.Handle(s.handleFiredDeaf),
	)
	s.recur("deaf", store.Recurrence{Cron: eachSecond})
	s.recur("retried", store.Recurrence{Cron: eachSecond})
	deaf, retried := s.begins("deaf"), s.begins("retried")
	retried.end <- errors.New("later")
	if _, err := s.tasks.Cancel(t.Context(), s.pool, deaf.ID); err != nil {
		t.Fatal(err)
	}
	for id, because := range map[string]string{"deaf": deaf.ID, "retried": retried.ID} {
		s.skips(id, because)
	}
	s.idle("deaf", "retried")
	// It ends, and the next runs; the other's next attempt is called off.
	deaf.end <- nil
	if _, err := s.tasks.Cancel(t.Context(), s.pool, retried.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"deaf", "retried"} {
		a := s.begins(id)
		if _, err := s.tasks.Cancel(t.Context(), s.pool, id); err != nil {
			t.Fatal(err)
		}
		a.end <- nil
		s.is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
}

// skips waits until a fire is skipped from now on, and looks why.
func (s *stage) skips(id, because string) {
	s.t.Helper()
	before := len(s.lines(id))
	var lines []line
	enginetest.Eventually(s.t, patience, "a fire of "+id+" is skipped", func() bool {
		lines = s.lines(id)
		return len(lines) > before
	})
	for _, one := range lines[before:] {
		if one.Status != store.StatusSkipped ||
			taskdb.TextOf(one.Message) != "an earlier occurrence has not ended: "+because {
			s.t.Errorf("the fire of %s at %s is %s: %s", id, one.Fire, one.Status, taskdb.TextOf(one.Message))
		}
	}
}
