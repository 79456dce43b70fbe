package scheduled

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// ErrPooler means that the session connection goes through a pooler that shares server connections. Advisory locks
// would then belong to nobody. Run and CheckDirect return it. Let Config.Connect give a direct connection. For the
// command, set TASKTABLE_SESSION_DATABASE_URL.
var ErrPooler = session.ErrPooler

// CheckDirect returns ErrPooler if the connection goes through a pooler. Run makes the same check for its session.
func CheckDirect(ctx context.Context, conn *pgx.Conn) error { return session.CheckDirect(ctx, conn) }

// connect opens a connection by Connect, or with the pool's settings.
func (c Config) connect(ctx context.Context) (*pgx.Conn, error) {
	if c.Connect != nil {
		return c.Connect(ctx)
	}
	pool := c.Pool.Config()
	pool.ConnConfig.OnNotification = nil // with the service's callback, the listener would hear nothing
	if pool.BeforeConnect != nil {       // it may bring a password that is valid for a short time
		if err := pool.BeforeConnect(ctx, pool.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, pool.ConnConfig)
}

// counted adds the number of connections that a node needs to an error of a server that refuses one more connection.
// The server's text only says whose limit is reached.
func (c Config) counted(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "53300" {
		return err
	}
	return fmt.Errorf(
		"%w: a node needs %d connections (a session, a listener, one to lead, and EngineConns, which is %d), "+
			"and its pool up to %d: raise the server's max_connections or the limit of the role or database, "+
			"or lower one of these",
		err, c.EngineConns+3, c.EngineConns, c.Pool.Config().MaxConns)
}
