package storetest

import (
	"fmt"
	"testing"
)

// Example returns a [testing.TB] for code that has none, for example an Example function. It has the methods that
// this package and scheduledtest call. A failure panics. The caller must call end, which drops everything that was
// made.
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

// example implements the methods of testing.TB that are used. The others are those of the nil interface, and would
// panic.
type example struct {
	testing.TB
	cleanups []func()
}

func (e *example) Helper()                           {}
func (e *example) Cleanup(cleanup func())            { e.cleanups = append(e.cleanups, cleanup) }
func (e *example) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (e *example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
