package rules

import (
	"context"
	"errors"
	"time"

	"github.com/tasktable/tasktable/handlers/notice/contract"
	"github.com/tasktable/tasktable/store"
)

// testRetention is how long the task of a test is kept after its end.
const testRetention = 24 * time.Hour

// SendTest schedules a notice that tells a recipient nothing but that notices arrive. A node sends it before all other
// tasks. It expires if no node has sent it within the given time. The receipt has the id of its task, whose status and
// message tell how it ended. The error wraps ErrUnknown if there is no such recipient.
func (r *Rules) SendTest(
	ctx context.Context, db store.DB, tasks *store.Store, recipient string, within time.Duration,
) (store.Receipt, error) {
	if err := r.Knows(ctx, db, recipient); err != nil {
		return store.Receipt{}, err
	}
	watch, err := tasks.Get(ctx, db, contract.WatchID) // notices run in its queue
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Receipt{}, err
	}
	return tasks.Schedule(ctx, db, store.Task{
		Payload: contract.Notice{Recipient: recipient, Test: true}, Queue: watch.Queue,
		Priority: store.MaxPriority, MaxAttempts: 1, Expiration: within, Retention: testRetention,
	})
}
