package handlers

import (
	"errors"
	"fmt"
	"time"
)

// PermanentError is an error that no retry would mend. Permanent makes one.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent wraps err so that it fails the task at once, even if the task has attempts left. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{Err: err}
}

// RetryAfterError is an error with the delay before the next attempt. RetryAfter makes one.
type RetryAfterError struct {
	Delay time.Duration
	Err   error
}

// Error does not tell the delay, because the error of the last attempt is recorded, too, and no retry follows it.
func (e *RetryAfterError) Error() string { return e.Err.Error() }
func (e *RetryAfterError) Unwrap() error { return e.Err }

// RetryAfter fails the attempt with err. The next attempt, if one is left, begins after the delay instead of the
// backoff. A negative delay counts as 0.
func RetryAfter(delay time.Duration, err error) error {
	if err == nil {
		err = errors.New("retry asked for")
	}
	return &RetryAfterError{Delay: max(delay, 0), Err: err}
}

// SnoozeError puts a task off. Snooze makes one.
type SnoozeError struct{ Delay time.Duration }

func (e *SnoozeError) Error() string { return fmt.Sprintf("snoozed for %s", e.Delay) }

// Snooze runs the task again after the delay and uses up no attempt. It is for "not ready yet", not for failures. The
// task is then due after the delay, so it is late only from then on. Each snooze is a line of the history. The
// task's expiration still counts from the task's time. The next attempt is due one second after the start of this one
// at the earliest, so that a delay of 0 or less cannot keep the task running without a pause.
func Snooze(delay time.Duration) error { return &SnoozeError{Delay: max(delay, 0)} }

// WaitError puts a task off because something that it needs is out of order. Wait makes one.
type WaitError struct {
	Delay time.Duration
	Err   error
}

func (e *WaitError) Error() string { return e.Err.Error() }
func (e *WaitError) Unwrap() error { return e.Err }

// Wait runs the task again after the delay, because something that it needs is out of order. err says what. Like Snooze
// it uses up no attempt. It differs in two ways. Waits that follow each other are one line of the history, and the task
// counts them in its field "waits". And the task is late, from the time at which it was due before it waited, while
// after a Snooze it is due anew. The same err each time, without times and numbers, keeps tasks that wait for the same
// thing together in lists.
func Wait(delay time.Duration, err error) error {
	if err == nil {
		err = errors.New("something is out of order")
	}
	return &WaitError{Delay: max(delay, 0), Err: err}
}

// PanicError is the error of an attempt whose handler panicked, or ended its goroutine with runtime.Goexit.
type PanicError struct {
	Value any // nil for Goexit
	Stack string
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "handler ended its goroutine by runtime.Goexit\n" + e.Stack
	}
	return fmt.Sprintf("handler panicked: %v\n%s", e.Value, e.Stack)
}

// The engine ends a handler's context with one of these causes. Ask for it with context.Cause(ctx).
var (
	// ErrCancelled means that somebody cancelled the task. The handler's result does not count any more.
	ErrCancelled = errors.New("the task was cancelled")
	// ErrDeadline means that the ExpectedExecutionTime is over, counted from the handler's start, or the time that
	// Extend added. Call Extend in time, or give the task a longer ExpectedExecutionTime.
	ErrDeadline = errors.New("the attempt took longer than its expected_execution_time, timeout or deadline allows")
	// ErrInterrupted means that the process is shutting down. The task is queued again and uses up no attempt.
	ErrInterrupted = errors.New("the node is shutting down")
	// ErrLeaseLost means that the node could not reach the database for so long that the task may run on another
	// node.
	ErrLeaseLost = errors.New("the node lost its hold of the task")
)
