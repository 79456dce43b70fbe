package scheduled

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errReadOnly ends connections to a server that takes no writes. That is a standby. It may have been the primary
// before a failover. Such a server still answers pings and gives advisory locks, but the new primary does not know of
// these locks. A new connection finds the primary if the URL names several hosts (with
// target_session_attrs=read-write) or one host name that moves.
var errReadOnly = errors.New("the database is read-only, as a standby is")

const readOnlySQL = `SELECT current_setting('transaction_read_only') = 'on'`

// refuseReadOnly checks new connections of the engine's pool.
func refuseReadOnly(ctx context.Context, conn *pgx.Conn) error {
	return refused(conn.QueryRow(ctx, readOnlySQL))
}

// refused returns errReadOnly if readOnlySQL was answered by a standby.
func refused(answer pgx.Row) error {
	var readOnly bool
	if err := answer.Scan(&readOnly); err != nil {
		return fmt.Errorf("ask whether the database is read-only: %w", err)
	}
	if readOnly {
		return errReadOnly
	}
	return nil
}

// demoted ends a session whose server has become read-only.
func (s *session) demoted(ctx context.Context) error {
	s.leads = false
	s.leading.Store(false)
	closeConn(ctx, s.conn)
	return errReadOnly
}

// isReadOnly reports whether a server refused a write because it is read-only.
func isReadOnly(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "25006"
}
