package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// An application's open transaction on one row stalls the outcome of that task alone, whatever kind it is: all others
// are recorded, and new ones claimed, started and recorded.
func TestALockedRowStallsNoOther(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(nil)
	kinds := []string{"plain", "again", "followed", "into a locked row"}
	follow := func(a *enginetest.Attempt) {
		switch a.Payload.Name {
		case "again":
			a.Again(time.Now().Add(time.Hour))
		case "followed":
			a.FollowUp(store.Task{
				ID: "after " + a.ID, Payload: enginetest.Job{Name: "after"}, At: time.Now().Add(time.Hour),
			})
		case "into a locked row":
			a.FollowUp(store.Task{
				ID: "target", Payload: enginetest.Job{Name: "target"}, At: time.Now().Add(2 * time.Hour),
			})
		}
		a.End <- nil
	}
	s.Add("target", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	unlockTarget := enginetest.Lock(t, s.Pool, "target")
	var unlock []func()
	locked := map[string]*enginetest.Attempt{}
	for _, kind := range kinds {
		id := "locked " + kind
		s.Add(id, func(task *store.Task) { task.Payload = enginetest.Job{Name: kind} })
		locked[id] = s.Begins(id)
		if kind != "into a locked row" {
			unlock = append(unlock, enginetest.Lock(t, s.Pool, id))
		}
	}
	for _, a := range locked {
		follow(a)
	}
	var worst time.Duration
	for i := range 20 {
		for _, kind := range kinds[:3] {
			id := fmt.Sprint(kind, " ", i)
			s.Add(id, func(task *store.Task) { task.Payload = enginetest.Job{Name: kind} })
		}
		began := time.Now()
		for _, kind := range kinds[:3] {
			follow(s.Begins(fmt.Sprint(kind, " ", i)))
		}
		for _, kind := range kinds[:3] {
			want := store.StatusCompleted
			if kind == "again" {
				want = store.StatusQueued
			}
			s.Is(fmt.Sprint(kind, " ", i), want, taskdb.OutcomeCompleted)
		}
		worst = max(worst, time.Since(began))
	}
	t.Logf("beside locked rows a task is begun and recorded within %s", worst)
	if worst > limit(1500*time.Millisecond) {
		t.Errorf("beside locked rows it took %s to begin and record a task", worst)
	}
	for id := range locked {
		if row, err := enginetest.Tasks.Get(t.Context(), s.Pool, id); err != nil ||
			row.Status != store.StatusExecuting {
			t.Errorf("%s is %s, %v", id, row.Status, err)
		}
	}
	for _, unlock := range unlock {
		unlock()
	}
	for _, kind := range kinds[:3] {
		want := store.StatusCompleted
		if kind == "again" {
			want = store.StatusQueued
		}
		s.Is("locked "+kind, want, taskdb.OutcomeCompleted)
	}
	unlockTarget()
	s.Is("locked into a locked row", store.StatusCompleted, taskdb.OutcomeCompleted)
}
