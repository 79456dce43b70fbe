package session

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolConfig is the configuration of the engine's pool.
type PoolConfig struct {
	Settings *pgxpool.Config // of the handlers' pool
	Conns    int
	// Connect is nil if the pool may use its own settings. Otherwise the pool asks it for settings before it opens a
	// connection.
	Connect func(ctx context.Context) (*pgx.Conn, error)
}

// awakeSQL keeps a server from ending connections that are idle for long, as those do that wait for notifications.
const awakeSQL = `SET idle_session_timeout = 0; `

const poolSQL = awakeSQL + `SET lock_timeout = '500ms'; SET idle_in_transaction_session_timeout = '5s'; ` + engineSQL

// NewPool makes the pool for the engine's own statements. It is separate from the handlers' pool, so that handlers
// that hold all connections of their pool cannot keep outcomes from being recorded. The joins of its statements go by
// primary key even if the statistics are stale.
func NewPool(ctx context.Context, config PoolConfig) (*pgxpool.Pool, error) {
	settings := config.Settings
	if config.Connect != nil { // the pool must avoid a pooler, whose other clients would get this pool's settings
		settings.BeforeConnect = config.askConnect
	}
	// The service's callback would take the notifications of River's listener.
	settings.ConnConfig.OnNotification = nil
	if limit := settings.ConnConfig.ConnectTimeout; limit == 0 || limit > ConnectLimit {
		settings.ConnConfig.ConnectTimeout = ConnectLimit
	}
	settings.ConnConfig.DialFunc = closingSoon(settings.ConnConfig.DialFunc)
	// River's listener takes one connection out of the pool, and the pool no longer counts that connection.
	settings.MaxConns = int32(config.Conns) - 1
	settings.MinConns, settings.MinIdleConns = 0, 0
	// The pool asks an idle connection whether it is alive. If the caller leaves meanwhile, pgx goes on for a minute,
	// and a pool that closes waits for it.
	settings.PingTimeout = AnswerLimit
	// The engine's pool drops these hooks, because the service may use them to keep count of its own pool's
	// connections.
	settings.PrepareConn, settings.AfterRelease, settings.BeforeClose = nil, nil, nil
	after := settings.AfterConnect
	settings.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if after != nil {
			if err := after(ctx, conn); err != nil {
				return err
			}
		}
		return set(ctx, conn, poolSQL, "tasktable engine")
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), settings) // the pool outlives ctx
	if err != nil {
		return nil, fmt.Errorf("make the engine's pool: %w", err)
	}
	return pool, nil
}

// askConnect gives a new connection of the engine's pool the settings that Connect uses now, because the password may
// have changed since the session began. It opens a connection, because nothing else knows these settings, and closes
// it before the pool opens its own.
func (c PoolConfig) askConnect(ctx context.Context, settings *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, ConnectLimit)
	defer cancel()
	conn, err := c.Connect(ctx)
	if err != nil {
		return fmt.Errorf("ask Connect for its settings: %w", err)
	}
	limit := settings.ConnectTimeout
	*settings = *conn.Config()
	settings.OnNotification, settings.ConnectTimeout, settings.DialFunc = nil, limit, closingSoon(settings.DialFunc)
	Close(ctx, conn)
	return nil
}

// AnswerLimit is how long an answer of the engine's pool may take. A later answer counts as no answer.
const AnswerLimit = 5 * time.Second

// maxClosing is how long a connection of the engine's pool may take to close after a statement had no answer in time.
const maxClosing = time.Second

// soonClosed is a connection that moves far deadlines nearer. pgx sets a far deadline only when it waits for the
// server's good-bye, which it does for fifteen seconds after a statement had no answer in time. Until then the
// connection takes a place in the pool, and a server that is gone never says good-bye.
type soonClosed struct{ net.Conn }

func (c soonClosed) SetDeadline(t time.Time) error {
	if soon := time.Now().Add(maxClosing); t.After(soon) {
		t = soon
	}
	return c.Conn.SetDeadline(t)
}

// closingSoon wraps dial, so that its connections are closed soon.
func closingSoon(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return soonClosed{conn}, nil
	}
}
