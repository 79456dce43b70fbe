package scheduled

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// put schedules so many tasks of a queue.
func (s *bench) put(queue string, n int) {
	s.T.Helper()
	for i := range n {
		s.Add(fmt.Sprint(queue, " ", i), func(task *store.Task) {
			task.Queue, task.Payload = queue, enginetest.Job{Name: queue}
		})
	}
}

// running waits until so many tasks of a queue are in handlers, and fails the test if it is more.
func (s *bench) running(queue string, n int, acts map[string][]*enginetest.Attempt) {
	s.T.Helper()
	enginetest.Eventually(s.T, patience, fmt.Sprintf("%d tasks of %s run", n, queue), func() bool {
		s.enterAll(queue, acts)
		return len(acts[queue]) >= n
	})
	if got := len(acts[queue]); got != n {
		s.T.Errorf("%d tasks of %s run, want %d", got, queue, n)
	}
}

// enterAll notes the runs of a queue's tasks that have begun.
func (s *bench) enterAll(queue string, acts map[string][]*enginetest.Attempt) {
	for i := range 20 {
		select {
		case a := <-s.Of(fmt.Sprint(queue, " ", i)):
			acts[queue] = append(acts[queue], a)
		default:
		}
	}
}

// finish ends the oldest run of a queue.
func (s *bench) finish(queue string, acts map[string][]*enginetest.Attempt) {
	s.T.Helper()
	a := acts[queue][0]
	acts[queue] = acts[queue][1:]
	a.End <- nil
	// On a busy machine the task may have gone back to the queue, which uses no attempt.
	if row := enginetest.Await(s.T, s.Pool, a.ID, patience, store.StatusCompleted); row.Attempt != 1 {
		s.T.Errorf("task %s is completed at attempt %d", a.ID, row.Attempt)
	}
}

// finishAll ends so many runs of a queue, as they begin.
func (s *bench) finishAll(queue string, n int, acts map[string][]*enginetest.Attempt) {
	s.T.Helper()
	for range n {
		enginetest.Eventually(s.T, patience, "one of "+queue+" runs", func() bool {
			s.enterAll(queue, acts)
			return len(acts[queue]) > 0
		})
		s.finish(queue, acts)
	}
}

// Slots that are not shared stay with their queue; dedicated nodes work theirs only.
func TestSlotsOfQueues(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) { c.Queues = map[string]int{"a": 2, "b": 1} }, handlers.Handle(s.Handle))
	s.node(func(c *Config) { c.Queues = map[string]int{"x": 3} }, handlers.Handle(s.Handle))
	s.node(func(c *Config) { c.Queues = map[string]int{"x": 2, "y": 1} }, handlers.Handle(s.Handle))
	slots := map[string]int{"a": 2, "b": 1, "x": 5, "y": 1}
	acts := map[string][]*enginetest.Attempt{}
	s.put("b", 8)
	s.running("b", 1, acts)
	for _, queue := range []string{"a", "x", "y"} {
		s.put(queue, 8)
	}
	for queue, n := range slots {
		s.running(queue, n, acts)
	}
	s.Passes(s.Now().Add(1100 * time.Millisecond))
	for queue, n := range slots {
		s.running(queue, n, acts)
	}
	for queue := range slots {
		s.finishAll(queue, 8, acts)
	}
	s.Counts("tasks ran on nodes that do not work their queues", 0,
		`SELECT count(*) FROM tasktable.scheduled_task_executions AS e
		JOIN tasktable.nodes AS n ON n.number = e.node
		JOIN tasktable.scheduled_tasks AS t ON t.id = e.task_id WHERE NOT n.queues ? t.queue`)
}

// What a node's configuration pauses, it does not work, and others do. A node that works nothing may lead.
func TestConfigPaused(t *testing.T) {
	s := newBench(t)
	queues := func(paused ...store.Scope) func(*Config) {
		return func(c *Config) { c.Queues, c.Paused = map[string]int{"default": 5, "side": 5}, paused }
	}
	parts := []handlers.Part{handlers.Handle(s.Handle), handlers.Handle(s.handleOther)}
	s.node(queues(store.Everything()), parts...)
	put := func(id, queue string, payload store.Payload) {
		s.Add(id, func(task *store.Task) { task.Queue, task.Payload = queue, payload })
	}
	put("alone", "default", enginetest.Job{})
	s.Sees("the node leads",
		`SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
			AND objid = 0
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	s.Passes(s.Now().Add(1100 * time.Millisecond))
	s.Is("alone", store.StatusQueued)
	s.Counts("the task is not said to have no node", 1,
		`SELECT count(*) FROM tasktable.late_tasks WHERE NOT has_node`)
	leader := s.Count(`SELECT number FROM tasktable.nodes`)

	s.node(queues(store.Queue("side")), parts...)
	s.Begins("alone").End <- nil
	s.Is("alone", store.StatusCompleted, taskdb.OutcomeCompleted)
	put("side job", "side", enginetest.Job{})
	put("job", "default", enginetest.Job{})
	s.Begins("job").End <- nil
	s.Is("job", store.StatusCompleted, taskdb.OutcomeCompleted)
	second := s.Count(`SELECT max(number) FROM tasktable.nodes`)
	s.Passes(s.Now().Add(1100 * time.Millisecond))
	s.Is("side job", store.StatusQueued)

	s.node(queues(store.Type("JOB"), store.Queue("default")), parts...)
	put("side other", "side", otherJob{})
	s.Begins("side other").End <- nil
	s.Is("side other", store.StatusCompleted, taskdb.OutcomeCompleted)
	third := s.Count(`SELECT max(number) FROM tasktable.nodes`)
	put("other", "default", otherJob{})
	s.Begins("other").End <- nil
	s.Is("other", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("side job", store.StatusQueued)
	for id, want := range map[string]int{"alone": second, "job": second, "other": second, "side other": third} {
		if node := s.Count(`SELECT node FROM tasktable.scheduled_task_executions
			WHERE task_id = $1`, id); node != want {
			t.Errorf("%s ran on node %d, want %d", id, node, want)
		}
	}
	s.Counts("the node that works nothing is said to work something", 1,
		`SELECT count(*) FROM tasktable.nodes WHERE number = $1 AND queues = '{}' AND dead_at IS NULL`, leader)
}

// pit is a handler that waits for a slow server. It counts how many of its runs there were at once.
type pit struct {
	begun chan string
	let   chan struct{}

	mu            sync.Mutex
	running, peak int
}

func (p *pit) run(ctx context.Context, task *handlers.Task[quick]) error {
	p.mu.Lock()
	p.running++
	p.peak = max(p.peak, p.running)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.running--
		p.mu.Unlock()
	}()
	p.begun <- task.ID
	select {
	case <-p.let:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A type with a limit runs no more handlers at once than the limit, in all queues of the node together. Other types
// have the other slots, its own tasks keep their order, and another node has its own limit.
func TestTypeSlots(t *testing.T) {
	s := newBench(t)
	begun, let := make(chan string, 100), make(chan struct{})
	pits := []*pit{{begun: begun, let: let}, {begun: begun, let: let}}
	node := func(p *pit) {
		s.node(func(c *Config) {
			c.Queues = map[string]int{"default": 10, "other": 5}
			c.TypeSlots = map[string]int{"QUICK": 2}
		}, handlers.Handle(p.run), handlers.Handle(s.Handle))
	}
	node(pits[0])
	var tasks []store.Task
	for i := range 50 {
		queue := []string{"default", "other"}[i%2]
		tasks = append(tasks, store.Task{ID: fmt.Sprint("slow ", i), Payload: quick{}, Queue: queue})
	}
	s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, tasks))
	next := func() string { return enginetest.Receive(t, begun, patience, "another slow task begins") }
	next()
	next()
	for i := range 8 { // beside two slow tasks, in ten slots
		s.Add(fmt.Sprint("plain ", i), nil)
	}
	for i := range 8 {
		defer func(one *enginetest.Attempt) { one.End <- nil }(s.Begins(fmt.Sprint("plain ", i)))
	}
	s.Sees("no slow task is claimed beyond the limit",
		`SELECT count(*) = 2 FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL AND type = 'QUICK'`)
	for _, queue := range []string{"default", "other"} {
		s.Add("urgent "+queue, func(task *store.Task) {
			task.Payload, task.Queue, task.Priority = quick{}, queue, 9
		})
	}
	for range 2 {
		let <- struct{}{}
		if id := next(); !strings.HasPrefix(id, "urgent") {
			t.Errorf("%q begins before the urgent ones", id)
		}
	}
	node(pits[1])
	next()
	next()
	close(let)
	s.Sees("all slow tasks have run",
		`SELECT count(*) = 52 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED' AND type = 'QUICK'`)
	for i, p := range pits {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.peak != 2 {
			t.Errorf("node %d ran %d of the type at once, want 2", i+1, p.peak)
		}
	}
}

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
