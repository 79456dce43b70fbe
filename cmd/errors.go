package cmd

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// explained adds store.ErrReadOnly to an error of a command that met a standby. It is for all commands, because not all
// of their statements are those of package store, which adds it itself. A wrong argument, such as a query that writes,
// has an explanation already.
func explained(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "25006" || // read_only_sql_transaction
		errors.Is(err, store.ErrReadOnly) || errors.Is(err, store.ErrInvalid) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
}

// The errors below have exit codes of their own. The codes stand in exit.go.

// unreachableError is a database that does not answer, or refuses the login.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// unhealthyError is a deployment with errors or, where that counts, warnings. It has its own exit code.
type unhealthyError struct{ said string }

func (e *unhealthyError) Error() string { return e.said }

// driftError says that a reconcile without --apply has found differences.
type driftError struct{ tasks, ended int }

func (e *driftError) Error() string {
	text := fmt.Sprintf("%d tasks are not as the query says; --apply mends them", e.tasks)
	switch {
	case e.tasks == 1 && e.ended == 1:
		return "1 task has ended at another time than the query says; --apply --rearm runs it again"
	case e.tasks == 1:
		return "1 task is not as the query says; --apply mends it"
	case e.ended == 1:
		return text + ", except the 1 that has ended, which needs --rearm, too"
	case e.ended > 1:
		return text + fmt.Sprintf(", except the %d that have ended, which need --rearm, too", e.ended)
	}
	return text
}
