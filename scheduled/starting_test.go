package scheduled

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// What is due at once is heard of; without notifications it is seen within a second.
func TestTasksDueAtOnce(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(nil)
	s.Add("first", nil)
	s.Begins("first").End <- nil
	var heard, seen []time.Duration
	quiet := store.New(store.Config{Service: "test", NoNotify: true})
	for i := range 5 {
		id := fmt.Sprint("heard ", i)
		began := time.Now()
		s.Add(id, nil)
		s.Begins(id).End <- nil
		heard = append(heard, time.Since(began))
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)

		id = fmt.Sprint("seen ", i)
		s.Passes(time.Now().Add(100 * time.Millisecond)) // the leader looks once more after each wake
		began = time.Now()
		s.Did(quiet.Schedule(t.Context(), s.Pool, store.Task{ID: id, Payload: enginetest.Job{Name: id}}))
		s.Begins(id).End <- nil
		seen = append(seen, time.Since(began))
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	slices.Sort(heard)
	slices.Sort(seen)
	t.Logf("begun after %v when heard, %v when seen", heard, seen)
	if median := heard[2]; median > limit(250*time.Millisecond) {
		t.Errorf("with notifications half of the tasks begin after %s", median)
	}
	if worst := seen[4]; worst > limit(2*time.Second) {
		t.Errorf("without notifications a task began after %s", worst)
	}
}

// With a look-ahead tasks start at their time, and no earlier; without, nearly so.
func TestTasksStartAtTheirTime(t *testing.T) {
	t.Parallel()
	for name, lookAhead := range map[string]time.Duration{"ahead": 0, "not ahead": -1} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			limit := enginetest.Limits(t, s.Pool)
			s.node(func(c *Config) { c.LookAhead = lookAhead })
			at := time.Now().Add(1500 * time.Millisecond)
			for i := range 10 {
				s.Add(fmt.Sprint(i), func(task *store.Task) {
					task.At = at.Add(time.Duration(i) * 100 * time.Millisecond)
				})
			}
			var late []time.Duration
			for i := range 10 {
				a := s.Begins(fmt.Sprint(i))
				a.End <- nil
				late = append(late, a.StartedAt.Sub(a.ScheduledAt))
				s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
			}
			slices.Sort(late)
			t.Logf("late by %v", late)
			if late[0] < 0 || late[9] > limit(time.Second) || late[5] > limit(250*time.Millisecond) {
				t.Errorf("late by %v", late)
			}
		})
	}
}

// A task that waits for its time keeps no slot from one that is due: the look-ahead takes spare room only.
func TestLookAheadKeepsNoSlot(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(func(c *Config) { c.LookAhead, c.Queues = 10*time.Second, map[string]int{"default": 2} })
	s.Add("near", func(task *store.Task) { task.At = time.Now().Add(3 * time.Second) })
	enginetest.Await(t, s.Pool, "near", patience, store.StatusExecuting)
	s.Add("due", nil)
	s.Begins("due").End <- nil
	s.Idle("near") // what was due has begun before it
	s.Is("due", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Begins("near").End <- nil
	row := s.Is("near", store.StatusCompleted, taskdb.OutcomeCompleted)
	if late := row.StartedAt.Sub(row.ScheduledAt); late < 0 || late > limit(time.Second) {
		t.Errorf("the near one began %s after its time", late)
	}
}

// A node that stops hands back what it has claimed ahead: another may run it at its time.
func TestStopReleasesWhatWaits(t *testing.T) {
	s := newBench(t)
	stop := s.node(func(c *Config) { c.LookAhead = 10 * time.Second })
	at := time.Now().Add(8 * time.Second)
	for i := range 5 {
		s.Add(fmt.Sprint(i), func(task *store.Task) { task.At = at })
	}
	s.Add("runs", nil)
	running := s.Begins("runs")
	for i := range 5 {
		enginetest.Await(t, s.Pool, fmt.Sprint(i), patience, store.StatusExecuting)
	}
	s.Sees("River has handed them out", `SELECT count(*) = 0 FROM tasktable.river_job WHERE state = 'available'`)
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	for i := range 5 { // at once, while another's handler still runs
		row := s.Is(fmt.Sprint(i), store.StatusQueued, taskdb.OutcomeReleased)
		if row.Attempt != 0 || !row.NextAttemptAt.Equal(row.ScheduledAt) ||
			s.ErrorOf(row.ID) != "the node is shutting down" {
			t.Errorf("handed back as attempt %d for %s: %s", row.Attempt, row.NextAttemptAt, s.ErrorOf(row.ID))
		}
	}
	running.End <- nil
	enginetest.Receive(t, stopped, patience, "the node stops")
	s.Is("runs", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Idle("0", "1", "2", "3", "4")
}

// A node that loses its session hands its claims back. The history does not say that somebody has stopped the node.
func TestALostSessionReleasesWhatWaits(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) { c.LookAhead = 10 * time.Second })
	s.Add("waits", func(task *store.Task) { task.At = time.Now().Add(8 * time.Second) })
	enginetest.Await(t, s.Pool, "waits", patience, store.StatusExecuting)
	s.Sees("River has handed it out", `SELECT count(*) = 0 FROM tasktable.river_job WHERE state = 'available'`)
	if s.end("tasktable session") != 1 {
		t.Fatal("there is no session")
	}
	s.Sees("it goes back", `SELECT count(*) = 1 FROM tasktable.scheduled_task_executions
		WHERE task_id = 'waits' AND outcome = 'RELEASED'`)
	if why := s.ErrorOf("waits"); why != handlers.ErrLeaseLost.Error() {
		t.Errorf("it says %q", why)
	}
	s.Begins("waits").End <- nil
}

// The only node hands back, when it stops, also what it has claimed and River has not fetched. It would be EXECUTING
// until another node leads.
func TestStopLeavesNothingInRiver(t *testing.T) {
	s := newBench(t)
	s.Exec(`CREATE SEQUENCE public.fetches`)
	s.Exec(`CREATE FUNCTION public.nothing() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN PERFORM nextval('public.fetches'); RETURN NULL; END $$`)
	s.Exec(`CREATE TRIGGER nothing BEFORE UPDATE ON tasktable.river_job FOR EACH ROW WHEN (NEW.state = 'running')
		EXECUTE FUNCTION public.nothing()`) // River fetches nothing
	stop := s.node(nil)
	s.Add("due", nil)
	enginetest.Await(t, s.Pool, "due", patience, store.StatusExecuting)
	enginetest.Eventually(t, patience, "River has tried, and has locked nothing", func() bool {
		return s.Count(`SELECT count(*) FROM public.fetches WHERE is_called`) == 1 &&
			s.Count(`SELECT count(*) FROM (SELECT FROM tasktable.river_job FOR UPDATE SKIP LOCKED) AS free`) == 1
	})
	stop()
	if row := s.Is("due", store.StatusQueued, taskdb.OutcomeReleased); row.Attempt != 0 {
		t.Errorf("handed back as attempt %d", row.Attempt)
	}
}

// The worker of a node that stops hands nothing back while a pass of that node is under way, because the pass could
// claim it anew.
func TestStopAwaitsThePass(t *testing.T) {
	s := newBench(t)
	stop := s.node(func(c *Config) { c.LookAhead = 10 * time.Second })
	at := time.Now().Add(9 * time.Second)
	s.Add("waits", func(task *store.Task) { task.At = at })
	enginetest.Await(t, s.Pool, "waits", patience, store.StatusExecuting)
	s.Sees("River has handed it out", `SELECT count(*) = 0 FROM tasktable.river_job WHERE state = 'available'`)
	s.Exec(`CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$`)
	s.Exec(`CREATE TRIGGER slow BEFORE INSERT ON tasktable.scheduled_task_executions FOR EACH ROW
		WHEN (NEW.outcome = 'EXPIRED') EXECUTE FUNCTION public.slow()`)
	s.Add("late", func(task *store.Task) { task.At, task.Expiration = time.Now().Add(-time.Hour), time.Second })
	const passes = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
	enginetest.Eventually(t, patience, "a pass is under way", func() bool { return s.Count(passes) == 1 })
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	const released = `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE task_id = 'waits'`
	for handedBack := false; s.Count(passes) == 1; handedBack = s.Count(released) > 0 {
		if handedBack {
			t.Fatal("a task was handed back while a pass was under way")
		}
	}
	enginetest.Receive(t, stopped, patience, "the node stops")
	s.Is("waits", store.StatusQueued, taskdb.OutcomeReleased)
	s.Is("late", store.StatusExpired, taskdb.OutcomeExpired)
	s.Idle("waits", "late")
}
