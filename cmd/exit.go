package cmd

import (
	"context"
	"errors"

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
