// Package panics runs an application's functions, and turns their panics into errors.
package panics

import (
	"context"
	"runtime/debug"

	"github.com/tasktable/tasktable/handlers"
)

// maxStack is how many bytes of a stack are kept. The first frames are the important ones.
const maxStack = 4 << 10

// Error returns the error that stands for a panic of a handler. Call it in the deferred function that has recovered
// the value.
func Error(value any) error {
	stack := debug.Stack()
	return &handlers.PanicError{Value: value, Stack: string(stack[:min(len(stack), maxStack)])}
}

// Call calls run, and then done with its error. It turns a panic into an error. It must run on a goroutine of its
// own, because runtime.Goexit ends the goroutine, and only a deferred function notices that.
func Call(ctx context.Context, run func(context.Context) error, done func(error)) {
	finished := false
	var err error
	defer func() {
		if !finished {
			// recover returns nil after Goexit, too. Therefore finished says whether run returned.
			err = Error(recover())
		}
		done(err)
	}()
	err = run(ctx)
	finished = true
}
