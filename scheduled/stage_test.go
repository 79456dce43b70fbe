package scheduled

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

const patience = enginetest.Patience

// stage is a database with nodes of this process, whose handlers the test steers run by run.
type stage struct {
	t     *testing.T
	pool  *pgxpool.Pool // the test's
	nodes *pgxpool.Pool // its nodes' and their handlers'
	tasks *store.Store  // its own: the debounce of its notifications is not shared with other tests

	mu   sync.Mutex
	acts map[string]chan *act
	over chan struct{} // closed before the nodes stop: no run is waited for any more
	cut  bool          // sessions have been cut: it takes some seconds until all that was theirs is cleared away
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		t: t, pool: storetest.Pool(t), tasks: store.New(store.Config{Service: "test"}), acts: map[string]chan *act{},
		over: make(chan struct{}),
	}
	var err error
	if s.nodes, err = pgxpool.NewWithConfig(context.Background(), s.pool.Config()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nodes.Close)
	t.Cleanup(s.nothingIsLeft) // after the nodes have stopped: they are started later
	return s
}

// node starts a node until the test ends.
func (s *stage) node(change func(*Config), parts ...handlers.Part) (stop func()) {
	s.t.Helper()
	if len(parts) == 0 {
		parts = []handlers.Part{handlers.Handle(s.handle)}
	}
	stop = startNode(s.t, s.nodes, func(c *Config) {
		c.Backoff = func(int, error) time.Duration { return 10 * time.Millisecond }
		if change != nil {
			change(c)
		}
	}, parts...)
	s.t.Cleanup(s.end)
	return stop
}

// nobodyLeads keeps the leader's lock from all nodes until the test ends.
func (s *stage) nobodyLeads() {
	s.t.Helper()
	conn, err := s.pool.Acquire(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Conn().Close(context.Background()); conn.Release() })
	if _, err := conn.Exec(
		s.t.Context(), "SELECT pg_advisory_lock($1, 0)", pg.LockClass("tasktable", "leader"),
	); err != nil {
		s.t.Fatal(err)
	}
}

// end lets go of all runs.
func (s *stage) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// nothingIsLeft looks for what nodes that have stopped must not leave: held tasks, River jobs to be done, themselves.
func (s *stage) nothingIsLeft() {
	if s.t.Failed() {
		return // then there may well be something
	}
	for what, sql := range map[string]string{
		"held tasks": `SELECT string_agg(id || ' ' || status || ' ' || lease_expires_at, ', ')
			FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL OR status = 'EXECUTING'`,
		"River jobs": `SELECT string_agg(state || ' ' || kind || ' ' || (args ->> 'tasks'), ', ')
			FROM tasktable.river_job WHERE state NOT IN ('completed', 'cancelled', 'discarded')`,
		"live nodes": `SELECT string_agg(number::text, ', ') FROM tasktable.nodes WHERE dead_at IS NULL`,
	} {
		if what != "held tasks" && s.cut {
			continue
		}
		var left *string
		if err := s.pool.QueryRow(context.Background(), sql).Scan(&left); err != nil {
			s.t.Error(err)
		} else if left != nil {
			s.t.Errorf("%s are left: %s", what, *left)
		}
	}
}

func (s *stage) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// count is the number that a query returns.
func (s *stage) count(sql string, args ...any) int {
	s.t.Helper()
	var n int
	if err := s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// schedule schedules a task under its name as id.
func (s *stage) schedule(name string, change func(*store.Task)) store.Receipt {
	s.t.Helper()
	task := store.Task{ID: name, Payload: enginetest.Job{Name: name}}
	if change != nil {
		change(&task)
	}
	receipt, err := s.tasks.Schedule(s.t.Context(), s.pool, task)
	if err != nil {
		s.t.Fatal(err)
	}
	return receipt
}

// act is one run of a handler that the test steers.
type act struct {
	*handlers.Task[enginetest.Job]
	ctx context.Context
	end chan error
}

// handle tells the test that a run has begun, and ends it as the test says, or when its context ends.
func (s *stage) handle(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
	a := s.enter(ctx, task)
	select {
	case err := <-a.end:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return errOver
	}
}

// errOver is what runs return that nobody waits for any more.
var errOver = errors.New("the test is over")

// handleDeaf is handle for a handler that does not mind its context.
func (s *stage) handleDeaf(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
	select {
	case err := <-s.enter(ctx, task).end:
		return err
	case <-s.over:
		return errOver
	}
}

func (s *stage) enter(ctx context.Context, task *handlers.Task[enginetest.Job]) *act {
	a := &act{Task: task, ctx: ctx, end: make(chan error, 1)}
	s.of(task.ID) <- a
	return a
}

func (s *stage) of(id string) chan *act {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acts[id] == nil {
		s.acts[id] = make(chan *act, 1000)
	}
	return s.acts[id]
}

// begins waits for the next run of a task.
func (s *stage) begins(id string) *act {
	s.t.Helper()
	return enginetest.Receive(s.t, s.of(id), patience, "task "+id+" begins")
}

// idle fails the test if a task has runs that nobody waited for.
func (s *stage) idle(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		if n := len(s.of(id)); n != 0 {
			s.t.Errorf("task %s has run %d times more than it should", id, n)
		}
	}
}

// ends waits for a run's context to end, and returns why it did.
func (a *act) ends(t *testing.T, within time.Duration) error {
	t.Helper()
	enginetest.Receive(t, a.ctx.Done(), within, "the context of task "+a.ID+" ends")
	return context.Cause(a.ctx)
}

// is waits for a task to be in a status and not held, and compares its history.
func (s *stage) is(id string, status store.Status, history ...string) store.Row {
	s.t.Helper()
	var row store.Row
	enginetest.Eventually(s.t, patience, fmt.Sprintf("task %s is %s and free", id, status), func() bool {
		var err error
		row, err = enginetest.Tasks.Get(s.t.Context(), s.pool, id)
		return err == nil && row.Status == status && row.Fence == nil
	})
	if got := enginetest.Outcomes(s.t, s.pool, id); strings.Join(got, " ") != strings.Join(history, " ") {
		s.t.Errorf("task %s is %s with the history %v, want %v; last error: %s",
			id, row.Status, got, history, s.errorOf(id))
	}
	return row
}

// ends is as is, for a task with one line of history. It leaves out lines that say that the task went back to the queue
// before it began, because a node on a busy machine hands tasks back that have waited for a second.
func (s *stage) ends(id string, status store.Status, outcome string) {
	s.t.Helper()
	enginetest.Await(s.t, s.pool, id, patience, status)
	history := slices.DeleteFunc(enginetest.Outcomes(s.t, s.pool, id), func(outcome string) bool {
		return outcome == taskdb.OutcomeReleased
	})
	if !slices.Equal(history, []string{outcome}) {
		s.t.Errorf("task %s is %s with the history %v, want %s; last error: %s",
			id, status, history, outcome, s.errorOf(id))
	}
}

// errorOf is the error in the last line of a task's history.
func (s *stage) errorOf(id string) string {
	s.t.Helper()
	history, err := enginetest.Tasks.History(s.t.Context(), s.pool, id)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(history.Executions) == 0 {
		return ""
	}
	return taskdb.TextOf(history.Executions[len(history.Executions)-1].Error)
}

// troupe is a node that has not begun to run, so that the test can prepare its parts.
type troupe struct {
	*stage
	*instance
	done chan error
}

// prepare makes a node that leads, claims nothing yet, and stops when the test ends.
func (s *stage) prepare(change func(*Config), parts ...handlers.Part) *troupe {
	s.t.Helper()
	registry, err := handlers.NewRegistry(parts...)
	if err != nil {
		s.t.Fatal(err)
	}
	config := Config{Pool: s.nodes, Handlers: registry, Service: "test", Logger: enginetest.Logger()}
	config.Backoff = func(int, error) time.Duration { return 10 * time.Millisecond }
	if change != nil {
		change(&config)
	}
	node, err := New(config)
	if err != nil {
		s.t.Fatal(err)
	}
	life, err := node.begin(s.t.Context(), &sync.WaitGroup{})
	if err != nil {
		s.t.Fatal(err)
	}
	// Nobody pings before the node runs, and a busy machine may take long until then.
	if _, err := life.session.Conn.Exec(s.t.Context(), "SET idle_session_timeout = 0"); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { // also of a node that never runs
		life.worker.Finish()
		life.worker.AwaitEnd()
	})
	return &troupe{stage: s, instance: life, done: make(chan error, 1)}
}

// turn has the node make a turn of its loop, with which it leads.
func (tr *troupe) turn() {
	tr.t.Helper()
	due, death := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	defer due.Stop()
	defer death.Stop()
	if _, err := tr.leader.Turn(tr.t.Context(), false, due, death); err != nil || !tr.session.Leads() {
		tr.t.Fatalf("leads: %t, %v", tr.session.Leads(), err)
	}
}

// turns has the node make turns of its loop until it leads and has seen all that is there.
func (tr *troupe) turns() {
	tr.t.Helper()
	enginetest.Eventually(tr.t, patience, "the leader has seen all that is there", func() bool {
		ready := tr.session.Leads() // the turn that follows knows the nodes
		tr.turn()
		return ready
	})
}

// run begins the node's work; it stops when the test ends.
func (tr *troupe) run() {
	ctx, cancel := context.WithCancel(context.Background())
	_ = tr.session.Ping(ctx) // it may be long since the node was prepared
	go func() { tr.done <- tr.instance.run(ctx) }()
	tr.t.Cleanup(func() {
		cancel()
		if err := <-tr.done; err != nil {
			tr.t.Errorf("node: %v", err)
		}
	})
	tr.t.Cleanup(tr.end)
}

// oneBatch claims all that is due and hands it to River as a single job, in the order of the ids.
func (tr *troupe) oneBatch(queue string, n int) {
	tr.t.Helper()
	err := pgx.BeginFunc(tr.t.Context(), tr.stage.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(tr.t.Context(), taskdb.EnterSQL); err != nil {
			return err
		}
		lane := taskdb.LaneQuota{Lane: taskdb.Lane{Queue: queue, Type: "JOB"}, Room: n, Slots: 1}
		taken, err := tr.statements.Claim(tr.t.Context(), tx, nil, 0, time.Minute, []taskdb.LaneQuota{lane}, n)
		if err != nil {
			return err
		}
		var holds []taskdb.Claim
		for _, c := range taken {
			holds = append(holds, c.Claim())
		}
		if len(holds) != n {
			return fmt.Errorf("claimed %d tasks, want %d", len(holds), n)
		}
		_, err = tr.river.InsertManyFastTx(tr.t.Context(), tx, []river.InsertManyParams{
			riverjobs.JobOf(queue, "JOB", 0, 0, holds),
		})
		return err
	})
	if err != nil {
		tr.t.Fatal(err)
	}
}
