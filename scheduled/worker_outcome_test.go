package scheduled

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// hostile is an error whose methods panic, as those of a nil pointer in an error interface may.
type hostile struct{ error, as, unwrap bool }

func (h *hostile) Error() string {
	if h.error {
		panic("no text")
	}
	return "hostile"
}

func (h *hostile) As(any) bool {
	if h.as {
		panic("no As")
	}
	return false
}

func (h *hostile) Unwrap() error {
	if h.unwrap {
		panic("no Unwrap")
	}
	return nil
}

var errOops = errors.New("oops")

func TestConclude(t *testing.T) {
	t.Parallel()
	backoff := func(attempt int, err error) time.Duration {
		if !strings.Contains(taskdb.ErrorText(err), "oops") {
			return time.Hour
		}
		return time.Duration(attempt) * time.Minute
	}
	var (
		noPermanent *handlers.PermanentError
		noAfter     *handlers.RetryAfterError
		noSnooze    *handlers.SnoozeError
		noPanic     *handlers.PanicError
		noHostile   *hostile
	)
	for _, test := range []struct {
		name       string
		err, cause error
		attempt    int // of 3; 0: 1
		want       string
	}{
		{name: "nil", want: "COMPLETED COMPLETED"},
		{name: "nil at the deadline", cause: handlers.ErrDeadline, want: "COMPLETED COMPLETED"},
		{name: "nil in spite of a shutdown", cause: handlers.ErrInterrupted, want: "COMPLETED COMPLETED"},
		{name: "error", err: errOops, want: "RETRIED QUEUED in 1m0s: oops"},
		{
			name: "second error", err: fmt.Errorf("while mailing: %w", errOops), attempt: 2,
			want: "RETRIED QUEUED in 2m0s: while mailing: oops",
		},
		{name: "last error", err: errOops, attempt: 3, want: "FAILED FAILED: oops"},
		{name: "beyond the last", err: errOops, attempt: 4, want: "FAILED FAILED: oops"},
		{name: "permanent", err: handlers.Permanent(errOops), want: "FAILED FAILED: oops"},
		{
			name: "wrapped permanent", err: fmt.Errorf("a: %w", handlers.Permanent(errOops)),
			want: "FAILED FAILED: a: oops",
		},
		{
			name: "joined permanent", err: errors.Join(errors.New("a"), handlers.Permanent(errOops)),
			want: "FAILED FAILED: a\noops",
		},
		{
			name: "retry after", err: handlers.RetryAfter(time.Second, errOops),
			want: "RETRIED QUEUED in 1s: oops (retry in 1s)",
		},
		{
			name: "wrapped retry after", err: fmt.Errorf("a: %w", handlers.RetryAfter(time.Second, errOops)),
			attempt: 2, want: "RETRIED QUEUED in 1s: a: oops (retry in 1s)",
		},
		{
			name: "retry after the last", err: handlers.RetryAfter(time.Second, errOops), attempt: 3,
			want: "FAILED FAILED: oops (retry in 1s)",
		},
		{
			name: "negative retry after", err: handlers.RetryAfter(-time.Second, nil),
			want: "RETRIED QUEUED: retry asked for (retry in 0s)",
		},
		{name: "snooze", err: handlers.Snooze(time.Minute), want: "SNOOZED QUEUED refund in 1m0s: snoozed for 1m0s"},
		{
			name: "snooze at the last attempt", err: fmt.Errorf("a: %w", handlers.Snooze(time.Minute)), attempt: 3,
			want: "SNOOZED QUEUED refund in 1m0s: a: snoozed for 1m0s",
		},
		{
			name: "permanent wins over retry after", err: handlers.Permanent(handlers.RetryAfter(time.Second, errOops)),
			want: "FAILED FAILED: oops (retry in 1s)",
		},
		{
			name: "deadline", err: context.Canceled, cause: handlers.ErrDeadline,
			want: "RETRIED QUEUED in 1h0m0s: the attempt took longer than its ExpectedExecutionTime: context canceled",
		},
		{
			name: "deadline of the last", err: errOops, cause: handlers.ErrDeadline, attempt: 3,
			want: "FAILED FAILED: the attempt took longer than its ExpectedExecutionTime: oops",
		},
		{
			name: "deadline that the handler names", err: handlers.ErrDeadline, cause: handlers.ErrDeadline,
			want: "RETRIED QUEUED in 1h0m0s: the attempt took longer than its ExpectedExecutionTime",
		},
		{
			name: "interrupted", err: context.Canceled, cause: handlers.ErrInterrupted, attempt: 3,
			want: "INTERRUPTED QUEUED refund: context canceled",
		},
		{
			name: "interrupted, and permanent", err: handlers.Permanent(context.Canceled),
			cause: handlers.ErrInterrupted, want: "INTERRUPTED QUEUED refund: context canceled",
		},
		{
			name: "session lost", err: context.Canceled, cause: handlers.ErrLeaseLost,
			want: "INTERRUPTED QUEUED refund: context canceled",
		},
		// The row says CANCELLED, so only the hold ends.
		{name: "cancelled", err: errOops, cause: handlers.ErrCancelled, want: "RETRIED QUEUED in 1m0s: oops"},
		{
			name: "NUL and invalid UTF-8", err: errors.New("a\x00b\xffc"),
			want: "RETRIED QUEUED in 1h0m0s: a\uFFFDb\uFFFDc",
		},
		{
			name: "panicking text", err: &hostile{error: true},
			want: "RETRIED QUEUED in 1h0m0s: an error of type *scheduled.hostile whose method Error panicked: no text",
		},
		{
			name: "panicking text at the deadline", err: &hostile{error: true}, cause: handlers.ErrDeadline,
			want: "RETRIED QUEUED in 1h0m0s: the attempt took longer than its ExpectedExecutionTime: " +
				"%!v(PANIC=Error method: no text)",
		},
		{name: "panicking As", err: &hostile{as: true}, want: "RETRIED QUEUED in 1h0m0s: hostile"},
		{name: "panicking Unwrap", err: &hostile{unwrap: true}, want: "RETRIED QUEUED in 1h0m0s: hostile"},
		{
			name: "nil permanent", err: noPermanent,
			want: "RETRIED QUEUED in 1h0m0s: an error of type *handlers.PermanentError whose method Error panicked",
		},
		{
			name: "nil retry after", err: noAfter,
			want: "RETRIED QUEUED in 1h0m0s: an error of type *handlers.RetryAfterError whose method Error panicked",
		},
		{
			name: "nil snooze", err: noSnooze,
			want: "RETRIED QUEUED in 1h0m0s: an error of type *handlers.SnoozeError whose method Error panicked",
		},
		{
			name: "nil panic", err: noPanic,
			want: "RETRIED QUEUED in 1h0m0s: an error of type *handlers.PanicError whose method Error panicked",
		},
		{
			name: "nil of a type of the handler's", err: noHostile,
			want: "RETRIED QUEUED in 1h0m0s: an error of type *scheduled.hostile whose method Error panicked",
		},
		{
			name: "empty permanent", err: &handlers.PermanentError{},
			want: "FAILED FAILED: an error of type *handlers.PermanentError whose method Error panicked",
		},
		{
			name: "negative delays by hand", err: &handlers.SnoozeError{Delay: math.MinInt64},
			want: "SNOOZED QUEUED refund: snoozed for",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &handlers.Execution{Attempt: max(test.attempt, 1), MaxAttempts: 3, ScheduledAt: noon, StartedAt: noon}
			e.Note("a note")
			e.FollowUp(store.Task{Payload: job{"x"}})
			s := decideOutcome(taskdb.Claim{ID: "a"}, e, test.err, test.cause, safely(backoff))
			got := s.Outcome + " " + string(s.To)
			if s.Refund {
				got += " refund"
			}
			if s.NextIn != 0 {
				got += " in " + s.NextIn.String()
			}
			if s.Outcome == taskdb.OutcomeCompleted {
				if len(s.Effects.FollowUps) != 1 || *s.Message != "a note" || s.Error != nil {
					t.Errorf("effects %+v, message %v, error %v", s.Effects, s.Message, s.Error)
				}
			} else {
				got += ": " + *s.Error
				if len(s.Effects.FollowUps) != 0 || s.Message != s.Error || s.Result != nil {
					t.Errorf("a failed attempt has effects %+v, message %v", s.Effects, s.Message)
				}
			}
			if s.NextIn < 0 || s.Edited != taskdb.OutcomeSuperseded || s.NextAt != nil {
				t.Errorf("settlement %+v", s)
			}
			if !strings.HasPrefix(got, test.want) ||
				!strings.Contains(test.want, "method Error panicked") &&
					!strings.HasPrefix(test.name, "negative delays") && got != test.want {
				t.Errorf(" got %s\nwant %s", got, test.want)
			}
		})
	}
}

// spiteful is a payload whose methods panic.
type spiteful struct{ Key bool }

func (spiteful) TaskType() string { return "SPITEFUL" }

func (s spiteful) TaskKey() string {
	if s.Key {
		panic("no key")
	}
	return "key"
}

func (spiteful) MarshalJSON() ([]byte, error) { panic("no JSON") }

// What the database would refuse fails the task at once: it would refuse it at every attempt.
func TestConcludeChecksEffects(t *testing.T) {
	t.Parallel()
	var noJob *job
	for name, test := range map[string]struct {
		ask  func(e *handlers.Execution)
		want string
	}{
		"again at zero": {func(e *handlers.Execution) { e.Again(time.Time{}) }, "the years 1 to 9999"},
		"again too late": {
			func(e *handlers.Execution) { e.Again(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) },
			"the years 1 to 9999",
		},
		"again late in the west": {func(e *handlers.Execution) {
			e.Again(time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600*3)))
		}, "the years 1 to 9999"},
		"nil payload": {func(e *handlers.Execution) { e.FollowUp(store.Task{}) }, "follow-up 1: invalid: payload"},
		"second follow-up": {func(e *handlers.Execution) {
			e.FollowUp(store.Task{Payload: job{"x"}})
			e.FollowUp(store.Task{Payload: job{""}})
		}, "follow-up 2: invalid: id"},
		"bad priority": {
			func(e *handlers.Execution) { e.FollowUp(store.Task{Payload: job{"x"}, Priority: 101}) }, "priority",
		},
		"payload of a nil": {func(e *handlers.Execution) { e.FollowUp(store.Task{Payload: noJob}) }, "follow-up 1"},
		"payload that is list": {
			func(e *handlers.Execution) { e.FollowUp(store.Task{Payload: store.JSON(`[]`)}) }, "follow-up 1: invalid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &handlers.Execution{Attempt: 1, MaxAttempts: 3}
			test.ask(e)
			s := decideOutcome(taskdb.Claim{ID: "a"}, e, nil, nil, DefaultBackoff)
			if s.Outcome != taskdb.OutcomeFailed || s.To != store.StatusFailed || s.Error == nil ||
				!strings.Contains(*s.Error, test.want) {
				t.Errorf("%s to %s: %v, want %q", s.Outcome, s.To, taskdb.TextOf(s.Error), test.want)
			}
			if s.Effects.Again != nil || len(s.Effects.FollowUps) > 0 {
				t.Errorf("effects %+v", s.Effects)
			}
		})
	}
}

func TestConcludeKeepsTheResult(t *testing.T) {
	t.Parallel()
	for value, want := range map[any]string{
		nil:                     `null`,
		"a<b":                   `"a\u003cb"`,
		"NUL \x00 and \xff":     `"NUL � and �"`,
		json.Number("1e400"):    `1e400`,
		int64(math.MaxInt64):    `9223372036854775807`,
		[2]string{"\x00", "ok"}: `["�","ok"]`,
	} {
		e := &handlers.Execution{Attempt: 1, MaxAttempts: 3}
		e.Result("the last call counts")
		e.Result(value)
		e.Note("%s", "n\x00")
		s := decideOutcome(taskdb.Claim{ID: "a"}, e, nil, nil, DefaultBackoff)
		if s.Result == nil || *s.Result != want || *s.Message != "n\uFFFD" {
			t.Errorf("%v: result %s, want %s; message %q", value, taskdb.TextOf(s.Result), want, *s.Message)
		}
	}
}

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
			func(context.Context) error { return []error{}[len(name(""))] },
			"handler panicked: runtime error: index out of range",
		},
		"hostile": {
			func(context.Context) error { panic(&hostile{error: true}) },
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
		go call(t.Context(), test.run, func(err error) { ended <- err })
		err := receive(t, ended, 5*time.Second, name)
		if test.want == "" && err == nil || err != nil && test.want != "" && strings.HasPrefix(err.Error(), test.want) {
			var stack *handlers.PanicError
			if errors.As(err, &stack) &&
				(!strings.Contains(stack.Stack, "worker_outcome") || len(stack.Stack) > maxStack) {
				t.Errorf("%s: stack of %d bytes: %s", name, len(stack.Stack), stack.Stack)
			}
			continue
		}
		t.Errorf("%s: %v, want %q", name, err, test.want)
	}
}

type name string

func TestBackoff(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]time.Duration{
		-1: 10 * time.Second, 0: 10 * time.Second, 1: 10 * time.Second, 2: 30 * time.Second, 3: 90 * time.Second,
		4: 270 * time.Second, 6: 2430 * time.Second, 7: time.Hour, 1000: time.Hour, math.MaxInt: time.Hour,
	} {
		if got := backoffOf(attempt, 0); got != want {
			t.Errorf("after attempt %d: %s, want %s", attempt, got, want)
		}
		if got := backoffOf(attempt, 1); got != want*5/4 {
			t.Errorf("after attempt %d at most %s, want %s", attempt, got, want*5/4)
		}
		for range 20 {
			if got := DefaultBackoff(attempt, errOops); got < want || got > want*5/4 {
				t.Errorf("after attempt %d: %s", attempt, got)
			}
		}
	}
	panics := safely(func(int, error) time.Duration { panic("no") })
	if got := panics(2, errOops); got < 30*time.Second || got > 38*time.Second {
		t.Errorf("a backoff that panics: %s", got)
	}
}
