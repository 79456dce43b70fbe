package scheduled

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/scheduled/internal/worker"
	"github.com/tasktable/tasktable/store"
)

// member starts a node that the test can make quiet.
func (s *stage) member(change func(*Config)) (node *Node, stop func()) {
	s.t.Helper()
	node, stop = runNode(s.t, s.nodes, change, handlers.Handle(s.handle))
	s.t.Cleanup(s.end)
	return node, stop
}

// sees waits until a query is true.
func (s *stage) sees(what, query string, args ...any) {
	s.t.Helper()
	enginetest.Eventually(s.t, patience, what, func() bool {
		return s.count(`SELECT coalesce((`+query+`), false)::int`, args...) == 1
	})
}

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
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	ahead := func(c *Config) { c.LookAhead = 10 * time.Second }
	first, _ := s.member(ahead)
	s.schedule("runs", nil)
	runs := s.begins("runs")
	due := s.now().Add(4 * time.Second)
	s.schedule("waits", func(task *store.Task) { task.At = due })
	enginetest.Await(t, s.pool, "waits", patience, store.StatusExecuting)
	_, stopSecond := s.member(ahead)
	s.sees("the second node is there", `SELECT count(*) = 2 FROM tasktable.nodes WHERE dead_at IS NULL`)

	first.Quiet()
	first.Quiet()
	s.sees("what waits is handed back before its time",
		`SELECT EXISTS (SELECT 1 FROM tasktable.scheduled_task_executions WHERE task_id = 'waits'
			AND outcome = 'RELEASED' AND finished_at < $1)`, due)
	s.sees("the node works nothing", worksNothingSQL, 1)
	s.sees("the other leads", leadsLastSQL, 2)
	if health := first.Ready(); !health.OK || health.Checks[0].Reason != reasonQuiet {
		t.Errorf("%+v", health)
	}
	for i := range 20 {
		s.schedule(fmt.Sprint(i), nil)
		s.begins(fmt.Sprint(i)).end <- nil
		s.is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	if n := s.count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE node = 1
		AND outcome = 'COMPLETED'`); n != 0 {
		t.Errorf("the quiet node has run %d tasks", n)
	}
	waits := s.begins("waits")
	waits.end <- nil
	if row := s.is("waits", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted); row.Attempt != 1 ||
		waits.StartedAt.Sub(due) > limit(time.Second) {
		t.Errorf("attempt %d, %s late", row.Attempt, waits.StartedAt.Sub(due))
	}
	runs.end <- nil
	s.is("runs", store.StatusCompleted, taskdb.OutcomeCompleted)
	if s.count(ranBySQL, "runs", 1) != 1 || s.count(ranBySQL, "waits", 2) != 1 {
		t.Error("what ran was not finished by the quiet node, or what waited not run by the other")
	}

	first.Unquiet()
	stopSecond()
	s.sees("the first leads again", leadsLastSQL, 1)
	s.schedule("after", nil)
	s.begins("after").end <- nil
	s.is("after", store.StatusCompleted, taskdb.OutcomeCompleted)
	if health := first.Ready(); !health.OK || health.Checks[0].Reason != "" {
		t.Errorf("%+v", health)
	}
	first.Quiet() // and so it stops
}

// A node may be quiet before it begins, and stays so when it loses its session. Alone, it leaves what is
// due where it is.
func TestQuietNodeAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cut = true
	registry, err := handlers.NewRegistry(handlers.Handle(s.handle))
	if err != nil {
		t.Fatal(err)
	}
	node, err := New(Config{Pool: s.nodes, Handlers: registry, Logger: enginetest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	node.Quiet()
	keepRunning(t, node)
	t.Cleanup(s.end)
	s.sees("it is there, and works nothing", worksNothingSQL, 1)
	s.schedule("a", nil)
	s.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()
		AND application_name LIKE 'tasktable session%'`)
	s.sees("it is there again, and works nothing", worksNothingSQL, 2)
	s.passes(s.now().Add(2500 * time.Millisecond)) // two ticks
	if row := enginetest.Await(t, s.pool, "a", patience, store.StatusQueued); row.Attempt != 0 || row.Fence != nil {
		t.Errorf("claimed: %+v", row)
	}
	s.sees("nobody works it", `SELECT count(*) = 1 FROM tasktable.late_tasks WHERE NOT has_node`)
	node.Unquiet()
	s.begins("a").end <- nil
	s.is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
}

// What River has for a quiet node stays there, and is taken up as soon as the node is no longer quiet.
func TestQuietNodeFetchesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	tr := s.prepare(nil, handlers.Handle(s.handle))
	s.schedule("a", nil)
	tr.turn()
	if found, err := tr.leader.Pass(t.Context()); err != nil || found.Claimed != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	tr.instance.quiet.Set(true)
	tr.run()
	s.sees("the node works nothing", worksNothingSQL, 1)
	s.passes(s.now().Add(time.Second))
	if n := s.count(`SELECT count(*) FROM tasktable.river_job WHERE state = 'available'`); n != 1 {
		t.Errorf("%d jobs are left", n)
	}
	tr.instance.quiet.Set(false)
	s.begins("a").end <- nil
	enginetest.Await(t, s.pool, "a", patience, store.StatusCompleted)
	// If it waited for longer than two seconds, it went back first.
	if history := fmt.Sprint(enginetest.Outcomes(t, s.pool, "a")); history != "[COMPLETED]" &&
		history != "[RELEASED COMPLETED]" {
		t.Errorf("history %s", history)
	}
}

// What waits for a slot goes back at once, though what has the slot goes on.
func TestQuietNodeHandsBackWhatWaitsForASlot(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	tr := s.prepare(func(c *Config) { c.Queues = map[string]int{"default": 1} }, handlers.Handle(s.handle))
	for _, id := range []string{"1", "2", "3"} {
		s.schedule(id, nil)
	}
	tr.oneBatch("default", 3)
	tr.run()
	first := s.begins("1")
	enginetest.Eventually(t, patience, "the others wait for a slot", func() bool {
		return tr.worker.Slots.Waiting("default") > 0
	})
	tr.instance.quiet.Set(true)
	for _, id := range []string{"2", "3"} {
		if row := s.is(id, store.StatusQueued, taskdb.OutcomeReleased); row.Attempt != 0 ||
			s.errorOf(id) != "the node is quiet" {
			t.Errorf("%s is at attempt %d: %s", id, row.Attempt, s.errorOf(id))
		}
	}
	first.end <- nil
	s.is("1", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.idle("2", "3")
}

// What waits for its transaction when the node becomes quiet does not start once it has one.
func TestQuietNodeStartsNoTransaction(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	tr := s.prepare(
		nil,
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[enginetest.Job]) error {
			return s.handle(ctx, task)
		}),
	)
	s.schedule("a", nil)
	tr.oneBatch("default", 1)
	release := s.exhaust()
	tr.run()
	enginetest.Eventually(t, patience, "its attempt begins", func() bool {
		held := tr.worker.InHand(0)
		return len(held) == 1 && held[0].Begun()
	})
	s.passes(time.Now().Add(worker.GateValid + 50*time.Millisecond)) // by then the first gate's answer is too old
	tr.instance.quiet.Set(true)
	release()
	enginetest.Eventually(t, patience, "it goes back because the node is quiet", func() bool {
		return s.errorOf("a") == "the node is quiet"
	})
	// On a busy machine it may have gone back before, for want of a connection.
	if row := s.is("a", store.StatusQueued, enginetest.Outcomes(t, s.pool, "a")...); row.Attempt != 0 ||
		slices.Contains(enginetest.Outcomes(t, s.pool, "a"), taskdb.OutcomeCompleted) {
		t.Errorf("attempt %d: %v", row.Attempt, enginetest.Outcomes(t, s.pool, "a"))
	}
	s.idle("a")
}
