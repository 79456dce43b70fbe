package scheduled

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

// Somebody who changes a limit in an open transaction holds up no claim.
func TestLimitsInAnOpenTransaction(t *testing.T) {
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

// claimLogSQL writes when tasks of each group are claimed.
const claimLogSQL = `
CREATE TABLE public.claim_log (of text, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE FUNCTION log_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
	INSERT INTO public.claim_log (of) VALUES (coalesce(NEW.group_key, ''));
	RETURN NULL;
END $$;
CREATE TRIGGER log_claim AFTER UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
WHEN (NEW.fence IS DISTINCT FROM OLD.fence AND NEW.fence IS NOT NULL) EXECUTE FUNCTION log_claim()`

// A rate is kept, and used up.
func TestRateOfStarts(t *testing.T) {
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
	took := enginetest.Ask[time.Duration](s.Bench,
		`SELECT max(started_at) - min(started_at) FROM tasktable.scheduled_task_executions`)
	// A start may come later than its claim by River's fetch and the gate. The tests of package plan compare claims.
	late := limitOf(500 * time.Millisecond)
	if took < 2*time.Second-late {
		t.Errorf("%d tasks started in %s, want 2s at least", n, took)
	}
	if limit := limitOf(3 * time.Second); took > limit {
		t.Errorf("%d tasks started in %s, want %s at most", n, took, limit)
	}
}

// In no time are more tasks of a group claimed than the burst and its rate allow, also when the leader changes. The
// tasks of one group do not use up the rate of another.
func TestRatesOfGroups(t *testing.T) {
	s := newBench(t)
	s.Exec(claimLogSQL)
	s.set(store.Limit{Name: "rate", Of: store.Type("QUICK"), Per: store.PerGroup, Rate: 20, Burst: 5})
	const n = 45
	groups := []string{"a", "b", "c"}
	for _, group := range groups {
		s.addMany(n, group, func(task *store.Task) { task.Group = group })
	}
	s.addMany(50, "none", func(*store.Task) {})
	start := func() (stop func()) {
		return s.node(func(c *Config) { c.Queues = map[string]int{"default": 20} },
			handlers.Handle(func(context.Context, *handlers.Task[quick]) error { return nil }))
	}
	stop := start()
	s.Sees("it leads", `SELECT count(*) = 1 FROM tasktable.nodes WHERE elected_at IS NOT NULL`)
	start()
	s.Sees("some have run", `SELECT count(*) >= 95 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`)
	stop()
	s.Sees("all have run", fmt.Sprintf(`SELECT count(*) = %d FROM tasktable.scheduled_tasks
		WHERE status = 'COMPLETED'`, 3*n+50))
	for _, group := range groups {
		rows, err := s.Pool.Query(t.Context(), `SELECT at FROM public.claim_log WHERE of = $1 ORDER BY at`, group)
		s.OK(err)
		claims, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if err != nil || len(claims) < n { // one that was handed back is claimed again
			t.Fatalf("%d claims of %s: %v", len(claims), group, err)
		}
		for i := range claims {
			for j := i; j < len(claims); j++ {
				in := claims[j].Sub(claims[i])
				if most := 5 + in.Seconds()*20 + 0.001; float64(j-i+1) > most { // times are rounded to microseconds
					t.Fatalf("%d of %s are claimed in %s, want at most %.1f", j-i+1, group, in, most)
				}
			}
		}
	}
	s.Sees("the leaders have changed", `SELECT count(*) = 2 FROM tasktable.nodes WHERE elected_at IS NOT NULL`)
}

// crew runs tasks of groups and tenants, and counts how many of each run at once. A task of a group that is held waits
// until let is closed.
type crew struct {
	held  string
	let   chan struct{}
	took  time.Duration
	begun chan string

	mu    sync.Mutex
	now   map[string]int
	peaks map[string]int
}

func newCrew() *crew {
	return &crew{
		let: make(chan struct{}), begun: make(chan string, 20_000), now: map[string]int{}, peaks: map[string]int{},
	}
}

func (c *crew) run(_ context.Context, about *handlers.Task[quick]) error {
	c.count(about.Group, 1)
	defer c.count(about.Group, -1)
	c.begun <- about.ID
	if c.held != "" && about.Group == c.held {
		<-c.let
	}
	if c.took > 0 {
		<-time.After(c.took)
	}
	return nil
}

func (c *crew) count(group string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[group] += n
	c.peaks[group] = max(c.peaks[group], c.now[group])
}

// addMany schedules tasks that are due now.
func (s *bench) addMany(n int, id string, change func(*store.Task)) {
	s.T.Helper()
	tasks := make([]store.Task, n)
	for i := range tasks {
		tasks[i] = store.Task{ID: fmt.Sprint(id, " ", i), Payload: quick{}}
		change(&tasks[i])
	}
	s.Did(s.Tasks.ScheduleMany(s.T.Context(), s.Pool, tasks))
}

// Over two nodes one task of each group runs at a time, also of those that were scheduled before the limit. A group
// whose task hangs holds no other up, though hundreds of its tasks are due. Tasks without a group are not counted.
func TestLimitOfEachGroup(t *testing.T) {
	s := newBench(t)
	c := newCrew()
	c.held = "big"
	in := func(group string) func(*store.Task) { return func(task *store.Task) { task.Group = group } }
	s.addMany(50, "before", in("a"))
	s.set(store.Limit{Name: "each", Of: store.Type("QUICK"), Per: store.PerGroup, MaxRunning: 1})
	s.addMany(600, "big", in("big"))
	for range 2 {
		s.node(func(c *Config) { c.Queues = map[string]int{"default": 5} }, handlers.Handle(c.run))
	}
	for i := range 20 {
		s.addMany(5, fmt.Sprint("small ", i), in(fmt.Sprint("small ", i)))
	}
	s.addMany(20, "alone", in(""))
	s.addMany(50, "after", in("a"))
	s.Sees("all others have run", `SELECT count(*) = 220 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`)
	s.Sees("one of the big group is claimed, and others tell why they wait", `SELECT
		(SELECT count(*) FROM tasktable.river_job WHERE metadata ->> 'key' = 'g:big') = 1 AND
		(SELECT data -> 'limit' ->> 'key' FROM tasktable.task_reasons WHERE code = 'limited' LIMIT 1) = 'g:big'`)
	s.Did(s.Tasks.RemoveLimit(t.Context(), s.Pool, "each"))
	close(c.let)
	s.Sees("all have run", `SELECT count(*) = 820 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.peaks, "big") // after the limit was removed
	delete(c.peaks, "")
	for group, peak := range c.peaks {
		if peak != 1 {
			t.Errorf("%d tasks of group %s ran at once", peak, group)
		}
	}
}

// A tenant of weight 3 has three turns for one of another.
func TestTenantsOfWeights(t *testing.T) {
	s := newBench(t)
	c := newCrew()
	c.took = 260 * time.Millisecond // so that a turn is one task
	s.set(store.Limit{Name: "fair", Of: store.Everything(), Per: store.PerTenant, Weights: store.Weights{"large": 3}})
	for _, tenant := range []string{"large", "small"} {
		s.addMany(20, tenant, func(task *store.Task) { task.TenantID = tenant })
	}
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 1} }, handlers.Handle(c.run))
	var order string
	for range 16 {
		order += enginetest.Receive(t, c.begun, patience, "a task begins")[:1]
	}
	if order != "lllslllslllsllls" {
		t.Errorf("in the order of their tenants: %s", order)
	}
}

// ledger notes in which order the tasks of each group begin. Most attempts do not end their task.
type ledger struct {
	mu    sync.Mutex
	dice  *rand.Rand
	open  map[string]string   // the task of each group that has begun and has not ended
	begun map[string][]string // the tasks of each group, in the order of their first attempts
	tries int
	wrong []string
}

func (l *ledger) run(_ context.Context, about *handlers.Task[quick]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	switch open := l.open[about.Group]; {
	case open == "":
		l.begun[about.Group] = append(l.begun[about.Group], about.ID)
	case open != about.ID:
		l.wrong = append(l.wrong, fmt.Sprintf("%s began, and %s has not ended", about.ID, open))
	}
	l.open[about.Group] = about.ID
	switch l.dice.IntN(10) {
	case 0, 1, 2:
		return handlers.RetryAfter(time.Duration(l.dice.IntN(100))*time.Millisecond, errors.New("no"))
	case 3:
		return handlers.Snooze(0) // for a second
	case 4:
		delete(l.open, about.Group)
		return handlers.Permanent(errors.New("never"))
	}
	delete(l.open, about.Group)
	return nil
}

// Over two nodes, of which one is stopped and another is started, the tasks of each group begin in the order of their
// priorities and times, each after the end of the one before.
func TestTasksOfGroupsRunInOrder(t *testing.T) {
	s := newBench(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	l := &ledger{dice: rand.New(rand.NewPCG(seed, 0)), open: map[string]string{}, begun: map[string][]string{}}
	s.set(store.Limit{Name: "order", Of: store.Type("QUICK"), Per: store.PerGroup, InOrder: true})
	const groups, each = 8, 6
	began, want := time.Now(), map[string][]string{}
	var tasks []store.Task
	for i := range groups * each {
		tasks = append(tasks, store.Task{ID: fmt.Sprint("task ", i), Payload: quick{}, Group: fmt.Sprint("group ", i%groups),
			Priority: l.dice.IntN(3), At: began.Add(time.Second + time.Duration(l.dice.IntN(1000))*time.Microsecond*1000)})
	}
	slices.SortFunc(tasks, func(a, b store.Task) int { return a.At.Compare(b.At) })
	for i := range tasks { // no two have the same time
		tasks[i].At = tasks[i].At.Add(time.Duration(i) * time.Microsecond)
	}
	s.Did(s.Tasks.ScheduleMany(t.Context(), s.Pool, tasks))
	slices.SortStableFunc(tasks, func(a, b store.Task) int { return b.Priority - a.Priority })
	for _, task := range tasks {
		want[task.Group] = append(want[task.Group], task.ID)
	}
	s.Sees("all are due", `SELECT count(*) = $1 FROM tasktable.scheduled_tasks WHERE next_attempt_at < clock_timestamp()`,
		len(tasks))
	node := func() (stop func()) {
		return s.node(func(c *Config) { c.Queues = map[string]int{"default": 5} }, handlers.Handle(l.run))
	}
	stop := node()
	node()
	const ended = `SELECT count(*) >= $1 FROM tasktable.scheduled_tasks WHERE finished_at IS NOT NULL`
	s.Sees("some have ended", ended, len(tasks)/3)
	stop()
	node()
	s.Sees("all have ended", ended, len(tasks))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fault := range l.wrong {
		t.Error(fault)
	}
	for group, ids := range want {
		if !slices.Equal(l.begun[group], ids) {
			t.Errorf("%s began in the order %s, want %s", group, strings.Join(l.begun[group], ", "), strings.Join(ids, ", "))
		}
	}
	if l.tries <= len(tasks) {
		t.Error("no task was tried again")
	}
}
