package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/prove"
	"github.com/tasktable/tasktable/store"
)

// The exit codes. Their text in the root command's help is part of the program's contract.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnmigrated  = 3
	exitUnreachable = 4
	exitDrift       = 5
	exitBroken      = 6
	exitUnhealthy   = 7
	exitInterrupted = 130
)

const exitCodes = `Exit codes:
  0    done; for serve: stopped by a signal, as asked
  1    failed; also: a named task does not exist, or runs and was left alone, or the answer to a question was no
  2    wrong usage, or an option with a wrong value; also: a question and no terminal to ask it on, without --yes
  3    the database is not migrated: run "tasktable migrate"
  4    the database cannot be reached, or refuses the login
  5    reconcile without --apply: some tasks are not as the query says
  6    prove: a promise was broken
  7    doctor: something does not work, or with --strict not as it should
  130  interrupted: by a second signal, or by one before there was anything to stop gracefully`

// exitCode needs the context of the signals, because a query that a signal broke off fails like any other.
func exitCode(signalled context.Context, err error) int {
	var (
		wrong       *options.UsageError
		unreachable *unreachableError
		connecting  *pgconn.ConnectError
		drift       *driftError
		unwell      *unhealthyError
	)
	switch {
	case err == nil:
		return exitOK
	case signalled.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &wrong), errors.Is(err, store.ErrInvalid):
		return exitUsage
	case errors.Is(err, migrations.ErrUnmigrated):
		return exitUnmigrated
	case errors.As(err, &unreachable), errors.As(err, &connecting):
		return exitUnreachable
	case errors.As(err, &drift):
		return exitDrift
	case errors.Is(err, prove.ErrBroken):
		return exitBroken
	case errors.As(err, &unwell):
		return exitUnhealthy
	}
	return exitFailed
}

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
