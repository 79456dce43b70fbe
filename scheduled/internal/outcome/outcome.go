// Package outcome decides what happens to a task whose attempt has run.
package outcome

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
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

// These constants make the default backoff: 10 s, 30 s, 90 s, 270 s and so on, at most an hour, plus up to a quarter.
// The ten attempts that a task has by default take 4 h to 5 h.
const (
	backoffBase   = 10 * time.Second
	backoffFactor = 3
	backoffCap    = time.Hour
	backoffJitter = 0.25
)

// DefaultBackoff returns the wait after a failed attempt. The first attempt has the number 1. The wait is 10 s × 3ⁿ⁻¹
// for attempt n, at most an hour, plus a random part of up to a quarter, so that tasks that failed together do not
// come back together. It ignores the error.
func DefaultBackoff(attempt int, _ error) time.Duration {
	return BackoffOf(attempt, rand.Float64())
}

// BackoffOf is DefaultBackoff with a given random part from 0 to 1.
func BackoffOf(attempt int, random float64) time.Duration {
	delay := float64(backoffBase) * math.Pow(backoffFactor, float64(max(attempt, 1)-1))
	delay = min(delay, float64(backoffCap))
	return time.Duration(delay * (1 + backoffJitter*random))
}

// Safely keeps a backoff that panics from ending the process. DefaultBackoff takes its place.
func Safely(backoff handlers.Backoff) handlers.Backoff {
	return func(attempt int, err error) (delay time.Duration) {
		defer func() {
			if recover() != nil {
				delay = DefaultBackoff(attempt, err)
			}
		}()
		return backoff(attempt, err)
	}
}
