// Package leaks makes the tests of Tasktable itself fail if they leave goroutines behind.
//
//	func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }
//
// It is not for applications, because their tests have goroutines of other libraries that Check does not know.
// Importing the package also registers package container.
package leaks

import (
	"fmt"

	"go.uber.org/goleak"

	"github.com/tasktable/tasktable/store/storetest/container"
)

// Check returns an error that lists the remaining goroutines, except for those that are known to be legitimate.
func Check() error {
	if err := goleak.Find(legitimate()...); err != nil {
		return fmt.Errorf("goroutines left at the end of the tests: %w", err)
	}
	return nil
}

func legitimate() []goleak.Option {
	options := []goleak.Option{
		// It waits for the end of the shared server, which other test processes may still use.
		goleak.IgnoreAnyFunction("github.com/tasktable/tasktable/store/localpg.(*process).reap"),
	}
	if container.Used() {
		// The reaper's connection must live as long as the process, because its end removes the container.
		options = append(options,
			goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		)
	}
	return options
}
