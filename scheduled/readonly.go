package scheduled

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errReadOnly ends connections to a server that takes no writes: a standby, perhaps the primary of before a failover. It still answers pings
// and gives advisory locks, which the new primary knows nothing of. Connecting anew finds the primary, where the URL names several hosts
// (target_session_attrs=read-write) or one that moves.
var errReadOnly = errors.New("the database is read-only, as a standby is")

const readOnlySQL = `SELECT current_setting('transaction_read_only') = 'on'`

// refuseReadOnly is for new connections of the engine's pool.
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

// isReadOnly tells the refusal of a write by such a server.
func isReadOnly(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "25006"
}
