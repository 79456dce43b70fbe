package scheduled

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
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

// Five hundred tasks die, by the errors of their handlers or because they expire, while sessions and pools are cut. Each
// of them schedules its IfDead exactly once.
func TestEachDeathIsCompensated(t *testing.T) {
	t.Parallel()
	const deaths = 500
	b := benchOf(t)
	fail := func(context.Context, *handlers.Task[enginetest.Job]) error { return errors.New("no") }
	undo := func(context.Context, *handlers.Task[quick]) error { return nil }
	for range 2 {
		b.node(nil, handlers.Handle(fail), handlers.Handle(undo))
	}
	var tasks []store.Task
	for i := range deaths {
		name := fmt.Sprintf("%04d", i)
		task := store.Task{
			Payload: enginetest.Job{Name: name}, MaxAttempts: 1, IfDead: []store.Task{{Payload: quick{"undo-" + name}}},
		}
		if i%20 == 0 {
			task.At, task.Expiration = b.Now().Add(-time.Minute), time.Second
		}
		tasks = append(tasks, task)
	}
	b.Did(b.Tasks.ScheduleMany(t.Context(), b.Pool, tasks))
	for _, name := range []string{"tasktable engine", "tasktable session", "tasktable engine"} {
		b.Sees("some have died", `SELECT count(*) > 0 FROM tasktable.scheduled_tasks
			WHERE type = 'JOB' AND finished_at IS NOT NULL`)
		b.end(name)
	}
	b.SeesWithin(time.Minute, "each death has been followed", `SELECT count(*) = $1 FROM tasktable.scheduled_tasks
		WHERE type = 'QUICK' AND status = 'COMPLETED'`, deaths)
	b.Never("a task did not die, or was not followed by its own", `SELECT count(*) FROM tasktable.scheduled_tasks AS d
		LEFT JOIN tasktable.scheduled_tasks AS u ON u.id = replace(d.id, 'JOB-', 'QUICK-undo-') AND u.spawned_by = d.id
		WHERE d.type = 'JOB' AND (d.status NOT IN ('FAILED', 'EXPIRED') OR u.id IS NULL)`)
	b.Never("something was scheduled twice", `SELECT count(*) FROM (SELECT FROM tasktable.scheduled_task_changes
		WHERE task_id LIKE 'task-QUICK-undo-%' GROUP BY task_id HAVING count(*) > 1) AS twice`)
}

// What the leader finds dead is told to the service whose it is, once, also where another service leads.
func TestOnDeadOfAnotherService(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	heard := map[string]chan Failure{}
	for _, name := range []string{"leads", "no hook", "first", "second"} {
		heard[name] = make(chan Failure, 10)
		startNode(t, pool, func(c *Config) {
			c.Service = name
			if name != "no hook" {
				c.OnDead = func(_ context.Context, dead Failure) { heard[name] <- dead }
			}
		}, handlers.Func(
			map[bool]string{true: "OTHER", false: "JOB"}[name == "leads"], func(context.Context) error { return nil },
		))
		if name == "leads" {
			enginetest.Eventually(t, patience, "it leads", func() bool {
				var leads bool
				err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks
					WHERE locktype = 'advisory' AND objsubid = 2 AND objid = 0 AND granted
					AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&leads)
				return err == nil && leads
			})
		}
		enginetest.Eventually(t, patience, name+" is up", func() bool {
			var up bool
			err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM tasktable.nodes AS n
				JOIN pg_stat_activity AS a ON a.application_name = 'tasktable listener'
				AND a.datname = current_database() WHERE n.service = $1)`, name).Scan(&up)
			return err == nil && up
		})
	}
	enginetest.Eventually(t, patience, "all listen", func() bool {
		var listeners int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'tasktable listener' AND query LIKE '%LISTEN%dead%'`).Scan(&listeners)
		return err == nil && listeners == 4
	})
	expires := func(id, payload string) {
		enginetest.Schedule(t, pool, store.Task{
			ID: id, Payload: store.JSON(payload), At: time.Now().Add(-time.Hour), Expiration: time.Second,
		})
	}
	// The leader learns of the others with its tick.
	enginetest.Eventually(t, patience, "the leader knows the others", func() bool {
		expires("probe "+time.Now().String(), `{"type":"JOB"}`)
		select {
		case dead := <-heard["first"]:
			return dead.Type == "JOB" && dead.Outcome == taskdb.OutcomeExpired && dead.Status == "EXPIRED"
		case <-heard["leads"]: // as long as it knew of nobody else
			return false
		case <-time.After(time.Second):
			return false
		}
	})
	for len(heard["first"])+len(heard["leads"]) > 0 {
		select {
		case <-heard["first"]:
		case <-heard["leads"]:
		}
	}
	expires("theirs", `{"type":"JOB"}`)
	if dead := enginetest.Receive(t, heard["first"], patience, "theirs is told of"); dead.ID != "theirs" ||
		dead.Revision == 0 || dead.Error == "" {
		t.Errorf("%+v", dead)
	}
	expires("ours", `{"type":"OTHER"}`)
	if dead := enginetest.Receive(t, heard["leads"], patience, "ours is told of"); dead.ID != "ours" {
		t.Errorf("%+v", dead)
	}
	for name, others := range heard {
		if len(others) > 0 {
			t.Errorf("%s also heard %+v", name, <-others)
		}
	}
}
