package storetest

import (
	"fmt"
	"io"
	"os"
	"testing"
)

// Main runs the tests of a package, and then stops the process's share in the server. It does not return, but exits
// with the code of the run. If the tests have passed, the checks run, in their order. An error of a check makes the
// run fail.
//
// A package can use the other functions without Main, but then the server stays running.
func Main(m *testing.M, checks ...func() error) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "storetest: stopping the server:", err)
		code = max(code, 1)
	}
	os.Exit(check(code, os.Stderr, checks...))
}

// check runs the checks unless the tests have failed, because then the developer has to look at the tests first.
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
