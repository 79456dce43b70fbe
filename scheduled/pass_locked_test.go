package scheduled

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/leader"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// leads makes a node that leads and knows its nodes, for passes by hand; its work begins with run.
func (s *bench) leads(parts ...handlers.Part) *prepared {
	s.T.Helper()
	tr := s.prepare(nil, parts...)
	tr.turn()
	return tr
}

// A pass that meets a task which an application has locked goes round it at once, and takes no less at a time for it.
func TestPassGoesRoundLockedTasks(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	for i := range 5 {
		s.Add(fmt.Sprint(i), nil)
	}
	unlock := enginetest.Lock(t, s.Pool, "2")
	tr := s.leads(handlers.Handle(s.Handle))
	pass := func(what string, claimed, most int) {
		t.Helper()
		tr.leader.Claims.Shrink(128)
		began := time.Now()
		found, err := tr.leader.Pass(t.Context())
		if err != nil || found.Claimed != claimed || found.Stuck || tr.leader.Claims.Now() != most {
			t.Errorf("%s: %+v, %v, then %d at a time; want %d claimed, and %d at a time",
				what, found, err, tr.leader.Claims.Now(), claimed, most)
		}
		if took := time.Since(began); took > limit(time.Second) {
			t.Errorf("%s: it took %s", what, took)
		}
	}
	pass("all but one", 4, 128)
	pass("only the locked one is left", 0, 128)
	unlock()
	pass("unlocked", 1, 128)
	tr.run()
	for i := range 5 {
		s.Begins(fmt.Sprint(i)).End <- nil
		s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
}

// While nobody may write to the table, as while an index is made, each pass ends in good time, though each task is let
// be only for a while:
// the leader has other things to do.
func TestPassWhileTheTableIsLocked(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	for i := range 40 {
		s.Add(fmt.Sprint(i), nil)
	}
	tr := s.leads(handlers.Handle(s.Handle))
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_tasks IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		began := time.Now()
		found, err := tr.leader.Pass(t.Context())
		if err != nil || found.Claimed != 0 || found.Next < 0 {
			t.Errorf("%+v, %v", found, err)
		}
		if took := time.Since(began); took > limit(leader.MaxPassTime+5*time.Second) {
			t.Errorf("it took %s", took)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.run()
	for i := range 40 {
		s.Begins(fmt.Sprint(i)).End <- nil
		s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
}
