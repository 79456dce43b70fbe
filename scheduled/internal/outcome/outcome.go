// Package outcome decides what happens to a task whose attempt has run.
package outcome

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/backoff"
)

// Decide decides what happens to a task whose attempt has run. err is the handler's error. cause is why the
// handler's context ended, or nil if it did not end. settleSQL in taskdb/settle.go decides whether the task of a lost
// attempt runs again, because only the row says how many attempts it may have.
func Decide(claim taskdb.Claim, e *handlers.Execution, err, cause error, delay handlers.Backoff) taskdb.Settlement {
	if !e.DueAt.IsZero() {
		claim.Due = e.DueAt // before the task's waits, if there were some
	}
	s := taskdb.Settlement{
		Claim: claim, Type: e.Type, ScheduledAt: &e.ScheduledAt, StartedAt: &e.StartedAt,
		Outcome: taskdb.OutcomeCompleted, Edited: taskdb.OutcomeSuperseded, To: store.StatusCompleted,
	}
	if err == nil {
		if err = CheckEffects(e.Effects()); err == nil {
			s.Effects = e.Effects()
			s.Effects.IfDead = nil
			s.Effects.Result = sanitize.JSON(s.Effects.Result)
			if s.Effects.Result != nil {
				s.Result = new(string(s.Effects.Result))
			}
			if s.Effects.Note != "" {
				s.Message = new(sanitize.Text(s.Effects.Note))
			}
			return s
		}
	}
	if errors.Is(cause, handlers.ErrDeadline) && !errors.Is(err, handlers.ErrDeadline) {
		err = fmt.Errorf("%w: %w", handlers.ErrDeadline, err)
	}
	s.Error = new(sanitize.Text(sanitize.ErrorText(err)))
	s.Message = s.Error
	wish := retryHintOf(err)
	switch {
	case errors.Is(cause, handlers.ErrInterrupted), errors.Is(cause, handlers.ErrLeaseLost):
		s.Outcome, s.To, s.Refund = taskdb.OutcomeInterrupted, store.StatusQueued, true
	case wish.snooze != nil:
		s.Outcome, s.To, s.Refund, s.NextIn = taskdb.OutcomeSnoozed, store.StatusQueued, true, max(*wish.snooze, 0)
		s.Waits = wish.waits
	case wish.permanent, e.Attempt >= e.MaxAttempts:
		s.Outcome, s.To = taskdb.OutcomeFailed, store.StatusFailed
		s.Effects = handlers.Effects{FollowUps: e.Effects().IfDead, Trace: e.Effects().Trace}
		if refused := e.Effects().Err; refused != nil && !errors.Is(err, refused) {
			addReason(&s, refused)
		}
	case wish.after != nil:
		s.Outcome, s.To, s.NextIn = taskdb.OutcomeRetried, store.StatusQueued, max(*wish.after, 0)
	default:
		s.Outcome, s.To, s.NextIn = taskdb.OutcomeRetried, store.StatusQueued, max(delay(e.Attempt, err), 0)
	}
	return s
}

// addReason adds to the error of a failed attempt that something it asked for is left out.
func addReason(s *taskdb.Settlement, why error) {
	s.Error = new(*s.Error + "; " + sanitize.Text(sanitize.ErrorText(why)))
	s.Message = s.Error
}

// retryHint is a request that an error makes, besides being an error.
type retryHint struct {
	permanent     bool
	snooze, after *time.Duration
	waits         bool // with snooze: see handlers.Wait
}

// retryHintOf reads an error. The methods of the error are the handler's code and may panic, as they do if a nil
// pointer is in the error interface. An error that panics is an error without a wish.
func retryHintOf(err error) (asked retryHint) {
	defer func() {
		if recover() != nil {
			asked = retryHint{}
		}
	}()
	var (
		permanent *handlers.PermanentError
		after     *handlers.RetryAfterError
		snooze    *handlers.SnoozeError
		wait      *handlers.WaitError
	)
	asked.permanent = errors.As(err, &permanent)
	if errors.As(err, &after) {
		asked.after = &after.Delay
	}
	if errors.As(err, &wait) {
		asked.snooze, asked.waits = &wait.Delay, true
	}
	if errors.As(err, &snooze) {
		asked.snooze, asked.waits = &snooze.Delay, false
	}
	return asked
}

// CheckEffects finds effects that the database would refuse. It would refuse them again at the next attempt,
// therefore the task fails.
func CheckEffects(effects handlers.Effects) error {
	if again := effects.Again; again != nil && (again.IsZero() || again.UTC().Year() < 1 || again.UTC().Year() > 9999) {
		return handlers.Permanent(fmt.Errorf("Again: %w: the time must be in the years 1 to 9999, got %s",
			store.ErrInvalid, again))
	}
	if size := len(effects.Result); size > handlers.MaxResultBytes {
		return handlers.Permanent(fmt.Errorf("Result: %w: the result must be at most %d KiB of JSON text, got %d bytes",
			store.ErrInvalid, handlers.MaxResultBytes>>10, size))
	}
	return handlers.Permanent(effects.Err)
}

// DefaultBackoff is the wait of backoff.Default after a failed attempt. It ignores the error.
func DefaultBackoff(attempt int, _ error) time.Duration {
	return backoff.Default().Wait(attempt, rand.Float64())
}

// BackoffFor returns the wait after a failed attempt of a task: by the function of its type's handler, else by the
// task's own text and a random number from 0 to 1, else by the function of the node. If a function panics,
// DefaultBackoff takes its place, so that it does not end the process.
func BackoffFor(
	ofType handlers.Backoff, ofTask *string, ofNode handlers.Backoff, random func() float64,
) handlers.Backoff {
	wait := ofNode
	if ofType != nil {
		wait = ofType
	} else if ofTask != nil {
		if policy, err := backoff.Parse(*ofTask); err == nil { // the database has checked it
			return func(attempt int, _ error) time.Duration { return policy.Wait(attempt, random()) }
		}
	}
	return func(attempt int, err error) (delay time.Duration) {
		defer func() {
			if recover() != nil {
				delay = DefaultBackoff(attempt, err)
			}
		}()
		return wait(attempt, err)
	}
}
