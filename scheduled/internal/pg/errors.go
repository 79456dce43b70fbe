package pg

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// IsDataError reports whether one row's data, or an application's trigger on the row, caused the error. Such an error
// comes again with the same row. A migration that replaces a function also causes such an error, once, in a session
// that is about to call the function. Therefore the engine gives up a row only when the error has come twice.
func IsDataError(err error) bool {
	var scan pgx.ScanArgError
	if errors.As(err, &scan) {
		return true
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || IsTimeout(err) {
		return false
	}
	// A migration can make a prepared statement invalid: "cached plan must not change result type". The next try plans
	// it anew.
	if pgErr.Routine == "RevalidateCachedQuery" {
		return false
	}
	switch pgErr.Code[:2] {
	// Connection, transactions, resources, locks, operator, system, and faults of Postgres itself, such as a broken
	// index. The function insert_notice has the same classes, except that of connections (08). Inside Postgres, only a
	// trigger of an application that calls another server raises it. It must not keep a task from being settled.
	case "08", "25", "40", "53", "55", "57", "58", "XX":
		return false
	// Class 54 is none of these, because a row alone can cause it, such as one with a value that is too large for an
	// index (54000).
	case "28", "3D", "3F", "42": // a missing right or table is the same for every row
		return false
	}
	return true
}

// IsTimeout reports whether a statement took too long, or waited too long for a lock. The statement may succeed with
// fewer rows.
func IsTimeout(err error) bool { return is(err, "57014", "55P03", "40P01", "40001") }

// IsDataErrorOrTimeout is IsDataError or IsTimeout.
func IsDataErrorOrTimeout(err error) bool { return IsDataError(err) || IsTimeout(err) }

// IsDataErrorOrLocked is IsDataError or IsLocked.
func IsDataErrorOrLocked(err error) bool { return IsDataError(err) || IsLocked(err) }

// IsCanceled reports whether Postgres ended a statement, nearly always because it took longer than statement_timeout.
func IsCanceled(err error) bool { return is(err, "57014") }

// IsLocked reports whether a statement waited too long for another transaction.
func IsLocked(err error) bool { return is(err, "55P03") }

// IsConflict reports whether a statement failed because others wrote the same rows, by a deadlock or otherwise.
func IsConflict(err error) bool { return is(err, "40001", "40P01") }

// IsNotAllowed reports whether a right or a trigger refused a statement (insufficient_privilege).
func IsNotAllowed(err error) bool { return is(err, "42501") }

// IsReadOnly reports whether a server refused a write because it is read-only.
func IsReadOnly(err error) bool { return is(err, "25006") }

func is(err error, codes ...string) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && slices.Contains(codes, said.Code)
}

// ErrReadOnly ends connections to a server that takes no writes. That is a standby. It may have been the primary
// before a failover. Such a server still answers pings and gives advisory locks, but the new primary does not know of
// these locks. A new connection finds the primary if the URL names several hosts (with
// target_session_attrs=read-write) or one host name that moves.
var ErrReadOnly = store.ErrReadOnly

// ReadOnlySQL asks whether the server takes no writes. RefuseReadOnly reads the answer.
const ReadOnlySQL = `SELECT current_setting('transaction_read_only') = 'on'`

// RefuseReadOnly returns ErrReadOnly if ReadOnlySQL was answered by a standby.
func RefuseReadOnly(answer pgx.Row) error {
	var readOnly bool
	if err := answer.Scan(&readOnly); err != nil {
		return fmt.Errorf("ask whether the database is read-only: %w", err)
	}
	if readOnly {
		return ErrReadOnly
	}
	return nil
}

// ErrHidden ends the connections of a role from which row level security hides tasks. Postgres gives no error to such a
// role. As the leader it would find nothing to claim, and no other node would lead.
var ErrHidden = errors.New("row level security hides tasks from the node's role; connect as the engine's role, which " +
	"the SQL of \"tasktable migrate roles\" makes")

// HiddenSQL is the condition for that, in the default schema.
const HiddenSQL = `(row_security_active('tasktable.scheduled_tasks'::regclass) AND NOT EXISTS (
    SELECT 1 FROM pg_policy AS p
    WHERE p.polrelid = 'tasktable.scheduled_tasks'::regclass AND p.polpermissive AND p.polcmd IN ('*', 'r')
        AND pg_get_expr(p.polqual, p.polrelid) = 'true'
        AND EXISTS (SELECT 1 FROM unnest(p.polroles) AS one (role)
            WHERE one.role = 0 OR pg_has_role(one.role, 'USAGE'))))`

// PoolAnswered reports whether a server that takes writes answered a statement on a pool, even if the answer is an
// error. An error of class 28, the refusal of a user or a password, does not count. A pool opens connections by itself,
// so the refusal means that the node needs new credentials. A node whose pool has not answered for some time begins
// again, and then it asks for credentials, and may find another server.
func PoolAnswered(err error) bool {
	var said *pgconn.PgError
	return err == nil || errors.As(err, &said) && said.Code[:2] != "28"
}
