package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// A limit of the role does not end a connection of the engine that is idle, and the pool asks none that was used
// within PingAfter whether it is alive.
func TestIdleConnectionsStay(t *testing.T) {
	t.Parallel()
	settings, err := pgxpool.ParseConfig(storetest.URL(t))
	enginetest.OK(t, err)
	settings.ConnConfig.RuntimeParams["idle_session_timeout"] = "1000"
	for name, sql := range map[string]string{"the pool's": poolSQL, "the leader's": settingsSQL, "the listener's": stayIdleSQL} {
		conn, err := pgx.ConnectConfig(t.Context(), settings.ConnConfig)
		enginetest.OK(t, err)
		_, err = conn.Exec(t.Context(), sql)
		enginetest.OK(t, err)
		var limit string
		enginetest.OK(t, conn.QueryRow(t.Context(), "SHOW idle_session_timeout").Scan(&limit))
		if limit != "0" {
			t.Errorf("%s connection may be idle for %s", name, limit)
		}
		enginetest.OK(t, conn.Close(t.Context()))
	}
	pool, err := NewPool(t.Context(), PoolConfig{Settings: settings, Conns: 2})
	enginetest.OK(t, err)
	t.Cleanup(pool.Close)
	for idle, want := range map[time.Duration]bool{PingAfter: false, PingAfter + 1: true} {
		if got := settings.ShouldPing(t.Context(), pgxpool.ShouldPingParams{IdleDuration: idle}); got != want {
			t.Errorf("after %s the pool asks: %t", idle, got)
		}
	}
}
