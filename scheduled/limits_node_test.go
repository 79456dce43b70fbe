package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// set sets a limit.
func (s *bench) set(limit store.Limit) {
	s.T.Helper()
	s.Did(s.Tasks.SetLimit(s.T.Context(), s.Pool, limit))
}

// Over two nodes no more tasks of a queue run than its limit says, from the start, after it has grown and after it has
// shrunk. Tasks of other queues have the other slots.
func TestLimitOfAllNodes(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	begun, let := make(chan string, 100), make(chan struct{})
	p := &pit{begun: begun, let: let}
	limit := store.Limit{Name: "slow", Of: store.Queue("slow"), MaxRunning: 3}
	s.set(limit)
	for range 2 {
		s.node(func(c *Config) {
			c.Queues = map[string]int{"default": 5, "slow": 5}
		}, handlers.Handle(p.run), handlers.Handle(s.Handle))
	}
	for i := range 20 {
		s.Add(fmt.Sprint("slow ", i), func(task *store.Task) { task.Payload, task.Queue = quick{}, "slow" })
	}
	next := func() string { return enginetest.Receive(t, begun, patience, "another slow task begins") }
	for range 3 {
		next()
	}
	s.Add("plain", nil)
	s.Begins("plain").End <- nil
	const held = `SELECT count(*) = %d FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL AND type = 'QUICK'`
	s.Sees("three run", fmt.Sprintf(held, 3))
	s.Sees("others tell why they wait", `SELECT count(*) = 17 FROM tasktable.task_reasons
		WHERE code = 'limited' AND data -> 'limit' ->> 'running' = '3'`)
	limit.MaxRunning = 5
	s.set(limit)
	next()
	next()
	limit.MaxRunning = 2
	s.set(limit)
	for range 3 { // five run, and three may end before another begins
		let <- struct{}{}
	}
	s.Sees("two run", fmt.Sprintf(held, 2))
	for range 4 {
		let <- struct{}{}
		next()
		s.Sees("two run", fmt.Sprintf(held, 2))
	}
	s.Did(s.Tasks.RemoveLimit(t.Context(), s.Pool, "slow"))
	for range 6 {
		next()
	}
	close(let)
	s.Sees("all have run",
		`SELECT count(*) = 20 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED' AND type = 'QUICK'`)
}

// Quick tasks of a limit share a job. When one of them takes long, the others go back, and none runs beside it.
func TestLimitOfQuickTasksThatHang(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	p := &pit{begun: make(chan string, 500), let: make(chan struct{}, 500)}
	s.node(nil, handlers.Handle(p.run))
	add := func(name string, n int) {
		t.Helper()
		tasks := make([]store.Task, n)
		for i := range tasks {
			tasks[i] = store.Task{ID: fmt.Sprint(name, " ", i), Payload: quick{}}
		}
		s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, tasks))
	}
	const done = `SELECT count(*) = %d FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`
	// The node measures that they are quick. On a busy machine the first ones may seem slow, and would not share a job.
	rounds := 0
	enginetest.Eventually(t, patience, "the node measures that the tasks are quick", func() bool {
		for range 100 {
			p.let <- struct{}{}
		}
		add(fmt.Sprint("quick ", rounds), 100)
		rounds++
		s.Sees("quick tasks have run", fmt.Sprintf(done, 100*rounds))
		for range 100 {
			enginetest.Receive(t, p.begun, patience, "a task has begun")
		}
		s.Sees("the node has published", `SELECT bool_or(averages ? 'QUICK') FROM tasktable.nodes`)
		return enginetest.Ask[bool](s.Bench,
			`SELECT bool_and((averages ->> 'QUICK')::bigint < 5000) FROM tasktable.nodes`)
	})
	s.set(store.Limit{Name: "one", Of: store.Type("QUICK"), MaxRunning: 1})
	// A pass that has begun before the limit was set may still claim without it. These tasks outlast that pass.
	for i := range 3 {
		p.let <- struct{}{}
		add(fmt.Sprint("waits for the next pass ", i), 1)
		s.Sees("it has run", fmt.Sprintf(done, 100*rounds+i+1))
		enginetest.Receive(t, p.begun, patience, "it has begun")
	}
	p.mu.Lock()
	p.peak = 0
	p.mu.Unlock()
	add("hangs", 30)
	s.Sees("some of them shared a job", `SELECT count(*) >= 2 FROM tasktable.scheduled_task_executions
		WHERE outcome = 'RELEASED' AND error LIKE '%only one of them may run'`)
	s.Sees("one is claimed", `SELECT count(*) = 1 FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`)
	close(p.let)
	s.Sees("all have run", fmt.Sprintf(done, 100*rounds+3+30))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peak != 1 {
		t.Errorf("%d ran at once", p.peak)
	}
}

// Somebody who changes a limit in an open transaction holds up no claim.
func TestLimitsInAnOpenTransaction(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	limit := store.Limit{Name: "jobs", Of: store.Type("JOB"), MaxRunning: 5, Rate: 1000, Burst: 100}
	s.set(limit)
	s.node(nil, handlers.Handle(s.Handle))
	s.Add("first", nil)
	s.Begins("first").End <- nil
	tx := s.Begin()
	limit.Burst = 7
	s.Did(s.Tasks.SetLimit(t.Context(), tx, limit))
	s.Did(s.Tasks.RemoveLimit(t.Context(), tx, "jobs"))
	s.Add("second", nil)
	s.Begins("second").End <- nil
}

// After a change of the rate, no task waits because of starts by the former rate.
func TestAChangedRateHolds(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.set(store.Limit{Name: "rate", Of: store.Type("JOB"), Rate: 1, Interval: 24 * time.Hour})
	s.node(nil, handlers.Handle(s.Handle))
	s.Add("first", nil)
	s.Begins("first").End <- nil
	s.Add("second", nil)
	s.Sees("the second waits for a day", `SELECT until > clock_timestamp() + interval '23 hours'
		FROM tasktable.task_reasons WHERE id = 'second' AND code = 'limited'`)
	s.set(store.Limit{Name: "rate", Of: store.Type("JOB"), Rate: 2, Interval: time.Second})
	s.Begins("second").End <- nil
}

// In no time do more tasks start than the burst and the rate allow. After a time without starts, no more than the burst
// are at once. The rate is used up.
func TestRateOfStarts(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	limitOf := enginetest.Limits(t, s.Pool)
	s.set(store.Limit{Name: "rate", Of: store.Type("QUICK"), Rate: 50, Burst: 5})
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 20} },
		handlers.Handle(func(context.Context, *handlers.Task[quick]) error { return nil }))
	const n = 105
	for i := range n {
		s.Add(fmt.Sprint("quick ", i), func(task *store.Task) { task.Payload = quick{} })
	}
	s.Sees("all have run", fmt.Sprintf(`SELECT count(*) = %d FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`, n))
	rows, err := s.Pool.Query(t.Context(), `SELECT started_at FROM tasktable.scheduled_task_executions ORDER BY started_at`)
	s.OK(err)
	starts, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil || len(starts) != n {
		t.Fatalf("%d starts: %v", len(starts), err)
	}
	// A start may come later than its claim by River's fetch and the gate, and later starts may come less late. The
	// tests of package plan compare claims, and leave no room.
	late := limitOf(500 * time.Millisecond)
	for i := range starts {
		for j := i; j < len(starts); j++ {
			in := starts[j].Sub(starts[i])
			if most := 5 + (in+late).Seconds()*50; float64(j-i+1) > most {
				t.Fatalf("%d start in %s, want at most %.1f", j-i+1, in, most)
			}
		}
	}
	took := starts[n-1].Sub(starts[0])
	if took < 2*time.Second-late {
		t.Errorf("%d tasks started in %s, want 2s at least", n, took)
	}
	if limit := limitOf(3 * time.Second); took > limit {
		t.Errorf("%d tasks started in %s, want %s at most", n, took, limit)
	}
}
