package scheduled

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// ownConns is the number of connections that a node may have besides those of Config.Pool. These are the engine's pool,
// a session, a listener, and the leader's connection.
func (c Config) ownConns() int { return c.EngineConns + 3 }

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
		err, c.ownConns(), c.EngineConns, c.Pool.Config().MaxConns)
}
