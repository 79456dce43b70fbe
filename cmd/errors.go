package cmd

import "fmt"

// The errors of this file have exit codes of their own. The codes stand in exit.go.

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
