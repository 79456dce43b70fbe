package taskdb

import (
	"runtime/debug"

	"github.com/tasktable/tasktable/handlers"
)

// MaxStack is how many bytes of a stack are kept. The first frames are the important ones.
const MaxStack = 4 << 10

// Panicked returns the error that stands for a panic of a handler.
func Panicked(value any) error {
	stack := debug.Stack()
	return &handlers.PanicError{Value: value, Stack: string(stack[:min(len(stack), MaxStack)])}
}
