package scheduledtest

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// ending is a handler's context that ends by handlers.ErrDeadline, as on a node. Its Err is context.Canceled there,
// which the contexts of the standard library with a deadline do not give.
type ending struct {
	context.Context
	at time.Time
}

func (e ending) Deadline() (time.Time, bool) { return e.at, true }

// within ends a handler's context at the timeout and the deadline of its task. The time of the test stands still while
// the handler runs. So both count from the handler's start in real time: a deadline is reached when so much time has
// passed as was left until it by the time of the test.
func within(ctx context.Context, answer taskdb.GateAnswer) (context.Context, func()) {
	now := time.Now()
	at, timeout := answer.Deadline(now), answer.Timeout()
	if end := now.Add(timeout); timeout > 0 && (at.IsZero() || end.Before(at)) {
		at = end
	}
	if at.IsZero() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(time.Until(at), func() { cancel(handlers.ErrDeadline) })
	return ending{ctx, at}, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}
