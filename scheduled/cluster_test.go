package scheduled

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Two services with types of their own on one table and one queue: each runs its own, whichever leads, and when one
// of them is stuck or away, the other does not notice.
func TestServicesShareATable(t *testing.T) {
	s := newBench(t)
	var mu sync.Mutex
	ranBy := map[string]string{}
	serve := func(service string, slots int, parts ...handlers.Part) (stop func()) {
		return s.node(func(c *Config) { c.Service, c.Queues = service, map[string]int{"default": slots} }, parts...)
	}
	note := func(service string) func(context.Context, *handlers.Execution) error {
		return func(_ context.Context, e *handlers.Execution) error {
			mu.Lock()
			defer mu.Unlock()
			ranBy[e.ID] += service
			return nil
		}
	}
	mails := note("mails")
	stopEvents := serve("events", 2, handlers.Handle(s.Handle))
	serve(
		"mails", 5,
		handlers.Handle(func(ctx context.Context, task *handlers.Task[ownBackoff]) error {
			return mails(ctx, task.Execution)
		}),
	)
	ids := func(prefix string, n int) (ids []string) {
		for i := range n {
			id := fmt.Sprint(prefix, i)
			s.Add(id, func(task *store.Task) {
				if prefix != "event " {
					task.Payload = ownBackoff{}
				}
			})
			ids = append(ids, id)
		}
		return ids
	}
	// The events' service is stuck, and has a long backlog.
	events := ids("event ", 30)
	first := s.Begins(events[0])
	for _, id := range ids("mail ", 50) {
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	s.Counts("events wait", 30,
		`SELECT count(*) FROM tasktable.scheduled_tasks WHERE type = 'JOB' AND status IN ('QUEUED', 'EXECUTING')`)
	// It works again. Tasks that it did not begin in time were released and claimed once more, so their order is open.
	first.End <- nil
	for _, id := range events[1:] {
		go func() {
			select {
			case attempt := <-s.Of(id):
				attempt.End <- nil
			case <-t.Context().Done():
			}
		}()
	}
	for _, id := range events {
		enginetest.Await(t, s.Pool, id, patience, store.StatusCompleted)
	}
	s.Counts("claims came to something else", 0,
		`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome NOT IN ('COMPLETED', 'RELEASED')`)
	// It is away, and the leader has had its second to notice: its tasks wait, unclaimed, and those of the other run.
	stopEvents()
	s.Passes(time.Now().Add(2500 * time.Millisecond))
	s.Add("event away", nil)
	for _, id := range ids("late mail ", 10) {
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	if row := enginetest.Await(t, s.Pool, "event away", patience, store.StatusQueued); row.Attempt != 0 ||
		row.Fence != nil {
		t.Errorf("an event without its service was claimed: %+v", row)
	}
	serve("events", 2, handlers.Handle(s.Handle))
	s.Begins("event away").End <- nil
	s.Is("event away", store.StatusCompleted, taskdb.OutcomeCompleted)
	mu.Lock()
	defer mu.Unlock()
	for id, by := range ranBy {
		if by != "mails" {
			t.Errorf("%s was run by %s", id, by)
		}
	}
}

// Two nodes with the same types share the work, and each task runs once; also those that fail at first.
func TestTwoNodesRunEachTaskOnce(t *testing.T) {
	s := newBench(t)
	var mu sync.Mutex
	runs := map[string]int{}
	by := map[int]int{}
	for node := range 2 {
		s.node(
			func(c *Config) { c.Queues = map[string]int{"default": 10} },
			handlers.Handle(func(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
				mu.Lock()
				runs[task.ID]++
				by[node]++
				mu.Unlock()
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if task.Payload.Name == "fails once" && task.Attempt == 1 {
					return errors.New("oops")
				}
				return nil
			}),
		)
	}
	const n = 400
	var list []store.Task
	for i := range n {
		name := "plain"
		if i%10 == 0 {
			name = "fails once"
		}
		list = append(list, store.Task{ID: fmt.Sprint(i), Payload: enginetest.Job{Name: name}, Priority: i % 3})
	}
	s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, list))
	s.Sees("all are completed", `SELECT count(*) = $1 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`, n)
	mu.Lock()
	defer mu.Unlock()
	for id, ran := range runs {
		var i int
		s.Did(fmt.Sscan(id, &i))
		want := 1
		if i%10 == 0 {
			want = 2
		}
		if ran != want {
			t.Errorf("task %s ran %d times, want %d", id, ran, want)
		}
	}
	if len(runs) != n || by[0] < n/20 || by[1] < n/20 {
		t.Errorf("%d tasks ran, %d times on one node and %d on the other", len(runs), by[0], by[1])
	}
	s.Counts("claims came to something else", 0, `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE outcome NOT IN ('COMPLETED', 'RETRIED', 'RELEASED')`)
}
