package scheduled

import (
	"context"
	"log/slog"
	"sync"
)

// Dead is a task that will not run unless somebody retries it, or a claim that was lost.
type Dead struct {
	ID       string
	Type     string
	Outcome  string // FAILED, EXPIRED or LOST
	Status   string // of the task now: FAILED, EXPIRED, or after LOST mostly QUEUED, to run again
	Revision int64
	Attempt  int
	Error    string
}

// deadMost is how many calls of OnDead may wait.
const deadMost = 1000

// undertaker calls Config.OnDead, apart from the engine: a hook that blocks or panics holds nothing up.
type undertaker struct {
	hook func(ctx context.Context, dead Dead)
	log  *slog.Logger
	in   chan Dead
	wg   sync.WaitGroup
}

func newUndertaker(hook func(ctx context.Context, dead Dead), log *slog.Logger) *undertaker {
	return &undertaker{hook: hook, log: log, in: make(chan Dead, deadMost)}
}

// tell has the hook called, soon.
func (u *undertaker) tell(dead Dead) {
	if u.hook == nil {
		return
	}
	select {
	case u.in <- dead:
	default:
		u.log.Error("OnDead is too slow; a call is left out", "task", dead.ID, "type", dead.Type, "revision", dead.Revision, "attempt", dead.Attempt, "outcome", dead.Outcome)
	}
}

// run works until ctx is done, and then through what is in line.
func (u *undertaker) run(ctx context.Context) {
	for {
		select {
		case dead := <-u.in:
			u.call(ctx, dead)
		case <-ctx.Done():
			for {
				select {
				case dead := <-u.in:
					u.call(context.WithoutCancel(ctx), dead)
				default:
					return
				}
			}
		}
	}
}

func (u *undertaker) call(ctx context.Context, dead Dead) {
	defer func() {
		if value := recover(); value != nil {
			u.log.Error("OnDead panicked", "task", dead.ID, "type", dead.Type, "revision", dead.Revision, "attempt", dead.Attempt, "error", panicked(value))
		}
	}()
	u.hook(ctx, dead)
}

func deadOf(s settlement, state settled) Dead {
	dead := Dead{ID: s.ID, Type: state.Type, Outcome: s.Outcome, Status: state.Status, Revision: s.Revision, Attempt: s.Attempt}
	if s.Error != nil {
		dead.Error = *s.Error
	}
	return dead
}
