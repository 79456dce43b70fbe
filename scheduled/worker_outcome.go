package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// decideOutcome decides what happens to a task whose attempt has run. err is the handler's error. cause is why the
// handler's context ended, or nil if it did not end.
func decideOutcome(h taskdb.Claim, e *handlers.Execution, err, cause error, delay handlers.Backoff) taskdb.Settlement {
	s := taskdb.Settlement{
		Claim: h, Type: e.Type, ScheduledAt: &e.ScheduledAt, StartedAt: &e.StartedAt,
		Outcome: taskdb.OutcomeCompleted, Edited: taskdb.OutcomeSuperseded, To: store.StatusCompleted,
	}
	if err == nil {
		if err = checkEffects(e.Effects()); err == nil {
			s.Effects = e.Effects()
			s.Effects.Result = taskdb.SanitizeJSON(s.Effects.Result)
			if s.Effects.Result != nil {
				s.Result = new(string(s.Effects.Result))
			}
			if s.Effects.Note != "" {
				s.Message = new(taskdb.Sanitize(s.Effects.Note))
			}
			return s
		}
	}
	if errors.Is(cause, handlers.ErrDeadline) && !errors.Is(err, handlers.ErrDeadline) {
		err = fmt.Errorf("%w: %w", handlers.ErrDeadline, err)
	}
	s.Error = new(taskdb.Sanitize(taskdb.ErrorText(err)))
	s.Message = s.Error
	wish := retryHintOf(err)
	switch {
	case errors.Is(cause, handlers.ErrInterrupted), errors.Is(cause, handlers.ErrLeaseLost):
		s.Outcome, s.To, s.Refund = taskdb.OutcomeInterrupted, store.StatusQueued, true
	case wish.snooze != nil:
		s.Outcome, s.To, s.Refund, s.NextIn = taskdb.OutcomeSnoozed, store.StatusQueued, true, max(*wish.snooze, 0)
	case wish.permanent, e.Attempt >= e.MaxAttempts:
		s.Outcome, s.To = taskdb.OutcomeFailed, store.StatusFailed
	case wish.after != nil:
		s.Outcome, s.To, s.NextIn = taskdb.OutcomeRetried, store.StatusQueued, max(*wish.after, 0)
	default:
		s.Outcome, s.To, s.NextIn = taskdb.OutcomeRetried, store.StatusQueued, max(delay(e.Attempt, err), 0)
	}
	return s
}

// retryHint is a request that an error makes, besides being an error.
type retryHint struct {
	permanent     bool
	snooze, after *time.Duration
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
	)
	asked.permanent = errors.As(err, &permanent)
	if errors.As(err, &after) {
		asked.after = &after.Delay
	}
	if errors.As(err, &snooze) {
		asked.snooze = &snooze.Delay
	}
	return asked
}

// checkEffects finds effects that the database would refuse. It would refuse them again at the next attempt,
// therefore the task fails.
func checkEffects(effects handlers.Effects) error {
	if again := effects.Again; again != nil && (again.IsZero() || again.UTC().Year() < 1 || again.UTC().Year() > 9999) {
		return handlers.Permanent(fmt.Errorf("Again: %w: the time must be in the years 1 to 9999, got %s",
			store.ErrInvalid, again))
	}
	return handlers.Permanent(effects.Err)
}

// call runs one attempt and turns a panic into an error. It must run on a goroutine of its own, because
// runtime.Goexit ends the goroutine, and only a deferred function notices that.
func call(ctx context.Context, run func(context.Context) error, done func(error)) {
	finished := false
	var err error
	defer func() {
		if !finished {
			// recover returns nil after Goexit, too. Therefore finished says whether run returned.
			err = panicked(recover())
		}
		done(err)
	}()
	err = run(ctx)
	finished = true
}
