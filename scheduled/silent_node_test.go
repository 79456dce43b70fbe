package scheduled

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

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

// A node whose pool is silent for long begins again, although its session lives: it would lead and claim, and run
// nothing.
func TestNodeWithASilentPoolBeginsAgain(t *testing.T) {
	f := newBench(t)
	w := enginetest.NewWire()
	t.Cleanup(w.End)
	v := newVisitor()
	startNode(t, f.nodes, f.enginesWire(w), handlers.Handle(v.handle))
	first := enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: "a"}})
	enginetest.Receive(t, v.began, patience, "the task runs")
	old := f.leading()
	begin := time.Now()
	w.Cut()
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
	startNode(t, f.nodes, f.enginesWire(w), handlers.Handle(v.handle))
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
