package scheduled

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/store"
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

// A pool that does not answer makes the node not ready, though its session lives; it is asked again soon.
func TestNodeWithAMutePoolIsNotReady(t *testing.T) {
	f := newBench(t)
	limit := enginetest.Limits(t, f.Pool)
	w := enginetest.NewWire()
	t.Cleanup(w.End)
	node, _ := runNode(t, f.nodes, f.enginesWire(w), handlers.Handle(doNothing))
	f.ready(node, patience)
	w.Cut()
	begin := time.Now()
	f.failing(node, patience, CheckDatabase)
	if took := time.Since(begin); took > limit(10*time.Second+session.AnswerLimit+2*time.Second) {
		t.Errorf("not ready %s after the pool was cut off", took)
	}
	t.Logf("not ready %s after the pool was cut off", time.Since(begin))
	if ready := node.Ready(); !ready.Checks[0].OK || !ready.Checks[1].OK {
		t.Errorf("%+v", ready)
	}
	begin = time.Now()
	w.Mend()
	f.ready(node, patience)
	if took := time.Since(begin); took > limit(session.AnswerLimit+7*time.Second) {
		t.Errorf("ready %s after it was mended", took)
	}
	t.Logf("ready %s after it was mended", time.Since(begin))
}

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
