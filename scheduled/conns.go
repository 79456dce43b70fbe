package scheduled

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// ownConns is how many connections a node has at most, besides those of Config.Pool: a session, a listener and the engine's pool.
func (c Config) ownConns() int { return c.EngineConns + 2 }

// counted adds what a node needs to the server's refusal of one more connection, which names only whose limit it is.
func (c Config) counted(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "53300" {
		return err
	}
	return fmt.Errorf("%w: a node needs %d connections (a session, a listener, and EngineConns, which is %d), and its pool up to %d: "+
		"raise the server's max_connections or the limit of the role or database, or lower one of these",
		err, c.ownConns(), c.EngineConns, c.Pool.Config().MaxConns)
}
