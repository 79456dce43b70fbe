package scheduled

import (
	"runtime/debug"

	"github.com/tasktable/tasktable/handlers"
)

// maxStack is how many bytes of a stack are kept. The first frames are the important ones.
const maxStack = 4 << 10

// panicked returns the error that stands for a panic of a handler.
func panicked(value any) error {
	stack := debug.Stack()
	return &handlers.PanicError{Value: value, Stack: string(stack[:min(len(stack), maxStack)])}
}
