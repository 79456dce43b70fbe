package outcome

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

var errOops = errors.New("oops")

func TestConclude(t *testing.T) {
	t.Parallel()
	backoff := func(attempt int, err error) time.Duration {
		if !strings.Contains(sanitize.ErrorText(err), "oops") {
			return time.Hour
		}
		return time.Duration(attempt) * time.Minute
	}
	var (
		noPermanent *handlers.PermanentError
		noAfter     *handlers.RetryAfterError
		noSnooze    *handlers.SnoozeError
		noPanic     *handlers.PanicError
		noHostile   *enginetest.Hostile
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
		{name: "retry after", err: handlers.RetryAfter(time.Second, errOops), want: "RETRIED QUEUED in 1s: oops"},
		{
			name: "wrapped retry after", err: fmt.Errorf("a: %w", handlers.RetryAfter(time.Second, errOops)),
			attempt: 2, want: "RETRIED QUEUED in 1s: a: oops",
		},
		{
			name: "retry after the last", err: handlers.RetryAfter(time.Second, errOops), attempt: 3,
			want: "FAILED FAILED: oops",
		},
		{
			name: "negative retry after", err: handlers.RetryAfter(-time.Second, nil),
			want: "RETRIED QUEUED: retry asked for",
		},
		{name: "snooze", err: handlers.Snooze(time.Minute), want: "SNOOZED QUEUED refund in 1m0s: snoozed for 1m0s"},
		{
			name: "snooze at the last attempt", err: fmt.Errorf("a: %w", handlers.Snooze(time.Minute)), attempt: 3,
			want: "SNOOZED QUEUED refund in 1m0s: a: snoozed for 1m0s",
		},
		{
			name: "permanent wins over retry after", err: handlers.Permanent(handlers.RetryAfter(time.Second, errOops)),
			want: "FAILED FAILED: oops",
		},
		{
			name: "deadline", err: context.Canceled, cause: handlers.ErrDeadline,
			want: "RETRIED QUEUED in 1h0m0s: the attempt took longer than its expected_execution_time, timeout or deadline allows: context canceled",
		},
		{
			name: "deadline of the last", err: errOops, cause: handlers.ErrDeadline, attempt: 3,
			want: "FAILED FAILED: the attempt took longer than its expected_execution_time, timeout or deadline allows: oops",
		},
		{
			name: "deadline that the handler names", err: handlers.ErrDeadline, cause: handlers.ErrDeadline,
			want: "RETRIED QUEUED in 1h0m0s: the attempt took longer than its expected_execution_time, timeout or deadline allows",
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
			name: "panicking text", err: &enginetest.Hostile{InError: true},
			want: "RETRIED QUEUED in 1h0m0s: an error of type *enginetest.Hostile whose method Error panicked: no text",
		},
		{
			name: "panicking text at the deadline", err: &enginetest.Hostile{InError: true},
			cause: handlers.ErrDeadline,
			want: "RETRIED QUEUED in 1h0m0s: the attempt took longer than its expected_execution_time, timeout or deadline allows: " +
				"%!v(PANIC=Error method: no text)",
		},
		{name: "panicking As", err: &enginetest.Hostile{InAs: true}, want: "RETRIED QUEUED in 1h0m0s: hostile"},
		{name: "panicking Unwrap", err: &enginetest.Hostile{InUnwrap: true}, want: "RETRIED QUEUED in 1h0m0s: hostile"},
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
			want: "RETRIED QUEUED in 1h0m0s: an error of type *enginetest.Hostile whose method Error panicked",
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
			e := &handlers.Execution{
				Attempt: max(test.attempt, 1), MaxAttempts: 3, ScheduledAt: enginetest.Noon, StartedAt: enginetest.Noon,
			}
			e.Note("a note")
			e.FollowUp(store.Task{Payload: enginetest.Job{Name: "x"}})
			s := Decide(taskdb.Claim{ID: "a"}, e, test.err, test.cause, BackoffFor(nil, nil, backoff, nil))
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

// What the database would refuse fails the task at once: it would refuse it at every attempt.
func TestConcludeChecksEffects(t *testing.T) {
	t.Parallel()
	var noJob *enginetest.Job
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
			e.FollowUp(store.Task{Payload: enginetest.Job{Name: "x"}})
			e.FollowUp(store.Task{Payload: enginetest.Job{Name: ""}})
		}, "follow-up 2: invalid: id"},
		"bad priority": {
			func(e *handlers.Execution) { e.FollowUp(store.Task{Payload: enginetest.Job{Name: "x"}, Priority: 101}) },
			"priority",
		},
		"payload of a nil": {func(e *handlers.Execution) { e.FollowUp(store.Task{Payload: noJob}) }, "follow-up 1"},
		"payload that is list": {
			func(e *handlers.Execution) { e.FollowUp(store.Task{Payload: store.JSON(`[]`)}) }, "follow-up 1: invalid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &handlers.Execution{Attempt: 1, MaxAttempts: 3}
			test.ask(e)
			s := Decide(taskdb.Claim{ID: "a"}, e, nil, nil, DefaultBackoff)
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
		s := Decide(taskdb.Claim{ID: "a"}, e, nil, nil, DefaultBackoff)
		if s.Result == nil || *s.Result != want || *s.Message != "n\uFFFD" {
			t.Errorf("%v: result %s, want %s; message %q", value, taskdb.TextOf(s.Result), want, *s.Message)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]time.Duration{
		-1: 10 * time.Second, 0: 10 * time.Second, 1: 10 * time.Second, 2: 30 * time.Second, 3: 90 * time.Second,
		4: 270 * time.Second, 6: 2430 * time.Second, 7: time.Hour, 1000: time.Hour, math.MaxInt: time.Hour,
	} {
		for range 20 {
			if got := DefaultBackoff(attempt, errOops); got < want || got > want*5/4 {
				t.Errorf("after attempt %d: %s", attempt, got)
			}
		}
	}
	const of = "1m x2 max 1h jitter 50%"
	wait := func(d time.Duration) handlers.Backoff { return func(int, error) time.Duration { return d } }
	half := func() float64 { return 0.5 }
	for name, one := range map[string]struct {
		got  handlers.Backoff
		want time.Duration
	}{
		"of the node":                      {BackoffFor(nil, nil, wait(7), half), 7},
		"of the task":                      {BackoffFor(nil, new(of), wait(7), half), 150 * time.Second},
		"of the type":                      {BackoffFor(wait(8), new(of), wait(7), half), 8},
		"a text past the database's check": {BackoffFor(nil, new("soon"), wait(7), half), 7},
	} {
		if got := one.got(2, errOops); got != one.want {
			t.Errorf("%s: %s, want %s", name, got, one.want)
		}
	}
	panics := BackoffFor(func(int, error) time.Duration { panic("no") }, nil, wait(7), half)
	if got := panics(2, errOops); got < 30*time.Second || got > 38*time.Second {
		t.Errorf("a backoff that panics: %s", got)
	}
}
