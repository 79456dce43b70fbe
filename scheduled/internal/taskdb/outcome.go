package taskdb

import (
	"math"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// The values of scheduled_task_executions.outcome, which are those of store.AttemptOutcome. The comment of that column
// explains them. They have no type, because here they are parameters of statements, and there results of attempts. The
// database refuses any other word.
const (
	OutcomeCompleted   = "COMPLETED"
	OutcomeFailed      = "FAILED"
	OutcomeRetried     = "RETRIED"
	OutcomeSnoozed     = "SNOOZED"
	OutcomeLost        = "LOST"
	OutcomeSuperseded  = "SUPERSEDED"
	OutcomeExpired     = "EXPIRED"
	OutcomeInterrupted = "INTERRUPTED"
	OutcomeReleased    = "RELEASED"
	OutcomeCancelled   = "CANCELLED"
)

// Settlement is what is to be recorded about one claim. If the row has been edited or cancelled since the claim, only
// the claim is released, and the line in the history has Edited in the place of Outcome.
type Settlement struct {
	Claim
	Type        string
	ScheduledAt *time.Time // as the claim had it; nil: as the row has it
	StartedAt   *time.Time // nil: the attempt never started
	Outcome     string
	Edited      string       // the outcome if the row no longer belongs to this attempt
	To          store.Status // the row's next status; "" with OutcomeLost: it depends on the attempts left
	NextAt      *time.Time   // with QUEUED: when the next attempt is due
	NextIn      time.Duration
	Refund      bool // the attempt does not count
	Waits       bool // with SNOOZED: something is out of order, see handlers.Wait
	Error       *string
	Message     *string
	Result      *string
	Effects     handlers.Effects
	InTx        bool // the handler's own transaction records it, with the handler's writes
}

// Released hands back a claim that never started.
func Released(h Claim, why string) Settlement {
	return Settlement{
		Claim: h, Outcome: OutcomeReleased, Edited: OutcomeReleased, To: store.StatusQueued,
		NextAt: &h.Due, Refund: true, Error: new(why),
	}
}

// Refused is the settlement of a claim that the gate did not let through. It reports false for other verdicts.
func Refused(h Claim, answer GateAnswer) (s Settlement, is bool) {
	switch answer.Verdict {
	case VerdictEarly:
		s = Released(h, "its row says that it is due later")
		s.NextAt = new(answer.Now.Add(time.Duration(min(answer.DueIn, math.MaxInt32) * float64(time.Second))))
		return s, true
	case VerdictEdited:
		return Released(h, "edited or cancelled before it started"), true
	case VerdictPaused:
		return Released(h, "its queue or type is paused"), true
	case VerdictExpired:
		return Expired(h), true
	}
	return s, false
}

// Expired ends a task that expired before this attempt could start.
func Expired(h Claim) Settlement {
	return Settlement{
		Claim: h, Outcome: OutcomeExpired, Edited: OutcomeReleased, To: store.StatusExpired,
		Refund: true, Error: new("expired before it could start"), Message: new("expired before it could start"),
	}
}

// Lost ends a claim whose holder is gone. The attempt counts, because it may have begun.
func Lost(h Claim, why string) Settlement {
	return Settlement{Claim: h, Outcome: OutcomeLost, Edited: OutcomeLost, Error: new(why), Message: new(why)}
}
