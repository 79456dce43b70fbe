package scheduled

import (
	"context"
	"log/slog"
	"time"
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

const (
	deadMost  = 1000            // how many calls of OnDead may wait
	deadGrace = 5 * time.Second // for those that are left when the node stops
)

// undertaker calls Config.OnDead, apart from the engine: a hook that blocks or panics holds nothing up.
type undertaker struct {
	hook  func(ctx context.Context, dead Dead)
	log   *slog.Logger
	in    chan Dead
	grace time.Duration
}

func newUndertaker(hook func(ctx context.Context, dead Dead), log *slog.Logger) *undertaker {
	return &undertaker{hook: hook, log: log, in: make(chan Dead, deadMost), grace: deadGrace}
}

// tell has the hook called, soon.
func (u *undertaker) tell(dead Dead) {
	if u.hook == nil {
		return
	}
	select {
	case u.in <- dead:
	default:
		u.leaveOut(dead)
	}
}

func (u *undertaker) leaveOut(dead Dead) {
	u.log.Error("OnDead is too slow; a call is left out", "task", dead.ID, "type", dead.Type, "revision", dead.Revision, "attempt", dead.Attempt, "outcome", dead.Outcome)
}

// run works until ctx is done, and then through what is in line. The hook's context ends a while after ctx: a hook that waits for
// it must not keep the node from stopping.
func (u *undertaker) run(ctx context.Context) {
	hooks, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(u.grace, end) })()
	for {
		select {
		case dead := <-u.in:
			u.call(hooks, dead)
		case <-ctx.Done():
			for {
				select {
				case dead := <-u.in:
					u.call(hooks, dead)
				default:
					return
				}
			}
		}
	}
}

func (u *undertaker) call(ctx context.Context, dead Dead) {
	if ctx.Err() != nil {
		u.leaveOut(dead)
		return
	}
	done := make(chan error, 1)
	go call(ctx, func(ctx context.Context) error { u.hook(ctx, dead); return nil }, func(err error) { done <- err })
	if err := <-done; err != nil {
		u.log.Error("OnDead panicked", "task", dead.ID, "type", dead.Type, "revision", dead.Revision, "attempt", dead.Attempt, "error", err)
	}
}

func deadOf(s settlement, state settled) Dead {
	dead := Dead{ID: s.ID, Type: state.Type, Outcome: s.Outcome, Status: state.Status, Revision: s.Revision, Attempt: s.Attempt}
	if s.Error != nil {
		dead.Error = *s.Error
	}
	return dead
}
