package scheduled

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// driver is River's, with a listener that does not end the process. River 0.51 closes its listener when a LISTEN or UNLISTEN on
// it fails, as it does on a dead connection, while another of its goroutines may be about to wait on it: a nil pointer.
type driver struct{ *riverpgxv5.Driver }

func newDriver(pool *pgxpool.Pool) driver { return driver{riverpgxv5.New(pool)} }

func (d driver) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return listenerGuard{d.Driver.GetListener(params)}
}

type listenerGuard struct{ riverdriver.Listener }

var errListenerClosed = errors.New("the listener is closed")

func closedInstead(err *error) {
	if recover() != nil {
		*err = errListenerClosed
	}
}

func (l listenerGuard) WaitForNotification(ctx context.Context) (notification *riverdriver.Notification, err error) {
	defer closedInstead(&err)
	return l.Listener.WaitForNotification(ctx)
}

func (l listenerGuard) Ping(ctx context.Context) (err error) {
	defer closedInstead(&err)
	return l.Listener.Ping(ctx)
}

func (l listenerGuard) Listen(ctx context.Context, topic string) (err error) {
	defer closedInstead(&err)
	return l.Listener.Listen(ctx, topic)
}

func (l listenerGuard) Unlisten(ctx context.Context, topic string) (err error) {
	defer closedInstead(&err)
	return l.Listener.Unlisten(ctx, topic)
}
