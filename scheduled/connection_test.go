package scheduled

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// visitor is a handler that tells when it begins, and ends when it is let go or its context ends.
type visitor struct {
	began chan *handlers.Execution
	let   chan struct{}
	ended chan error // the cause, if it was the context
}

func newVisitor() *visitor {
	return &visitor{began: make(chan *handlers.Execution, 100), let: make(chan struct{}), ended: make(chan error, 100)}
}

func (v *visitor) handle(ctx context.Context, t *handlers.Task[enginetest.Job]) error {
	v.began <- t.Execution
	select {
	case <-v.let:
		return nil
	case <-ctx.Done():
		v.ended <- context.Cause(ctx)
		return ctx.Err()
	}
}

func TestKilledSessionBeginsAgain(t *testing.T) {
	f := newField(t)
	v := newVisitor()
	startNode(t, f.nodePool(), nil, handlers.Handle(v.handle))
	receipt := enginetest.Schedule(t, f.pool, store.Task{Payload: enginetest.Job{Name: "a"}})
	first := enginetest.Receive(t, v.began, patience, "the task runs")
	old, _ := f.leading()

	begin := time.Now()
	if n := f.cut("tasktable session"); n != 1 {
		t.Fatalf("%d sessions", n)
	}
	if cause := enginetest.Receive(
		t, v.ended, patience, "the handler's context ends",
	); !errors.Is(cause, handlers.ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	t.Logf("the handler's context ended after %s", time.Since(begin))
	again := enginetest.Receive(t, v.began, patience, "the task runs again")
	t.Logf("the task ran again after %s", time.Since(begin))
	close(v.let)
	row := enginetest.Await(t, f.pool, receipt.ID, patience, store.StatusCompleted)
	if got := enginetest.Outcomes(t, f.pool, receipt.ID); fmt.Sprint(got) != "[INTERRUPTED COMPLETED]" ||
		row.Attempt != 1 ||
		again.Fence == first.Fence {
		t.Errorf("history %v, attempt %d, fences %d and %d", got, row.Attempt, first.Fence, again.Fence)
	}
	if number, _ := f.leading(); number <= old {
		t.Errorf("node %d leads, it was node %d", number, old)
	}
	f.until(
		patience, "the old number is marked dead",
		`SELECT dead_at IS NOT NULL FROM tasktable.nodes WHERE number = $1`, old,
	)
	f.never("a River job is left", `SELECT count(*) FROM tasktable.river_job WHERE state IN ('available', 'running')`)
	if len(v.began) != 0 {
		t.Error("the task ran once more")
	}
}

// TestCutEngineConnectionsLoseNothing ends all connections but the session, again and again, under load.
func TestCutEngineConnectionsLoseNothing(t *testing.T) {
	f := newField(t)
	stop := startNode(
		t, f.nodePool(), nil, handlers.Handle(func(ctx context.Context, _ *handlers.Task[enginetest.Job]) error {
			_, err := f.pool.Exec(ctx, "SELECT pg_sleep(0.01)")
			return err
		}),
	)
	const n = 1500
	var list []store.Task
	for i := range n {
		list = append(list, store.Task{Payload: enginetest.Job{Name: fmt.Sprint(i)}})
	}
	if _, err := enginetest.Tasks.ScheduleMany(t.Context(), f.pool, list); err != nil {
		t.Fatal(err)
	}
	cut, completed := 0, 0
	enginetest.Eventually(t, 60*time.Second, "all are completed", func() bool {
		if now := f.count(`SELECT count(*) FROM tasktable.scheduled_tasks
			WHERE status = 'COMPLETED'`); now > completed+50 {
			completed = now
			cut += f.cut("tasktable engine") + f.cut("tasktable listener")
		}
		return f.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`) == n
	})
	t.Logf("%d connections cut", cut)
	f.never("a task is recorded as completed not once", notCompletedOnceSQL)
	// Where River could not fetch for two seconds, claims go back.
	f.never("an attempt has another outcome", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE outcome NOT IN ('COMPLETED', 'RELEASED')`)
	if n := f.count(`SELECT count(*) FROM tasktable.nodes`); n != 1 {
		t.Errorf("%d nodes, though the session was left alone", n)
	}
	// Where a connection was cut while a finished job was removed, the leader removes it when it cleans
	// up, each 10 seconds.
	f.until(30*time.Second, "no River job is left", `SELECT count(*) = 0 FROM tasktable.river_job`)
	stop()
	f.nothingLeft()
}

// deafConn is a connection on which the node cannot listen for what is due, while it is told so.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c *deafConn) Write(packet []byte) (int, error) {
	if c.deaf.Load() && bytes.Contains(packet, []byte(`LISTEN "tasktable.wake"`)) {
		return 0, errors.New("deaf")
	}
	return c.Conn.Write(packet)
}

// TestDeafNodeStartsTasksWithinASecondOrTwo has no listener for a while: NOTIFY is lost.
func TestDeafNodeStartsTasksWithinASecondOrTwo(t *testing.T) {
	f := newField(t)
	limit := enginetest.Limits(t, f.pool)
	pool := f.nodePool()
	var deaf atomic.Bool
	deaf.Store(true)
	settings := pool.Config().ConnConfig.Copy()
	settings.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &deafConn{conn, &deaf}, nil
	}
	began := make(chan string, 100)
	startNode(t, pool, func(c *Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, settings.Copy()) }
	}, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		began <- task.Payload.Name
		return nil
	}))
	own := store.New(store.Config{Service: "test"}) // the others' share one, and with it how often it may notify
	start := func(name string) time.Duration {
		t.Helper()
		begin := time.Now()
		if _, err := own.Schedule(t.Context(), f.pool, store.Task{Payload: enginetest.Job{Name: name}}); err != nil {
			t.Fatal(err)
		}
		enginetest.Receive(t, began, patience, "the task runs")
		return time.Since(begin)
	}
	start("first")
	var worst time.Duration
	for i := range 4 {
		worst = max(worst, start(fmt.Sprintf("deaf-%d", i)))
	}
	t.Logf("without a listener tasks start within %s", worst)
	if worst > limit(2500*time.Millisecond) {
		t.Errorf("without a listener a task started after %s", worst)
	}
	deaf.Store(false)
	f.until(patience, "the node listens", `SELECT count(*) = 1 FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'tasktable listener'`)
	if took := start("heard"); took > limit(time.Second) {
		t.Errorf("with a listener a task started after %s", took)
	}
}

func TestCutListenerComesBack(t *testing.T) {
	f := newField(t)
	limit := enginetest.Limits(t, f.pool)
	began := make(chan string, 100)
	startNode(
		t, f.nodePool(), nil,
		handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
			began <- task.Payload.Name
			return nil
		}),
	)
	const listeners = `SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()
		AND application_name = 'tasktable listener' AND query LIKE '%LISTEN%' AND NOT pid = ANY ($1)`
	f.until(patience, "the node listens", listeners, []int32{})
	var worst time.Duration
	for i := range 3 {
		was := f.connections("tasktable listener")
		f.cut("tasktable listener")
		begin := time.Now()
		enginetest.Schedule(t, f.pool, store.Task{Payload: enginetest.Job{Name: fmt.Sprint(i)}})
		enginetest.Receive(t, began, patience, "the task runs")
		worst = max(worst, time.Since(begin))
		f.until(patience, "the node listens again", listeners, was)
	}
	t.Logf("tasks scheduled right after the listener was cut start within %s", worst)
	if worst > limit(2500*time.Millisecond) {
		t.Errorf("a task started after %s", worst)
	}
	if n := f.count(`SELECT count(*) FROM tasktable.nodes`); n != 1 {
		t.Errorf("%d nodes: the listener's end is not the node's", n)
	}
}

// TestStoppedNodeSaysGoodbye stops a node that leads and has nothing to do, far from its database: the stop comes
// while the session waits for an answer.
func TestStoppedNodeSaysGoodbye(t *testing.T) {
	f := newField(t)
	w := enginetest.NewWire()
	w.Delay = 20 * time.Millisecond
	for range 3 {
		stop := startNode(t, f.overWire(w), nil, handlers.Handle(newVisitor().handle))
		enginetest.Eventually(t, patience, "the node leads", func() bool {
			number, _ := f.leading()
			return number > 0
		})
		f.until(patience, "the node listens", `SELECT count(*) = 1 FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'tasktable listener'`)
		stop()
		f.nothingLeft()
	}
}

// TestFetchedButNeverWorkedJobIsReleased has River's answer to a fetch lost on its way: the job runs by River's
// account, and nobody has it. The claim goes back within seconds, however long its lease, and no attempt is used,
// because the task has not begun.
func TestFetchedButNeverWorkedJobIsReleased(t *testing.T) {
	f := newField(t)
	v := newVisitor()
	startNode(t, f.nodePool(), nil, handlers.Handle(v.handle))
	runs := enginetest.Schedule(t, f.pool, store.Task{
		Payload: enginetest.Job{Name: "runs"}, ExpectedExecutionTime: time.Minute,
	})
	enginetest.Receive(t, v.began, patience, "a task runs")
	number, _ := f.leading()
	// As the fetch would have left it: a job of this node's, which it never heard of.
	at := time.Now().Add(15 * time.Second).Truncate(time.Microsecond)
	stray := enginetest.Schedule(t, f.pool, store.Task{Payload: enginetest.Job{Name: "stray"}, At: at, MaxAttempts: 1})
	f.exec(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = 1, fence = 1000000,
		lease_expires_at = now() + interval '3 hours',
		next_attempt_at = NULL WHERE id = $1`, stray.ID)
	f.exec(`INSERT INTO tasktable.river_job (args, metadata, kind, queue, state, max_attempts, attempt, attempted_at,
		attempted_by, priority)
		SELECT jsonb_build_object('tasks', $2::text), '{"tasks": 1}', 'JOB', 'default', 'running', 1, 1, now(),
			ARRAY[$1::text], 3`,
		taskdb.ClientID(number),
		riverjobs.EncodeClaims([]taskdb.Claim{{
			ID: stray.ID, Fence: 1000000, Revision: stray.Revision, Attempt: 1, Due: at,
		}}))
	f.until(patience, "the stray claim is released", `SELECT count(*) = 1 FROM tasktable.scheduled_task_executions
		WHERE fence = 1000000`)
	if again := enginetest.Receive(t, v.began, patience, "the task runs"); again.ID != stray.ID ||
		again.Attempt != 1 {
		t.Errorf("task %s runs as attempt %d", again.ID, again.Attempt)
	}
	close(v.let)
	enginetest.Await(t, f.pool, stray.ID, patience, store.StatusCompleted)
	if got := fmt.Sprint(enginetest.Outcomes(t, f.pool, stray.ID)); got != "[COMPLETED RELEASED]" { // by their fences
		t.Errorf("history %s", got)
	}
	enginetest.Await(t, f.pool, runs.ID, patience, store.StatusCompleted)
	if got := fmt.Sprint(enginetest.Outcomes(t, f.pool, runs.ID)); got != "[COMPLETED]" { // it was in hand all the time
		t.Errorf("history %s of the task that ran", got)
	}
	f.until(patience, "no River job takes room for ever", `SELECT count(*) = 0 FROM tasktable.river_job`)
}
