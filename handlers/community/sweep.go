package community

import (
	"context"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
)

// MostRows is how many rows one run of a recurring task changes at most. If a run has changed as many, the task runs
// again a second after the start of that run, with a transaction of its own, until a run changes fewer. So no
// transaction is long, and finished work stays committed.
const MostRows = 10000

// Swept is the result of a run of a recurring task. It maps each table that the run looked at to the number of rows
// that it changed there.
type Swept map[string]int64

// sweep is one run: a transaction that changes up to MostRows rows. @now is the start of the attempt in all its
// statements, so that they agree, and so that tests can choose the time.
type sweep struct {
	tx    pgx.Tx
	e     *handlers.Execution
	left  int64 // of MostRows
	swept Swept
}

func newSweep(tx pgx.Tx, e *handlers.Execution) *sweep {
	return &sweep{tx: tx, e: e, left: MostRows, swept: Swept{}}
}

// deleteSQL leaves out rows that another transaction has locked, so that nobody who edits a row has to wait. The next
// fire finds these rows.
const deleteSQL = `
DELETE FROM community.%[1]s WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM community.%[1]s WHERE %[2]s LIMIT @rows FOR UPDATE SKIP LOCKED))`

// delete deletes the rows of a table for which a condition holds.
func (s *sweep) delete(ctx context.Context, table, condition string, args pgx.NamedArgs) error {
	return s.exec(ctx, table, fmt.Sprintf(deleteSQL, table, condition), args)
}

// exec runs a statement that changes at most @rows rows of a table, with @now and its own arguments.
func (s *sweep) exec(ctx context.Context, table, statement string, args pgx.NamedArgs) error {
	if s.left <= 0 {
		return nil
	}
	done, err := s.tx.Exec(ctx, statement, s.args(args))
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	s.count(table, done.RowsAffected())
	return nil
}

// texts runs a query of one column of text. It counts no changed rows.
func (s *sweep) texts(ctx context.Context, statement string, args pgx.NamedArgs) ([]string, error) {
	rows, _ := s.tx.Query(ctx, statement, s.args(args)) // CollectRows returns the error
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s *sweep) args(args pgx.NamedArgs) pgx.NamedArgs {
	all := pgx.NamedArgs{"now": s.e.StartedAt, "rows": s.left}
	maps.Copy(all, args)
	return all
}

func (s *sweep) count(table string, rows int64) {
	s.swept[table] += rows
	s.left -= rows
}

// finish records the result, and asks to run again if there may be more rows.
func (s *sweep) finish() {
	s.e.Result(s.swept)
	if s.left <= 0 {
		s.e.Note("there may be more than %d rows: it goes on", MostRows)
		s.e.Again(s.e.StartedAt)
	}
}
