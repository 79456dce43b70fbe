package scheduled

import (
	"context"
	"log/slog"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
)

// Dead is a task that does not run again unless somebody retries it.
type Dead struct {
	ID       string
	Type     string
	Outcome  string // the outcome of its last attempt: FAILED, EXPIRED or LOST
	Status   string // the task's status now: FAILED or EXPIRED
	Revision int64
	Attempt  int
	Error    string
}

// Lost is an attempt whose node died or whose lease ended. The attempt may have begun, and may even have done its
// work.
type Lost struct {
	ID       string
	Type     string
	Status   string // the task's status now: QUEUED, unless somebody has cancelled or paused it meanwhile
	Revision int64
	Attempt  int
	Error    string // why the attempt was lost
}

// newFailureNotifier makes the notifier that calls OnDead and OnLost.
func newFailureNotifier(config Config, log *slog.Logger) *failures.Notifier {
	hooks := failures.Config{Log: log, Grace: config.hookGrace}
	if config.OnDead != nil {
		hooks.Dead = func(ctx context.Context, dead failures.Failure) { config.OnDead(ctx, Dead(dead)) }
	}
	if config.OnLost != nil {
		hooks.Lost = func(ctx context.Context, lost failures.Failure) {
			config.OnLost(ctx, Lost{
				ID: lost.ID, Type: lost.Type, Status: lost.Status,
				Revision: lost.Revision, Attempt: lost.Attempt, Error: lost.Error,
			})
		}
	}
	return failures.New(hooks)
}
