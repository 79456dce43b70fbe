package scheduled

import (
	"context"
	"log/slog"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
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

// final reports whether the task does not run again by itself. A lost claim is not final if its task has attempts
// left.
func (d Dead) final() bool {
	return d.Status == string(store.StatusFailed) || d.Status == string(store.StatusExpired)
}

// hook is the name of the hook to be called.
func (d Dead) hook() string {
	if d.final() {
		return "OnDead"
	}
	return "OnLost"
}

const (
	maxFailuresQueued = 1000            // how many calls of the hooks may wait
	deadGrace         = 5 * time.Second // for the calls that are left when the node stops
)

// failureNotifier calls Config.OnDead and Config.OnLost on a goroutine of its own, so that a hook that blocks or panics
// does not hold up the engine.
type failureNotifier struct {
	dead  func(ctx context.Context, dead Dead)
	lost  func(ctx context.Context, lost Lost)
	log   *slog.Logger
	in    chan Dead
	grace time.Duration
}

func newFailureNotifier(
	dead func(ctx context.Context, dead Dead), lost func(ctx context.Context, lost Lost), log *slog.Logger,
) *failureNotifier {
	return &failureNotifier{dead: dead, lost: lost, log: log, in: make(chan Dead, maxFailuresQueued), grace: deadGrace}
}

// tell puts a call of the hook in line. It does not wait.
func (u *failureNotifier) tell(dead Dead) {
	if dead.final() && u.dead == nil || !dead.final() && u.lost == nil {
		return
	}
	select {
	case u.in <- dead:
	default:
		u.leaveOut(dead)
	}
}

func (u *failureNotifier) leaveOut(dead Dead) {
	u.log.Error(dead.hook()+" is too slow; a call is left out", "task", dead.ID, "type", dead.Type,
		"revision", dead.Revision, "attempt", dead.Attempt, "outcome", dead.Outcome)
}

// run works until ctx is done, and then makes the calls that are still in line. The hook's context ends a while after
// ctx, so that a hook that waits for its context does not keep the node from stopping.
func (u *failureNotifier) run(ctx context.Context) {
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

func (u *failureNotifier) call(ctx context.Context, dead Dead) {
	if ctx.Err() != nil {
		u.leaveOut(dead)
		return
	}
	done := make(chan error, 1)
	go call(ctx, func(ctx context.Context) error { u.notify(ctx, dead); return nil }, func(err error) { done <- err })
	select {
	case err := <-done:
		u.returned(dead, err)
	case <-ctx.Done():
		select {
		case err := <-done:
			u.returned(dead, err)
		case <-time.After(u.grace): // neither the node's next life nor its stop waits for the hook
			u.log.Error(dead.hook()+" ignores its context; it is left behind", "task", dead.ID, "type", dead.Type,
				"revision", dead.Revision, "attempt", dead.Attempt)
		}
	}
}

// returned logs that a hook panicked.
func (u *failureNotifier) returned(dead Dead, err error) {
	if err != nil {
		u.log.Error(dead.hook()+" panicked", "task", dead.ID, "type", dead.Type,
			"revision", dead.Revision, "attempt", dead.Attempt, "error", err)
	}
}

func (u *failureNotifier) notify(ctx context.Context, dead Dead) {
	if dead.final() {
		u.dead(ctx, dead)
		return
	}
	u.lost(ctx, Lost{
		ID: dead.ID, Type: dead.Type, Status: dead.Status,
		Revision: dead.Revision, Attempt: dead.Attempt, Error: dead.Error,
	})
}

// deadOf makes a Dead of a settlement. It does so also for a lost claim whose task runs again: see final.
func deadOf(s taskdb.Settlement, state taskdb.SettleResult) Dead {
	dead := Dead{
		ID: s.ID, Type: state.Type, Outcome: s.Outcome, Status: state.Status, Revision: s.Revision, Attempt: s.Attempt,
	}
	if s.Error != nil {
		dead.Error = *s.Error
	}
	return dead
}
