package panics

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers"
)

var errOops = errors.New("oops")

// hostile is an error whose method panics.
type hostile struct{}

func (hostile) Error() string { panic("no text") }

// However a handler ends its goroutine, its attempt has an outcome.
func TestCall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run  func(context.Context) error
		want string
	}{
		"nil":       {func(context.Context) error { return nil }, ""},
		"error":     {func(context.Context) error { return errOops }, "oops"},
		"panic":     {func(context.Context) error { panic("boom") }, "handler panicked: boom\n"},
		"panic nil": {func(context.Context) error { panic(nil) }, "handler panicked: panic called with nil argument"},
		"index": {
			func(context.Context) error { return []error{}[len("")] },
			"handler panicked: runtime error: index out of range",
		},
		"hostile": {
			func(context.Context) error { panic(hostile{}) },
			"handler panicked: %!v(PANIC=Error method: no text)",
		},
		"Goexit": {
			func(context.Context) error { runtime.Goexit(); return nil },
			"handler ended its goroutine by runtime.Goexit\n",
		},
		"Goexit in a deferred call": {func(context.Context) error {
			defer runtime.Goexit()
			return nil
		}, "handler ended its goroutine by runtime.Goexit\n"},
	} {
		ended := make(chan error, 1)
		go Call(t.Context(), test.run, func(err error) { ended <- err })
		err := <-ended
		if test.want == "" && err == nil || err != nil && test.want != "" && strings.HasPrefix(err.Error(), test.want) {
			var stack *handlers.PanicError
			if errors.As(err, &stack) &&
				(!strings.Contains(stack.Stack, "panics_test") || len(stack.Stack) > maxStack) {
				t.Errorf("%s: stack of %d bytes: %s", name, len(stack.Stack), stack.Stack)
			}
			continue
		}
		t.Errorf("%s: %v, want %q", name, err, test.want)
	}
}
