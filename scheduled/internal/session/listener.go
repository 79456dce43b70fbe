package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// Listener receives notifications on a connection of its own. They say that a task is due at once, that a held task
// was edited, or for which dead tasks to call OnDead or OnLost. The first two only save time, because other looks
// find within a second what the listener misses. A missed message about a dead task is not repeated.
type Listener struct {
	Connect  func(ctx context.Context) (*pgx.Conn, error)
	Log      *slog.Logger
	Channels map[string]func(ctx context.Context, payload string) // what to do with a notification
	// Listening notes whether the listener listens. When it begins, it has everything looked for that was missed.
	Listening func(ctx context.Context, on bool)
}

// Run listens until ctx is done. It connects again whenever a connection ends.
func (l Listener) Run(ctx context.Context) {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		began := time.Now()
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			delay = 100 * time.Millisecond
		}
		l.Log.Warn("node does not listen for notifications; it connects again", "error", err, "in", delay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}

func (l Listener) listen(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, ConnectLimit)
	defer cancel()
	conn, err := l.Connect(connecting)
	if err != nil {
		return fmt.Errorf("connect listener: %w", err)
	}
	defer Close(ctx, conn)
	statements := awakeSQL + "SET application_name = 'tasktable listener'"
	for channel := range l.Channels {
		statements += "; LISTEN " + pgx.Identifier{channel}.Sanitize()
	}
	if _, err := conn.Exec(connecting, statements); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l.Listening(ctx, true)
	defer l.Listening(ctx, false)
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for a notification: %w", err)
		}
		if notification == nil { // Config.Connect has set a callback for notifications
			return errors.New("the connection gives its notifications to a callback: OnNotification must not be set")
		}
		if do := l.Channels[notification.Channel]; do != nil { // Config.Connect may listen for others
			do(ctx, notification.Payload)
		}
	}
}
