package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// The pool closes soon, although it asks a connection that a firewall has forgotten whether it is alive. Without a
// limit of its own, such a question goes on for a minute after its caller has left, and a node that stops waits for it.
func TestPoolWithAForgottenConnectionCloses(t *testing.T) {
	t.Parallel()
	wire := enginetest.NewWire()
	t.Cleanup(wire.End)
	settings, err := pgxpool.ParseConfig(storetest.URL(t))
	enginetest.OK(t, err)
	ctx, leave := context.WithCancel(t.Context())
	asked := make(chan struct{}, 1)
	settings.ConnConfig.DialFunc = wire.Dial
	settings.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { asked <- struct{}{}; return true }
	pool, err := NewPool(t.Context(), PoolConfig{Settings: settings, Conns: 2})
	enginetest.OK(t, err)
	if _, err := pool.Exec(t.Context(), "SELECT"); err != nil {
		t.Fatal(err)
	}
	<-asked // about the new connection
	wire.Forget()
	go func() { <-asked; leave() }()
	if _, err := pool.Exec(ctx, "SELECT"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a caller that leaves gets %v", err)
	}
	closed := make(chan struct{})
	go func() { pool.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(AnswerLimit + 10*time.Second):
		t.Error("the pool does not close")
		<-closed
	}
}

// The pool asks no connection that was used within PingAfter whether it is alive.
func TestPingAfter(t *testing.T) {
	t.Parallel()
	settings, err := pgxpool.ParseConfig(storetest.URL(t))
	enginetest.OK(t, err)
	pool, err := NewPool(t.Context(), PoolConfig{Settings: settings, Conns: 2})
	enginetest.OK(t, err)
	t.Cleanup(pool.Close)
	for idle, want := range map[time.Duration]bool{PingAfter: false, PingAfter + 1: true} {
		if got := settings.ShouldPing(t.Context(), pgxpool.ShouldPingParams{IdleDuration: idle}); got != want {
			t.Errorf("after %s the pool asks: %t", idle, got)
		}
	}
}
