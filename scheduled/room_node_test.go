package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// Tasks that are due behind handlers of unknown end are not claimed for long: they go back once at most, and wait in
// the queue, where a more urgent task overtakes them.
func TestTasksBehindLongHandlersWaitInTheQueue(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 2} })
	s.Add("long 1", nil)
	s.Add("long 2", nil)
	first := s.Begins("long 1")
	second := s.Begins("long 2")
	for i := range 20 {
		s.Add(fmt.Sprint("behind ", i), nil)
	}
	begin := time.Now()
	enginetest.Eventually(t, patience, "three seconds have passed", func() bool {
		return s.Count(`SELECT (clock_timestamp() > $1)::int`, begin.Add(3*time.Second)) == 1
	})
	s.Counts("tasks are claimed, and two can run", 2,
		`SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`)
	if n := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions`); n > 4 {
		t.Errorf("%d claims have ended for nothing", n)
	}
	s.Add("urgent", func(task *store.Task) { task.Priority = 100 })
	first.End <- nil
	s.Begins("urgent").End <- nil
	second.End <- nil
	for i := range 20 { // in any order, because one that was handed back comes after the others
		go func() { (<-s.Of(fmt.Sprint("behind ", i))).End <- nil }()
	}
	s.Sees("all have run", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
}

// Tasks of transactional handlers are claimed for the connections that these may have, and so leave the slots to
// others.
func TestTransactionalTasksHaveRoomByPlaces(t *testing.T) {
	s := newBench(t)
	settings := s.Pool.Config()
	settings.MaxConns = 4 // two of them for handlers
	pool, err := pgxpool.NewWithConfig(context.Background(), settings)
	s.OK(err)
	t.Cleanup(pool.Close)
	const n = 30
	let := make(chan struct{})
	startNode(t, pool, func(c *Config) { c.Queues = map[string]int{"default": n} }, handlers.Handle(s.Handle),
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, _ *handlers.Task[quick]) error {
			select {
			case <-let:
			case <-ctx.Done():
			}
			return ctx.Err()
		}))
	t.Cleanup(s.LetGo)
	for i := range n {
		s.Add(fmt.Sprint("tx ", i), func(task *store.Task) { task.Payload = quick{} })
	}
	kind := quick{}.TaskType()
	s.Sees("two run in River", `SELECT count(*) >= 2 FROM tasktable.river_job WHERE state = 'running'
		AND kind = $1`, kind)
	begin := time.Now()
	s.Add("plain", nil)
	s.Begins("plain").End <- nil
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the plain task began after %s", took)
	}
	const heldSQL = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL AND type = $1`
	if held := s.Count(heldSQL, kind); held > 4 {
		t.Errorf("%d transactional tasks are claimed, and two can run", held)
	}
	close(let)
	s.Sees("all have run", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
}

// A leader that does not run a type itself sizes its batches by what the nodes that do have published.
func TestLeaderOfAnotherServiceKnowsAverages(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) { c.Service = "leads" }, handlers.Handle(s.handleOther))
	s.Sees("the other service leads", leadsLastSQL, 1)
	s.node(func(c *Config) { c.Service = "works"; c.Queues = map[string]int{"default": 2} },
		handlers.Handle(func(context.Context, *handlers.Task[quick]) error { return nil }))
	feed := func(prefix string, n int) {
		var list []store.Task
		for i := range n {
			list = append(list, store.Task{ID: fmt.Sprint(prefix, i), Payload: quick{}})
		}
		s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, list))
		s.Sees("all have run", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
	}
	feed("first ", 40)
	s.Sees("the node has published", `SELECT count(*) = 1 FROM tasktable.nodes WHERE averages ? $1`, quick{}.TaskType())
	const lastSQL = `SELECT last_value::int FROM tasktable.river_job_id_seq`
	before := s.Count(lastSQL)
	feed("then ", 2000)
	jobs := s.Count(lastSQL) - before
	if jobs > 400 {
		t.Errorf("%d River jobs for 2,000 tasks", jobs)
	}
}
