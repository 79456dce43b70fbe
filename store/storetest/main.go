package storetest

import (
	"fmt"
	"io"
	"os"
	"testing"
)

// Main runs the tests of a package, then stops what this process holds of the server. It does not return: it exits with the run's
// code. The checks run after tests that have passed, in their order; an error of one fails the run.
//
// A package that does without it may use the other functions, but leaves the server running.
func Main(m *testing.M, checks ...func() error) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "storetest: stopping the server:", err)
		code = max(code, 1)
	}
	os.Exit(check(code, os.Stderr, checks...))
}

// check runs the checks, unless the tests have failed: then that is what to look at.
func check(code int, stderr io.Writer, checks ...func() error) int {
	for _, one := range checks {
		if code != 0 {
			return code
		}
		if err := one(); err != nil {
			_, _ = fmt.Fprintln(stderr, "storetest:", err)
			code = 1
		}
	}
	return code
}
