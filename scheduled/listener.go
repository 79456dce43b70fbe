package scheduled

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// listener hears NOTIFY on a connection of its own: that something is due at once, and that a held task was edited. Nothing
// depends on these but speed; what it misses is found within a second. And what the leader tells of the dead, for OnDead.
type listener struct {
	connect    func(ctx context.Context) (*pgx.Conn, error)
	statements statements
	log        *slog.Logger
	wake       func()
	held       func(ctx context.Context, fence int64)
	dead       func(text string)
	listening  func(bool)
	relistened func(ctx context.Context) // looks for what was missed while nobody listened
}

// run listens until ctx is done, over as many connections as it takes.
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
		l.log.Warn("not listening; trying again", "error", err, "in", delay)
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
	wake, held, dead := l.statements.schema.String()+".wake", l.statements.schema.String()+".held", deadChannel(l.statements)
	for _, statement := range []string{
		"SET application_name = 'tasktable listener'",
		"LISTEN " + pgx.Identifier{wake}.Sanitize(), "LISTEN " + pgx.Identifier{held}.Sanitize(), "LISTEN " + pgx.Identifier{dead}.Sanitize(),
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
		if notification == nil { // a connection whose notifications go elsewhere, by its user's own setting
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
