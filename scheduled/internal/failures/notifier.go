// Package failures tells an application of the tasks that failed for good, and of the attempts that were lost.
package failures

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/panics"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Failure is a task that does not run again by itself, or a lost attempt of a task that does. scheduled.Failure has
// the same fields and others.
type Failure struct {
	ID       string
	Type     string
	Outcome  string // the outcome of the last attempt: FAILED, EXPIRED or LOST
	Status   string // the task's status now
	Revision int64
	Attempt  int
	Error    string
}

const (
	maxQueued    = 1000            // how many calls of the hooks may wait
	defaultGrace = 5 * time.Second // for the calls that are left when the node stops
)

// Notifier calls Config.OnDead and Config.OnLost on a goroutine of its own, so that a hook that blocks or panics
// does not hold up the engine.
type Notifier struct {
	config Config
	in     chan Failure
}

// Config is the configuration of a Notifier. A hook that is nil is not called.
type Config struct {
	Dead func(ctx context.Context, dead Failure)
	Lost func(ctx context.Context, lost Failure)
	Log  *slog.Logger
	// Grace is for the calls that are left when the node stops. The default is 5 s.
	Grace time.Duration
}

// New makes a Notifier. It calls no hook before Run.
func New(config Config) *Notifier {
	if config.Grace == 0 {
		config.Grace = defaultGrace
	}
	return &Notifier{config: config, in: make(chan Failure, maxQueued)}
}

// hook is the hook to be called, and its name. A lost claim is not dead if its task has attempts left.
func (n *Notifier) hook(failure Failure) (name string, hook func(context.Context, Failure)) {
	if failure.Status == string(store.StatusFailed) || failure.Status == string(store.StatusExpired) {
		return "OnDead", n.config.Dead
	}
	return "OnLost", n.config.Lost
}

// Tell puts a call of the hook in line. It does not wait.
func (n *Notifier) Tell(failure Failure) {
	if _, hook := n.hook(failure); hook == nil {
		return
	}
	select {
	case n.in <- failure:
	default:
		n.LeaveOut(failure)
	}
}

// LeaveOut logs a call of a hook that is not made.
func (n *Notifier) LeaveOut(failure Failure) {
	n.log(failure, "is too slow; a call is left out", "outcome", failure.Outcome)
}

func (n *Notifier) log(failure Failure, what string, more ...any) {
	name, _ := n.hook(failure)
	n.config.Log.Error(name+" "+what, append([]any{
		"task", failure.ID, "type", failure.Type, "revision", failure.Revision, "attempt", failure.Attempt,
	}, more...)...)
}

// Run works until ctx is done, and then makes the calls that are still in line. The hook's context ends a while after
// ctx, so that a hook that waits for its context does not keep the node from stopping.
func (n *Notifier) Run(ctx context.Context) {
	hooks, end := n.afterGrace(ctx)
	defer end()
	for ctx.Err() == nil || len(n.in) > 0 {
		select {
		case failure := <-n.in:
			n.call(hooks, failure)
		case <-ctx.Done():
		}
	}
}

// afterGrace returns a context that ends when the grace after the end of ctx is over.
func (n *Notifier) afterGrace(ctx context.Context) (later context.Context, end func()) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(n.config.Grace, cancel) })
	return later, func() { stop(); cancel() }
}

func (n *Notifier) call(ctx context.Context, failure Failure) {
	if ctx.Err() != nil {
		n.LeaveOut(failure)
		return
	}
	_, hook := n.hook(failure)
	done := make(chan error, 1)
	go panics.Call(
		ctx, func(ctx context.Context) error { hook(ctx, failure); return nil }, func(err error) { done <- err },
	)
	patience, end := n.afterGrace(ctx)
	defer end()
	select {
	case err := <-done:
		if err != nil {
			n.log(failure, "panicked", "error", err)
		}
	case <-patience.Done(): // neither the node's next instance nor its stop waits for the hook
		n.log(failure, "ignores its context; it is left behind")
	}
}

// Of makes a Failure of a settlement. It does so also for a lost claim whose task runs again.
func Of(s taskdb.Settlement, state taskdb.SettleResult) Failure {
	failure := Failure{
		ID: s.ID, Type: state.Type, Outcome: s.Outcome, Status: state.Status, Revision: s.Revision, Attempt: s.Attempt,
	}
	if s.Error != nil {
		failure.Error = *s.Error
	}
	return failure
}

// Message tells the node with this number of a failure that another node, the leader, has found.
type Message struct {
	Node    int64
	Failure Failure
}

// Recipient is the number of the node that is told of the dead tasks and lost claims of a type. It is the leader, or
// the first node that has the type and a hook. If no node has both, it is the leader, because the hook of another
// service is better than none. nodes are the nodes that live.
func Recipient(kind string, leader int64, nodes []taskdb.LiveNode) int64 {
	told, found := leader, false
	for _, node := range nodes {
		if node.Hears && slices.Contains(node.Types, kind) && (!found || node.Number == leader) {
			told, found = node.Number, true
		}
	}
	return told
}

// Channel is the name of the channel on which Postgres carries messages.
func Channel(schema string) string { return schema + ".dead" }

// Receive calls the hook for a message, if the message is for the node with this number.
func (n *Notifier) Receive(node int64, text string) {
	var message Message
	if err := json.Unmarshal([]byte(text), &message); err == nil && message.Node == node {
		n.Tell(message.Failure)
	}
}
