package scheduled

import (
	"runtime/debug"

	"github.com/tasktable/tasktable/handlers"
)

// maxStack is how much of a stack is kept: the frames that matter are the first.
const maxStack = 4 << 10

func panicked(value any) error {
	stack := debug.Stack()
	return &handlers.PanicError{Value: value, Stack: string(stack[:min(len(stack), maxStack)])}
}
