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
	"github.com/tasktable/tasktable/scheduled/internal/pg"
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
	f := newBench(t)
	v := newVisitor()
	startNode(t, f.nodes, nil, handlers.Handle(v.handle))
	receipt := enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: "a"}})
	first := enginetest.Receive(t, v.began, patience, "the task runs")
	old := f.leading()

	begin := time.Now()
	if n := f.end("tasktable session"); n != 1 {
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
	row := enginetest.Await(t, f.Pool, receipt.ID, patience, store.StatusCompleted)
	if got := enginetest.Outcomes(t, f.Pool, receipt.ID); fmt.Sprint(got) != "[INTERRUPTED COMPLETED]" ||
		row.Attempt != 1 ||
		again.Fence == first.Fence {
		t.Errorf("history %v, attempt %d, fences %d and %d", got, row.Attempt, first.Fence, again.Fence)
	}
	if number := f.leading(); number <= old {
		t.Errorf("node %d leads, it was node %d", number, old)
	}
	f.Sees("the old number is marked dead",
		`SELECT dead_at IS NOT NULL FROM tasktable.nodes WHERE number = $1`, old,
	)
	f.Never("a River job is left", `SELECT count(*) FROM tasktable.river_job WHERE state IN ('available', 'running')`)
	if len(v.began) != 0 {
		t.Error("the task ran once more")
	}
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
	f := newBench(t)
	limit := enginetest.Limits(t, f.Pool)
	pool := f.nodes
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
		f.Did(own.Schedule(t.Context(), f.Pool, store.Task{Payload: enginetest.Job{Name: name}}))
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
	f.Sees("the node listens", `SELECT count(*) = 1 FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'tasktable listener'`)
	if took := start("heard"); took > limit(time.Second) {
		t.Errorf("with a listener a task started after %s", took)
	}
}

// TestStoppedNodeSaysGoodbye stops a node that leads and has nothing to do, far from its database: the stop comes
// while the session waits for an answer.
func TestStoppedNodeSaysGoodbye(t *testing.T) {
	f := newBench(t)
	w := enginetest.NewWire()
	w.Delay = 20 * time.Millisecond
	for range 3 {
		stop := startNode(t, f.overWire(w), nil, handlers.Handle(newVisitor().handle))
		enginetest.Eventually(t, patience, "the node leads", func() bool {
			number := f.leading()
			return number > 0
		})
		f.Sees("the node listens", `SELECT count(*) = 1 FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'tasktable listener'`)
		stop()
	}
}

// TestFetchedButNeverWorkedJobIsReleased has River's answer to a fetch lost on its way: the job runs by River's
// account, and nobody has it. The claim goes back within seconds, however long its lease, and no attempt is used,
// because the task has not begun.
func TestFetchedButNeverWorkedJobIsReleased(t *testing.T) {
	f := newBench(t)
	v := newVisitor()
	startNode(t, f.nodes, nil, handlers.Handle(v.handle))
	runs := enginetest.Schedule(t, f.Pool, store.Task{
		Payload: enginetest.Job{Name: "runs"}, ExpectedExecutionTime: time.Minute,
	})
	enginetest.Receive(t, v.began, patience, "a task runs")
	number := f.leading()
	// As the fetch would have left it: a job of this node's, which it never heard of.
	at := time.Now().Add(10 * time.Second).Truncate(time.Microsecond)
	stray := enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: "stray"}, At: at, MaxAttempts: 1})
	f.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = 1, fence = 1000000,
		lease_expires_at = now() + interval '3 hours',
		next_attempt_at = NULL WHERE id = $1`, stray.ID)
	f.Exec(`INSERT INTO tasktable.river_job (args, metadata, kind, queue, state, max_attempts, attempt, attempted_at,
		attempted_by, priority)
		SELECT jsonb_build_object('tasks', $2::text), '{"tasks": 1}', 'JOB', 'default', 'running', 1, 1, now(),
			ARRAY[$1::text], 3`,
		taskdb.ClientID(number),
		riverjobs.EncodeClaims([]taskdb.Claim{{
			ID: stray.ID, Fence: 1000000, Revision: stray.Revision, Attempt: 1, Due: at,
		}}))
	f.Sees("the stray claim is released", `SELECT count(*) = 1 FROM tasktable.scheduled_task_executions
		WHERE fence = 1000000`)
	if again := enginetest.Receive(t, v.began, patience, "the task runs"); again.ID != stray.ID ||
		again.Attempt != 1 {
		t.Errorf("task %s runs as attempt %d", again.ID, again.Attempt)
	}
	close(v.let)
	enginetest.Await(t, f.Pool, stray.ID, patience, store.StatusCompleted)
	if got := fmt.Sprint(enginetest.Outcomes(t, f.Pool, stray.ID)); got != "[COMPLETED RELEASED]" { // by their fences
		t.Errorf("history %s", got)
	}
	enginetest.Await(t, f.Pool, runs.ID, patience, store.StatusCompleted)
	if got := fmt.Sprint(enginetest.Outcomes(t, f.Pool, runs.ID)); got != "[COMPLETED]" { // it was in hand all the time
		t.Errorf("history %s of the task that ran", got)
	}
	f.Sees("no River job takes room for ever", `SELECT count(*) = 0 FROM tasktable.river_job`)
}

// What a connection to a server that was made a standby comes to.
const standbySQL = `SET default_transaction_read_only = on`

// A session whose server has become a standby ends, and with it the node's life: the next connects to the primary.
func TestReadOnlySessionEnds(t *testing.T) {
	t.Parallel()
	for name, leads := range map[string]bool{"of the leader": true, "of another": false} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			s.cut = true
			tr := s.prepare(nil, handlers.Handle(s.Handle))
			if leads { // the leader's connection, which is not open yet, finds out
				if err := tr.session.Ask(t.Context(), true); err != nil || !tr.session.Leads() {
					t.Fatalf("leads: %t, %v", tr.session.Leads(), err)
				}
				database := s.Pool.Config().ConnConfig.Database
				s.Exec(`ALTER DATABASE ` + database + ` SET default_transaction_read_only = on`)
			} else if _, err := tr.session.Conn.Exec(t.Context(), standbySQL); err != nil {
				t.Fatal(err)
			}
			if err := tr.instance.run(t.Context()); !errors.Is(err, pg.ErrReadOnly) {
				t.Errorf("the life ends with %v", err)
			}
			if tr.session.Leads() {
				t.Error("it still leads")
			}
		})
	}
}

// A node that is led to a standby finds its way back, and loses nothing.
func TestNodeSurvivesAFailover(t *testing.T) {
	f := newBench(t)
	stop := startNode(
		t, f.nodes, nil,
		handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }),
	)
	const completed = `SELECT coalesce(bool_and(status = 'COMPLETED'), false) FROM tasktable.scheduled_tasks`
	f.Did(enginetest.Tasks.Schedule(t.Context(), f.Pool, store.Task{Payload: enginetest.Job{Name: "first"}}))
	f.Sees("the node works", completed)
	database := f.Pool.Config().ConnConfig.Database
	for round := range 2 {
		f.Exec(`ALTER DATABASE ` + database + ` SET default_transaction_read_only = on`)
		f.end("tasktable")
		f.Did(enginetest.Tasks.Schedule(t.Context(), f.Pool, store.Task{
			Payload: enginetest.Job{Name: fmt.Sprint(round)},
		}))
		f.Sees("no node is at work", `SELECT count(*) = 0 FROM pg_stat_activity
			WHERE application_name LIKE 'tasktable engine%' AND datname = current_database()`)
		f.Exec(`ALTER DATABASE ` + database + ` RESET default_transaction_read_only`)
		f.Sees("all are completed", completed)
	}
	stop()
}
