package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// Words of scheduled_task_executions.outcome.
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

// settlement is what is to be recorded of one claim. Where the row has been edited or cancelled since the claim, only the hold
// is released, and the line says edited instead of outcome.
type settlement struct {
	hold
	Type        string
	ScheduledAt *time.Time // as claimed; nil: as the row has it
	StartedAt   *time.Time // nil: it never started
	Outcome     string
	Edited      string       // the outcome if the row is not this attempt's any more
	To          store.Status // the row's next status; "" with outcomeLost: by the attempts it has left
	NextAt      *time.Time   // with QUEUED: when
	NextIn      time.Duration
	Refund      bool // the attempt does not count
	Error       *string
	Message     *string
	Result      *string
	Effects     handlers.Effects
}

// conclude decides what becomes of a task whose attempt has run. err is what the handler returned, cause why its context
// ended, if it did.
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

// wish is what an error asks for, besides being one.
type wish struct {
	permanent     bool
	snooze, after *time.Duration
}

// wishOf reads an error. Its methods are the handler's code and may panic, as those of a nil pointer in an error interface do:
// then it is an error like any other.
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

// checkEffects finds what the database would refuse. It would refuse it again at the next attempt, so the task fails.
func checkEffects(effects handlers.Effects) error {
	if again := effects.Again; again != nil && (again.IsZero() || again.UTC().Year() < 1 || again.UTC().Year() > 9999) {
		return handlers.Permanent(fmt.Errorf("Again: %w: the time must be in the years 1 to 9999, got %s", store.ErrInvalid, again))
	}
	return handlers.Permanent(effects.Err)
}

// released hands a claim back that never started.
func released(h hold, why string) settlement {
	return settlement{
		hold: h, Outcome: outcomeReleased, Edited: outcomeReleased, To: store.StatusQueued, NextAt: &h.Due, Refund: true, Error: new(why),
	}
}

// expired ends a task whose time was over before this attempt could start.
func expired(h hold) settlement {
	return settlement{
		hold: h, Outcome: outcomeExpired, Edited: outcomeReleased, To: store.StatusExpired, Refund: true, Error: new("expired before it could start"),
		Message: new("expired before it could start"),
	}
}

// lost ends a claim whose holder is gone. The attempt counts: it may have begun.
func lost(h hold, why string) settlement {
	return settlement{hold: h, Outcome: outcomeLost, Edited: outcomeLost, Error: new(why), Message: new(why)}
}

// call runs one attempt and turns a panic into an error. It must run on a goroutine of its own: Goexit ends that goroutine,
// and only the deferred function sees it.
func call(ctx context.Context, run func(context.Context) error, done func(error)) {
	finished := false
	var err error
	defer func() {
		if !finished {
			// Not in an else: recover returns nil for Goexit.
			err = panicked(recover())
		}
		done(err)
	}()
	err = run(ctx)
	finished = true
}
