package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// The values of scheduled_task_executions.outcome. The comment of that column explains them.
const (
	outcomeCompleted   = "COMPLETED"
	outcomeFailed      = "FAILED"
	outcomeRetried     = "RETRIED"
	outcomeSnoozed     = "SNOOZED"
	outcomeLost        = "LOST"
	outcomeSuperseded  = "SUPERSEDED"
	outcomeExpired     = "EXPIRED"
	outcomeInterrupted = "INTERRUPTED"
	outcomeReleased    = "RELEASED"
	outcomeCancelled   = "CANCELLED"
)

// settlement is what is to be recorded about one claim. If the row has been edited or cancelled since the claim, only
// the hold is released, and the line in the history has Edited in the place of Outcome.
type settlement struct {
	hold
	Type        string
	ScheduledAt *time.Time // as the claim had it; nil: as the row has it
	StartedAt   *time.Time // nil: the attempt never started
	Outcome     string
	Edited      string       // the outcome if the row no longer belongs to this attempt
	To          store.Status // the row's next status; "" with outcomeLost: it depends on the attempts left
	NextAt      *time.Time   // with QUEUED: when the next attempt is due
	NextIn      time.Duration
	Refund      bool // the attempt does not count
	Error       *string
	Message     *string
	Result      *string
	Effects     handlers.Effects
}

// conclude decides what happens to a task whose attempt has run. err is the handler's error. cause is why the
// handler's context ended, or nil if it did not end.
func conclude(h hold, e *handlers.Execution, err, cause error, delay handlers.Backoff) settlement {
	s := settlement{
		hold: h, Type: e.Type, ScheduledAt: &e.ScheduledAt, StartedAt: &e.StartedAt,
		Outcome: outcomeCompleted, Edited: outcomeSuperseded, To: store.StatusCompleted,
	}
	if err == nil {
		if err = checkEffects(e.Effects()); err == nil {
			s.Effects = e.Effects()
			s.Effects.Result = scrubJSON(s.Effects.Result)
			if s.Effects.Result != nil {
				s.Result = new(string(s.Effects.Result))
			}
			if s.Effects.Note != "" {
				s.Message = new(scrub(s.Effects.Note))
			}
			return s
		}
	}
	if errors.Is(cause, handlers.ErrDeadline) && !errors.Is(err, handlers.ErrDeadline) {
		err = fmt.Errorf("%w: %w", handlers.ErrDeadline, err)
	}
	s.Error = new(scrub(errorText(err)))
	s.Message = s.Error
	wish := wishOf(err)
	switch {
	case errors.Is(cause, handlers.ErrInterrupted), errors.Is(cause, handlers.ErrLeaseLost):
		s.Outcome, s.To, s.Refund = outcomeInterrupted, store.StatusQueued, true
	case wish.snooze != nil:
		s.Outcome, s.To, s.Refund, s.NextIn = outcomeSnoozed, store.StatusQueued, true, max(*wish.snooze, 0)
	case wish.permanent, e.Attempt >= e.MaxAttempts:
		s.Outcome, s.To = outcomeFailed, store.StatusFailed
	case wish.after != nil:
		s.Outcome, s.To, s.NextIn = outcomeRetried, store.StatusQueued, max(*wish.after, 0)
	default:
		s.Outcome, s.To, s.NextIn = outcomeRetried, store.StatusQueued, max(delay(e.Attempt, err), 0)
	}
	return s
}

// wish is a request that an error makes, besides being an error.
type wish struct {
	permanent     bool
	snooze, after *time.Duration
}

// wishOf reads an error. The methods of the error are the handler's code and may panic, as they do if a nil pointer
// is in the error interface. An error that panics is an error without a wish.
func wishOf(err error) (asked wish) {
	defer func() {
		if recover() != nil {
			asked = wish{}
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

// released hands back a claim that never started.
func released(h hold, why string) settlement {
	return settlement{
		hold: h, Outcome: outcomeReleased, Edited: outcomeReleased, To: store.StatusQueued,
		NextAt: &h.Due, Refund: true, Error: new(why),
	}
}

// expired ends a task that expired before this attempt could start.
func expired(h hold) settlement {
	return settlement{
		hold: h, Outcome: outcomeExpired, Edited: outcomeReleased, To: store.StatusExpired,
		Refund: true, Error: new("expired before it could start"), Message: new("expired before it could start"),
	}
}

// lost ends a claim whose holder is gone. The attempt counts, because it may have begun.
func lost(h hold, why string) settlement {
	return settlement{hold: h, Outcome: outcomeLost, Edited: outcomeLost, Error: new(why), Message: new(why)}
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
