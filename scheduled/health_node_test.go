package scheduled

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func doNothing(context.Context, *handlers.Task[enginetest.Job]) error { return nil }

func (f *bench) ready(n *Node, within time.Duration) {
	f.T.Helper()
	enginetest.Eventually(f.T, within, "the node is ready", func() bool { return n.Ready().OK })
}

// failing waits until the first check that is not OK is the one named, and watches that the node stays live.
func (f *bench) failing(n *Node, within time.Duration, name string) {
	f.T.Helper()
	enginetest.Eventually(f.T, within, name+" is not OK", func() bool {
		if live := n.Live(); !live.OK {
			f.T.Fatalf("the node is not live: %s", said(live))
		}
		for _, check := range n.Ready().Checks {
			if !check.OK {
				return check.Name == name
			}
		}
		return false
	})
}

// A node that is cut off is not ready, and is again when it has come back. It stays live: a restart would not
// mend the network.
func TestCutOffNodeIsNotReady(t *testing.T) {
	f := newBench(t)
	limit := enginetest.Limits(t, f.Pool)
	w := enginetest.NewWire()
	node, stop := runNode(t, f.overWire(w), nil, handlers.Handle(doNothing))
	f.ready(node, patience)
	begin := time.Now()
	w.Cut()
	f.failing(node, patience, CheckSession)
	t.Logf("not ready %s after the cut", time.Since(begin))
	if took := time.Since(begin); took < 2*time.Second || took > limit(4500*time.Millisecond) { // 3 s without an answer
		t.Errorf("not ready %s after the cut", took)
	}
	if !node.Live().OK {
		t.Error("not live")
	}
	begin = time.Now()
	w.Mend()
	f.ready(node, patience)
	t.Logf("ready %s after the wire was mended", time.Since(begin))
	stop()
	if got := said(node.Ready()); got == "" || !node.Live().OK {
		t.Errorf("after its end: %s", got)
	}
}

// Without its listener a node is not ready, though its session lives.
func TestDeafNodeIsNotReady(t *testing.T) {
	f := newBench(t)
	pool := f.nodes
	var refused atomic.Bool
	node, _ := runNode(t, pool, func(c *Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			if refused.Load() {
				return nil, errors.New("refused")
			}
			return pgx.ConnectConfig(ctx, pool.Config().ConnConfig.Copy())
		}
	}, handlers.Handle(doNothing))
	f.ready(node, patience)
	refused.Store(true)
	if n := f.end("tasktable listener"); n != 1 {
		t.Fatalf("%d listeners", n)
	}
	f.failing(node, patience, CheckListener)
	refused.Store(false)
	f.ready(node, patience)
}

// onItsOwn marks the context of connections that do not go over the wire.
type onItsOwn struct{}

// TestStoppingNodeIsNotReady holds a stop up by a task that runs.
func TestStoppingNodeIsNotReady(t *testing.T) {
	f := newBench(t)
	v := newVisitor()
	node, stop := runNode(t, f.nodes, nil, handlers.Handle(v.handle))
	receipt := enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: "a"}})
	enginetest.Receive(t, v.began, patience, "the task runs")
	f.ready(node, patience)
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	f.failing(node, patience, CheckNode)
	if got := node.Ready().Checks; got[0].Reason != reasonStopping || !got[1].OK {
		t.Errorf("while it stops: %+v", got)
	}
	close(v.let)
	enginetest.Receive(t, stopped, patience, "the node stops")
	enginetest.Await(t, f.Pool, receipt.ID, patience, store.StatusCompleted)
}

// Handlers that ignore their contexts keep their slots after their claims are over. The node says so in its metrics and
// in its row, and when they have all slots of a queue, it is not live. When they return, it is again.
func TestHandlersThatHang(t *testing.T) {
	s := newBench(t)
	registry := prometheus.NewPedanticRegistry()
	node, _ := runNode(t, s.nodes, func(c *Config) {
		c.Metrics, c.Queues = registry, map[string]int{"default": 2, "other": 2}
		c.StartAllowance, c.ShutdownTimeout, c.hungAfter = time.Second, time.Second, time.Millisecond
	}, handlers.Handle(s.HandleDeaf))
	t.Cleanup(s.LetGo)
	var hung []*enginetest.Attempt
	hang := func(n int) {
		for i := range n {
			name := fmt.Sprint("hangs ", len(hung), i)
			s.Add(name, func(task *store.Task) { task.ExpectedExecutionTime, task.MaxAttempts = time.Second, 1 })
			hung = append(hung, s.Begins(name))
		}
	}
	published := func(want string) {
		t.Helper()
		s.Sees("the row says "+want, fmt.Sprintf(`SELECT hung = '%s' FROM tasktable.nodes`, want))
	}
	hang(1)
	published(`{"JOB": 1}`)
	if live := node.Live(); !live.OK {
		t.Errorf("with one slot left: %+v", live)
	}
	hang(1)
	enginetest.Eventually(t, patience, "the node is not live", func() bool { return !node.Live().OK })
	if got, want := said(node.Live()), "slots: all slots of queue default"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	published(`{"JOB": 2}`)
	if got := enginetest.Scraped(t, registry)["hung_handlers JOB"]; got != 2 {
		t.Errorf("the metric says %v", got)
	}
	for _, one := range hung {
		one.End <- nil
	}
	enginetest.Eventually(t, patience, "the node is live", func() bool { return node.Live().OK })
	published(`{}`)
	s.Add("after", nil)
	s.Begins("after").End <- nil
	enginetest.Await(t, s.Pool, "after", patience, store.StatusCompleted)
}

// enginesWire has the engine's pool of a node go over a wire, and its session and its listener past it.
func (f *bench) enginesWire(w *enginetest.Wire) func(*Config) {
	f.cut = true
	settings := f.nodes.Config().ConnConfig
	direct := settings.DialFunc
	settings.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(onItsOwn{}) != nil {
			return direct(ctx, network, address)
		}
		return w.Dial(ctx, network, address)
	}
	return func(c *Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(context.WithValue(ctx, onItsOwn{}, true), settings.Copy())
		}
	}
}

// A node whose pool does not answer is not ready, though its session lives. When the pool is silent for long, the node
// begins again: it would lead and claim, and run nothing.
func TestNodeWithASilentPoolBeginsAgain(t *testing.T) {
	f := newBench(t)
	limit := enginetest.Limits(t, f.Pool)
	w := enginetest.NewWire()
	t.Cleanup(w.End)
	v := newVisitor()
	node, _ := runNode(t, f.nodes, f.enginesWire(w), handlers.Handle(v.handle))
	f.ready(node, patience)
	first := enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: "a"}})
	enginetest.Receive(t, v.began, patience, "the task runs")
	old := f.leading()
	begin := time.Now()
	w.Cut()
	f.failing(node, patience, CheckDatabase)
	if took := time.Since(begin); took > limit(10*time.Second+session.AnswerLimit+2*time.Second) {
		t.Errorf("not ready %s after the pool was cut off", took)
	}
	t.Logf("not ready %s after the pool was cut off", time.Since(begin))
	if ready := node.Ready(); !ready.Checks[0].OK || !ready.Checks[1].OK {
		t.Errorf("%+v", ready)
	}
	if cause := enginetest.Receive(
		t, v.ended, poolSilent+10*time.Second, "the handler's context ends",
	); !errors.Is(cause, handlers.ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	if took := time.Since(begin); took < poolSilent/2 {
		t.Errorf("it gave up after %s", took)
	}
	w.Mend()
	again := enginetest.Receive(t, v.began, 30*time.Second, "the task runs again")
	close(v.let)
	f.ready(node, patience)
	if number := f.leading(); again.ID != first.ID || number <= old {
		t.Errorf("task %s, node %d after %d", again.ID, number, old)
	}
}

// Connections of the engine's pool that are forgotten, as by a firewall, hold nothing up for long while new ones can be
// made.
func TestForgottenConnectionsAreReplaced(t *testing.T) {
	f := newBench(t)
	w := enginetest.NewWire()
	t.Cleanup(w.End)
	v := newVisitor()
	close(v.let)
	node, _ := runNode(t, f.nodes, f.enginesWire(w), handlers.Handle(v.handle))
	for i := range 20 {
		enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: fmt.Sprint("before ", i)}})
		enginetest.Receive(t, v.began, patience, "a task runs")
	}
	number := f.leading()
	w.Forget()
	begin := time.Now()
	for i := range 20 {
		enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: fmt.Sprint("after ", i)}})
	}
	for range 20 {
		enginetest.Receive(t, v.began, 30*time.Second, "a task runs")
	}
	f.SeesWithin(30*time.Second, "all are completed", completedSQL, 40)
	t.Logf("all ran within %s", time.Since(begin))
	f.ready(node, patience)
	if now := f.leading(); now != number {
		t.Errorf("node %d leads, it was node %d", now, number)
	}
}

// With Connect, the engine's pool asks for the password of the time at which it connects.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	role := storetest.Role(t)
	s := benchOf(t)
	var owner string
	s.OK(s.Pool.QueryRow(t.Context(), "SELECT quote_ident(current_user)").Scan(&owner))
	s.Exec("GRANT " + owner + " TO " + role)
	var password atomic.Value
	password.Store(storetest.RolePassword)
	s.node(func(c *Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			settings := s.Pool.Config().ConnConfig.Copy()
			settings.User, settings.Password = role, password.Load().(string)
			return pgx.ConnectConfig(ctx, settings)
		}
	})
	s.Add("before", nil)
	s.Begins("before").End <- nil
	number := s.Count(`SELECT max(number)::int FROM tasktable.nodes`)
	password.Store("another")
	s.Exec("ALTER ROLE " + role + " PASSWORD 'another'")
	s.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
		AND application_name = 'tasktable engine'`)
	s.Add("after", nil)
	s.Begins("after").End <- nil
	// Perhaps after a fetch that was cut off.
	enginetest.Await(t, s.Pool, "after", patience, store.StatusCompleted)
	if now := s.Count(`SELECT max(number)::int FROM tasktable.nodes`); now != number {
		t.Errorf("node %d began, after node %d", now, number)
	}
}
