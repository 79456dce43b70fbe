// Package leaks is for the tests of Tasktable itself: a run that leaves goroutines behind fails.
//
//	func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }
//
// An application's tests have other libraries' goroutines too, which no list of this package's knows. Importing it registers package
// container.
package leaks

import (
	"fmt"

	"go.uber.org/goleak"

	"github.com/tasktable/tasktable/store/storetest/container"
)

// Check returns an error that lists the goroutines that are left and that nothing explains.
func Check() error {
	if err := goleak.Find(legitimate()...); err != nil {
		return fmt.Errorf("goroutines left at the end of the tests: %w", err)
	}
	return nil
}

func legitimate() []goleak.Option {
	options := []goleak.Option{
		// Waits for the end of the shared server, which other test processes may still be using.
		goleak.IgnoreAnyFunction("github.com/tasktable/tasktable/store/localpg.(*process).reap"),
	}
	if container.Used() {
		// The reaper's connection must live as long as the process: its end is what removes the container.
		options = append(options,
			goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		)
	}
	return options
}
