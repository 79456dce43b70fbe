package worker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Handlers that have all connections of their pool keep no task from being claimed, started and settled.
func TestExhaustedPoolStopsNothing(t *testing.T) {
	s := newBench(t)
	s.node(nil)
	release := enginetest.Exhaust(t, s.txPool)
	for i := range 30 {
		s.Add(fmt.Sprint(i), func(task *store.Task) {
			if i%3 == 0 {
				task.MaxAttempts = 1
			}
		})
	}
	for i := range 30 {
		a := s.Begins(fmt.Sprint(i))
		switch i % 3 {
		case 0:
			a.End <- errors.New("oops")
		case 1:
			a.FollowUp(store.Task{ID: "next", Payload: enginetest.Job{Name: "next"}, At: time.Now().Add(time.Hour)})
			a.End <- a.Extend(t.Context(), time.Minute)
		case 2:
			a.Again(time.Now().Add(time.Hour))
			a.End <- nil
		}
	}
	for i := range 30 {
		switch i % 3 {
		case 0:
			s.Is(fmt.Sprint(i), store.StatusFailed, taskdb.OutcomeFailed)
		case 1:
			s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
		case 2:
			s.Is(fmt.Sprint(i), store.StatusQueued, taskdb.OutcomeCompleted)
		}
	}
	release()
}

// A transactional handler that has waited long for its connection starts by what the task has become: not at all, if
// it was cancelled meanwhile, and with the time of its start.
func TestTransactionWaitsForAConnection(t *testing.T) {
	t.Parallel()
	s, both := effectful(t, nil)
	release := enginetest.Exhaust(t, s.txPool)
	names := []string{"cancelled", "moved", "goes on"}
	both(func(kind string, schedule func(string, func(*store.Task))) {
		for _, name := range names {
			schedule(name, nil)
			enginetest.Await(t, s.Pool, kind+name, patience, store.StatusExecuting)
		}
	})
	s.Passes(time.Now().Add(600 * time.Millisecond)) // by then they are waiting
	both(func(kind string, _ func(string, func(*store.Task))) {
		if _, err := s.Tasks.Cancel(t.Context(), s.Pool, kind+"cancelled"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Tasks.Reschedule(t.Context(), s.Pool, kind+"moved", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	})
	released := time.Now()
	release()
	both(func(kind string, _ func(string, func(*store.Task))) {
		a := s.Begins(kind + "goes on")
		if early := released.Sub(a.StartedAt); early > 100*time.Millisecond {
			t.Errorf("%s started %s before it had a connection", a.ID, early)
		}
		a.End <- nil
		s.Is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
		s.Is(kind+"cancelled", store.StatusCancelled, taskdb.OutcomeCancelled)
		s.Is(kind+"moved", store.StatusQueued, taskdb.OutcomeReleased)
		s.Idle(kind+"cancelled", kind+"moved")
	})
}
