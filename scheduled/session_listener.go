package scheduled

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// listener receives notifications on a connection of its own. They say that a task is due at once, that a held task
// was edited, or for which dead tasks to call OnDead or OnLost. The first two only save time, because other looks
// find within a second what the listener misses. A missed message about a dead task is not repeated.
type listener struct {
	connect    func(ctx context.Context) (*pgx.Conn, error)
	statements taskdb.Queries
	log        *slog.Logger
	wake       func()
	held       func(ctx context.Context, fence int64)
	dead       func(text string)
	listening  func(bool)
	relistened func(ctx context.Context) // looks for what was missed while the node did not listen
}

// run listens until ctx is done. It connects again whenever a connection ends.
func (l *listener) run(ctx context.Context) {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		began := time.Now()
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			delay = 100 * time.Millisecond
		}
		l.log.Warn("node does not listen for notifications; it connects again", "error", err, "in", delay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}

func (l *listener) listen(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, beginWithin)
	defer cancel()
	conn, err := l.connect(connecting)
	if err != nil {
		return fmt.Errorf("connect listener: %w", err)
	}
	defer closeConn(ctx, conn)
	wake, held := l.statements.Schema.String()+".wake", l.statements.Schema.String()+".held"
	dead := deadChannel(l.statements)
	for _, statement := range []string{
		"SET application_name = 'tasktable listener'",
		"LISTEN " + pgx.Identifier{wake}.Sanitize(),
		"LISTEN " + pgx.Identifier{held}.Sanitize(),
		"LISTEN " + pgx.Identifier{dead}.Sanitize(),
	} {
		if _, err := conn.Exec(connecting, statement); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	l.listening(true)
	defer l.listening(false)
	l.relistened(ctx)
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for a notification: %w", err)
		}
		if notification == nil { // Config.Connect has set a callback for notifications
			return errors.New("the connection gives its notifications to a callback: OnNotification must not be set")
		}
		switch notification.Channel {
		case wake:
			l.wake()
		case dead:
			l.dead(notification.Payload)
		case held:
			if fence, err := strconv.ParseInt(notification.Payload, 10, 64); err == nil {
				l.held(ctx, fence)
			}
		}
	}
}
