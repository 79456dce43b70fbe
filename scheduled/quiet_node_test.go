package scheduled

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const (
	worksNothingSQL = `SELECT state = 'quiet' AND queues = '{}' AND types = '{}' FROM tasktable.node_states
		WHERE number = $1`
	leadsLastSQL = `SELECT number = $1 FROM tasktable.nodes WHERE elected_at IS NOT NULL
		ORDER BY elected_at DESC LIMIT 1`
	ranBySQL = `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE task_id = $1 AND outcome = 'COMPLETED'
		AND node = $2`
)

// A quiet leader lets another lead, hands back what it has not begun, and finishes what runs. Nothing
// else is late for it.
func TestQuietNodeLeavesTheWorkToOthers(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	ahead := func(c *Config) { c.LookAhead = 10 * time.Second }
	first, _ := s.member(ahead)
	s.Add("runs", nil)
	runs := s.Begins("runs")
	due := s.Now().Add(4 * time.Second)
	s.Add("waits", func(task *store.Task) { task.At = due })
	enginetest.Await(t, s.Pool, "waits", patience, store.StatusExecuting)
	_, stopSecond := s.member(ahead)
	s.Sees("the second node is there", `SELECT count(*) = 2 FROM tasktable.nodes WHERE dead_at IS NULL`)

	first.Quiet()
	first.Quiet()
	s.Sees("what waits is handed back before its time",
		`SELECT EXISTS (SELECT 1 FROM tasktable.scheduled_task_executions WHERE task_id = 'waits'
			AND outcome = 'RELEASED' AND finished_at < $1)`, due)
	s.Sees("the node works nothing", worksNothingSQL, 1)
	s.Sees("the other leads", leadsLastSQL, 2)
	if health := first.Ready(); !health.OK || health.Checks[0].Reason != reasonQuiet {
		t.Errorf("%+v", health)
	}
	for i := range 20 {
		s.Add(fmt.Sprint(i), nil)
		s.Begins(fmt.Sprint(i)).End <- nil
		s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	if n := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE node = 1
		AND outcome = 'COMPLETED'`); n != 0 {
		t.Errorf("the quiet node has run %d tasks", n)
	}
	waits := s.Begins("waits")
	waits.End <- nil
	if row := s.Is("waits", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted); row.Attempt != 1 ||
		waits.StartedAt.Sub(due) > limit(time.Second) {
		t.Errorf("attempt %d, %s late", row.Attempt, waits.StartedAt.Sub(due))
	}
	runs.End <- nil
	s.Is("runs", store.StatusCompleted, taskdb.OutcomeCompleted)
	if s.Count(ranBySQL, "runs", 1) != 1 || s.Count(ranBySQL, "waits", 2) != 1 {
		t.Error("what ran was not finished by the quiet node, or what waited not run by the other")
	}

	first.Unquiet()
	stopSecond()
	s.Sees("the first leads again", leadsLastSQL, 1)
	s.Add("after", nil)
	s.Begins("after").End <- nil
	s.Is("after", store.StatusCompleted, taskdb.OutcomeCompleted)
	if health := first.Ready(); !health.OK || health.Checks[0].Reason != "" {
		t.Errorf("%+v", health)
	}
	first.Quiet() // and so it stops
}

// A node may be quiet before it begins, and stays so when it loses its session. Alone, it leaves what is
// due where it is.
func TestQuietNodeAlone(t *testing.T) {
	s := newBench(t)
	s.cut = true
	registry, err := handlers.NewRegistry(handlers.Handle(s.Handle))
	s.OK(err)
	node, err := New(Config{Pool: s.nodes, Handlers: registry, Logger: enginetest.Logger()})
	s.OK(err)
	node.Quiet()
	keepRunning(t, node)
	t.Cleanup(s.LetGo)
	s.Sees("it is there, and works nothing", worksNothingSQL, 1)
	s.Add("a", nil)
	s.Count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()
		AND application_name LIKE 'tasktable session%'`)
	s.Sees("it is there again, and works nothing", worksNothingSQL, 2)
	s.Passes(s.Now().Add(2500 * time.Millisecond)) // two ticks
	if row := enginetest.Await(t, s.Pool, "a", patience, store.StatusQueued); row.Attempt != 0 || row.Fence != nil {
		t.Errorf("claimed: %+v", row)
	}
	s.Sees("nobody works it", `SELECT count(*) = 1 FROM tasktable.late_tasks WHERE NOT has_node`)
	node.Unquiet()
	s.Begins("a").End <- nil
	s.Is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
}

// What River has for a quiet node stays there, and is taken up as soon as the node is no longer quiet.
func TestQuietNodeFetchesNothing(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	s.Add("a", nil)
	tr.oneBatch("default", 1)
	tr.quiet.Set(true)
	tr.run()
	s.Sees("the node works nothing", worksNothingSQL, 1)
	s.Passes(s.Now().Add(time.Second))
	s.Counts("jobs are left", 1, `SELECT count(*) FROM tasktable.river_job WHERE state = 'available'`)
	tr.quiet.Set(false)
	s.Begins("a").End <- nil
	enginetest.Await(t, s.Pool, "a", patience, store.StatusCompleted)
	// If it waited for longer than two seconds, it went back first.
	if history := fmt.Sprint(enginetest.Outcomes(t, s.Pool, "a")); history != "[COMPLETED]" &&
		history != "[RELEASED COMPLETED]" {
		t.Errorf("history %s", history)
	}
}
