package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// renamed was called job.
type renamed struct {
	Name string `json:"name"`
}

func (renamed) TaskType() string { return "RENAMED" }

// Tasks of a type's old name run by its new handler, under the old name, until they are scheduled with the new one,
// by their old ids.
func TestTasksOfAnOldName(t *testing.T) {
	s := newBench(t)
	ran := make(chan string, 10)
	s.node(nil, handlers.Handle(func(_ context.Context, task *handlers.Task[renamed]) error {
		ran <- task.ID + " " + task.Type + " " + task.Payload.Name
		if task.ID == "again" && task.ScheduledAt.Before(time.Now().Add(-time.Minute)) {
			task.Again(time.Now())
		}
		if task.ID == "turns" && task.Type == "JOB" {
			task.FollowUp(store.Task{ID: task.ID, Payload: task.Payload, At: time.Now()}) // itself, under the new name
		}
		return nil
	}, handlers.Alias("JOB")))
	s.Sees("the node lists both names",
		`SELECT count(*) = 1 FROM tasktable.nodes WHERE types = '{JOB,RENAMED}' AND dead_at IS NULL`)
	long := func(task *store.Task) { task.At = time.Now().Add(-time.Hour) }
	later := func(task *store.Task) { task.At = time.Now().Add(time.Hour) }
	s.Add("old", nil)
	s.Add("again", long)
	s.Add("turns", long)
	s.Add("edited", later)
	s.Did(s.Tasks.Schedule(t.Context(), s.Pool, store.Task{ID: "edited", Payload: renamed{"by its old id"}}))
	s.Did(s.Tasks.RunNow(t.Context(), s.Pool, "edited"))
	got := map[string]int{}
	for range 6 {
		got[enginetest.Receive(t, ran, patience, "another one runs")]++
	}
	want := map[string]int{
		"old JOB old": 1, "again JOB again": 2, "turns JOB turns": 1, "turns RENAMED turns": 1,
		"edited RENAMED by its old id": 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ran %v, want %v", got, want)
	}
	s.Is("old", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("again", store.StatusCompleted, taskdb.OutcomeCompleted, taskdb.OutcomeCompleted)
	s.Is("turns", store.StatusCompleted, taskdb.OutcomeCompleted, taskdb.OutcomeCompleted)
	s.Is("edited", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Counts("executions under the old name", 4,
		`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE type = 'JOB'`)
	s.Counts("tasks", 4, `SELECT count(*) FROM tasktable.scheduled_tasks`)
}

// A pause is of a name: the other goes on.
func TestPauseOfAnOldName(t *testing.T) {
	s := newBench(t)
	s.Did(s.Tasks.PauseScope(t.Context(), s.Pool, store.Type("JOB"), time.Time{}, ""))
	s.node(
		nil,
		handlers.Handle(func(context.Context, *handlers.Task[renamed]) error { return nil }, handlers.Alias("JOB")),
	)
	s.Add("old", nil)
	s.Add("new", func(task *store.Task) { task.Payload = renamed{"new"} })
	s.Is("new", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("old", store.StatusQueued)
	s.Did(s.Tasks.ResumeScope(t.Context(), s.Pool, store.Type("JOB")))
	s.Is("old", store.StatusCompleted, taskdb.OutcomeCompleted)
}
