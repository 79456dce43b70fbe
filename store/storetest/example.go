package storetest

import (
	"fmt"
	"testing"
)

// Example returns a [testing.TB] for where there is none, as in an Example: it does what this package, and scheduledtest, ask of
// one. A failure panics. The caller must call end, which drops what was made.
//
//	t, end := storetest.Example()
//	defer end()
//	pool := storetest.Pool(t)
func Example() (t testing.TB, end func()) {
	e := &example{}
	return e, func() {
		for i := len(e.cleanups) - 1; i >= 0; i-- {
			e.cleanups[i]()
		}
	}
}

// example is as much of a testing.TB as is asked of it; the rest, which nobody calls, is nil's.
type example struct {
	testing.TB
	cleanups []func()
}

func (e *example) Helper()                           {}
func (e *example) Cleanup(cleanup func())            { e.cleanups = append(e.cleanups, cleanup) }
func (e *example) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (e *example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
