package worker

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// A RunNow during an attempt holds, although the handler schedules its own task for a later time. What the handler asks
// for holds, too.
func TestRunNowDuringAnAttemptThatSchedulesItsOwnTask(t *testing.T) {
	s := newBench(t)
	s.node(nil)
	later := time.Now().Add(24 * time.Hour)
	for name, ask := range map[string]func(*enginetest.Attempt){
		"again": func(a *enginetest.Attempt) { a.Again(later) },
		"follow-up": func(a *enginetest.Attempt) {
			a.FollowUp(store.Task{ID: a.ID, Payload: enginetest.Job{Name: "step 2"}, At: later})
		},
		"snooze": func(*enginetest.Attempt) {},
	} {
		s.Add(name, nil)
		first := s.Begins(name)
		ask(first)
		receipt, err := s.Tasks.RunNow(t.Context(), s.Pool, name)
		if err != nil || receipt.Outcome != store.RunsAgain {
			t.Fatalf("%s: %+v, %v", name, receipt, err)
		}
		if name == "snooze" {
			first.End <- handlers.Snooze(time.Hour)
		} else {
			first.End <- nil
		}
		second := s.Begins(name)
		if got := second.Payload.Name; name == "follow-up" && got != "step 2" {
			t.Errorf("%s: the second run has the payload of %q", name, got)
		}
		if sameKey := second.IdempotencyKey() == first.IdempotencyKey(); sameKey != (name == "snooze") {
			t.Errorf("%s: keys %s and %s", name, first.IdempotencyKey(), second.IdempotencyKey())
		}
		second.End <- nil
		row := enginetest.Await(t, s.Pool, name, patience, store.StatusCompleted)
		if name != "snooze" && row.ScheduledAt.Before(later.Add(-time.Minute)) {
			t.Errorf("%s: scheduled at %s", name, row.ScheduledAt)
		}
	}
}
