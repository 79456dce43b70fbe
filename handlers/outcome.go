package handlers

import (
	"errors"
	"fmt"
	"time"
)

// PermanentError is an error that no retry would mend. Make one by Permanent.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent fails the task at once, whatever attempts it has left. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{Err: err}
}

// RetryAfterError is an error with the delay before the next attempt. Make one by RetryAfter.
type RetryAfterError struct {
	Delay time.Duration
	Err   error
}

func (e *RetryAfterError) Error() string { return fmt.Sprintf("%v (retry in %s)", e.Err, e.Delay) }
func (e *RetryAfterError) Unwrap() error { return e.Err }

// RetryAfter fails the attempt with err and has the next, if any is left, begin after the delay instead of the backoff. A
// negative delay counts as 0.
func RetryAfter(delay time.Duration, err error) error {
	if err == nil {
		err = errors.New("retry asked for")
	}
	return &RetryAfterError{Delay: max(delay, 0), Err: err}
}

// SnoozeError puts a task off. Make one by Snooze.
type SnoozeError struct{ Delay time.Duration }

func (e *SnoozeError) Error() string { return fmt.Sprintf("snoozed for %s", e.Delay) }

// Snooze runs the task again after the delay and uses up no attempt: for "not ready yet", not for failures. The task's
// expiration still counts from its time. The next attempt is due one second after this one's start at the earliest, so
// that a delay of 0, or a negative one, cannot keep the task running without a pause.
func Snooze(delay time.Duration) error { return &SnoozeError{Delay: max(delay, 0)} }

// PanicError is what an attempt returns whose handler panicked, or ended its goroutine by runtime.Goexit.
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

// Causes with which the engine ends a handler's context: ask context.Cause(ctx).
var (
	// ErrCancelled: the task was cancelled. What the handler returns does not count any more.
	ErrCancelled = errors.New("the task was cancelled")
	// ErrDeadline: the ExpectedExecutionTime is over, counted from the handler's start, or the time that Extend gave it. Extend in
	// time, or give the task a longer ExpectedExecutionTime.
	ErrDeadline = errors.New("the attempt took longer than its ExpectedExecutionTime")
	// ErrInterrupted: the process is shutting down. The task is queued again without using up an attempt.
	ErrInterrupted = errors.New("the node is shutting down")
	// ErrLeaseLost: the node lost touch with the database for so long that the task may run elsewhere.
	ErrLeaseLost = errors.New("the node lost its hold of the task")
)
