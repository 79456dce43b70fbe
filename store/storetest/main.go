package storetest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, then stops what this process holds of the server, and fails the run if
// goroutines are left that none of that explains. It does not return: it exits with the run's code.
//
// A package that does without it may use the other functions, but leaves the server running.
func Main(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "storetest: stopping the server:", err)
		code = max(code, 1)
	}
	if code == 0 { // a failed test may well leave goroutines: the failure is what to look at
		if err := goleak.Find(legitimate()...); err != nil {
			fmt.Fprintln(os.Stderr, "storetest: goroutines left at the end of the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func legitimate() []goleak.Option {
	options := []goleak.Option{
		// Waits for the end of the shared server, which other test processes may still be using.
		goleak.IgnoreAnyFunction("github.com/tasktable/tasktable/store/localpg.(*process).reap"),
	}
	if usedContainer.Load() {
		// The reaper's connection must live as long as the process: its end is what removes the container.
		options = append(options,
			goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		)
	}
	return options
}
