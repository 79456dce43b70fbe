package scheduled

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Each end of a task that nobody asked for reaches OnDead once, and a lost attempt whose task runs again reaches
// OnLost, with what is to be known about it.
func TestOnDead(t *testing.T) {
	f := newBench(t)
	var h hook
	over, busy := make(chan struct{}), make(chan struct{})
	startNode(t, f.nodes, func(c *Config) {
		c.Queues, c.OnDead = map[string]int{"default": 10, "narrow": 1}, h.tell
		c.OnLost = func(ctx context.Context, lost Failure) {
			lost.Outcome += " told by OnLost"
			h.tell(ctx, lost)
		}
		c.StartAllowance = time.Second // leases end soon
		c.Backoff = func(int, error) time.Duration { return time.Millisecond }
	}, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		switch name := task.Payload.Name; {
		case name == "permanent":
			return handlers.Permanent(errors.New("no such event"))
		case strings.HasPrefix(name, "panics"):
			panic("oops")
		case name == "deaf", name == "lapses" && task.Attempt == 1: // it does not mind that its lease has ended
			<-over
		case name == "busy":
			<-busy
			return nil
		case name == "unrecordable": // Postgres refuses it
			task.Result(json.Number("1e200000"))
			return nil
		case name == "good", name == "lapses", task.Attempt == 3:
			return nil
		}
		return errors.New("oops")
	}))
	t.Cleanup(sync.OnceFunc(func() { close(over) })) // before the node stops
	put := func(name string, change func(*store.Task)) store.Receipt {
		task := store.Task{ID: name, Payload: enginetest.Job{Name: name}, Entity: "event:1", TenantID: "acme"}
		if change != nil {
			change(&task)
		}
		return enginetest.Schedule(t, f.Pool, task)
	}
	revision := map[string]int64{}
	for name, change := range map[string]func(*store.Task){
		"busy":         func(task *store.Task) { task.Queue = "narrow" },
		"permanent":    nil,
		"panics":       func(task *store.Task) { task.MaxAttempts = 2 },
		"retried":      nil,
		"good":         nil,
		"unrecordable": nil,
		"undecodable":  func(task *store.Task) { task.Payload = store.JSON(`{"type": "JOB", "name": []}`) },
		"too late":     func(task *store.Task) { task.At, task.Expiration = time.Now().Add(-time.Hour), time.Minute },
		"deaf":         func(task *store.Task) { task.ExpectedExecutionTime, task.MaxAttempts = time.Second, 1 },
		"lapses":       func(task *store.Task) { task.ExpectedExecutionTime = time.Second },
	} {
		revision[name] = put(name, change).Revision
	}
	f.Sees("the slot is taken", `SELECT status = 'EXECUTING' AND fence IS NOT NULL
		FROM tasktable.scheduled_tasks WHERE id = 'busy'`)
	revision["waits too long"] = put("waits too long", func(task *store.Task) {
		task.Queue, task.Expiration = "narrow", time.Second
	}).Revision
	f.Sees("it is claimed", `SELECT status = 'EXECUTING' FROM tasktable.scheduled_tasks
		WHERE id = 'waits too long'`)
	f.Sees("it is too late for it", `SELECT scheduled_at + expiration < clock_timestamp()
		FROM tasktable.scheduled_tasks WHERE id = 'waits too long'`)
	close(busy)

	want := map[string]Failure{
		"permanent": {Type: "JOB", Outcome: taskdb.OutcomeFailed, Status: "FAILED", Attempt: 1, Error: "no such event"},
		"panics": {
			Type: "JOB", Outcome: taskdb.OutcomeFailed, Status: "FAILED", Attempt: 2, Error: "handler panicked: oops",
		},
		"undecodable": {
			Type: "JOB", Outcome: taskdb.OutcomeFailed, Status: "FAILED", Attempt: 1,
			Error: "payload does not decode: ",
		},
		"unrecordable": {
			Type: "JOB", Outcome: taskdb.OutcomeFailed, Status: "FAILED", Attempt: 1,
			Error: "the outcome COMPLETED could not be recorded: ",
		},
		"too late": {
			Type: "JOB", Outcome: taskdb.OutcomeExpired, Status: "EXPIRED", Attempt: 0,
			Error: "expired before it could start",
		},
		"waits too long": {
			Type: "JOB", Outcome: taskdb.OutcomeExpired, Status: "EXPIRED", Attempt: 1,
			Error: "expired before it could start",
		},
		"deaf":   {Type: "JOB", Outcome: taskdb.OutcomeLost, Status: "FAILED", Attempt: 1, Error: "its lease ended"},
		"lapses": {Type: "JOB", Outcome: "LOST told by OnLost", Status: "QUEUED", Attempt: 1, Error: "its lease ended"},
	}
	for id, dead := range want {
		enginetest.Eventually(t, patience, "the hook is told of "+id, func() bool { return len(h.of(id)) > 0 })
		got := h.of(id)[0]
		if !strings.HasPrefix(got.Error, dead.Error) {
			t.Errorf("told of %s: %q, want %q", id, got.Error, dead.Error)
		}
		dead.ID, dead.Revision, dead.Error = id, revision[id], got.Error
		dead.Entity, dead.TenantID, dead.Payload = "event:1", "acme", got.Payload
		if name := "\"" + id + "\""; id != "undecodable" && !strings.Contains(string(got.Payload), name) {
			t.Errorf("told of %s with the payload %s", id, got.Payload)
		}
		if !reflect.DeepEqual(got, dead) {
			t.Errorf("told of %+v, want %+v", got, dead)
		}
		got.Outcome = store.AttemptOutcome(strings.TrimSuffix(string(got.Outcome), " told by OnLost"))
		// It is recorded by then, and what is recorded is what was told.
		if n := f.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions AS e
			JOIN tasktable.scheduled_tasks AS t ON t.id = e.task_id
			WHERE e.task_id = $1 AND e.outcome = $2 AND e.error = $3 AND e.revision = $4
				AND $5 IN (t.status, 'QUEUED')`, id, got.Outcome, got.Error, got.Revision, got.Status); n != 1 {
			t.Errorf("%s is recorded otherwise", id)
		}
	}
	for _, id := range []string{"busy", "retried", "good", "lapses"} {
		enginetest.Await(t, f.Pool, id, patience, store.StatusCompleted, store.StatusFailed)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, told := range h.told {
		if _, wanted := want[id]; len(told) != 1 || !wanted {
			t.Errorf("told of %s: %+v", id, told)
		}
	}
}
