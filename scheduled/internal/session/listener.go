package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
)

// Listener receives notifications on a connection of its own. They say that a task is due at once, that a held task
// was edited, or for which dead tasks to call OnDead or OnLost. The first two only save time, because other looks
// find within a second what the listener misses. A missed message about a dead task is not repeated.
type Listener struct{ config ListenerConfig }

// ListenerConfig is the configuration of a Listener. All fields are required.
type ListenerConfig struct {
	Connect   func(ctx context.Context) (*pgx.Conn, error)
	Schema    string
	Log       *slog.Logger
	Wake      func()                                 // a task is due at once
	Held      func(ctx context.Context, fence int64) // a held task was edited
	Failed    func(text string)                      // a failures.Message has come
	Listening func(bool)                             // the listener listens, or no longer does
	// Relistened looks for everything that was missed while the listener did not listen.
	Relistened func(ctx context.Context)
}

// NewListener makes a listener. It does not connect before Run.
func NewListener(config ListenerConfig) *Listener { return &Listener{config} }

// Run listens until ctx is done. It connects again whenever a connection ends.
func (l *Listener) Run(ctx context.Context) {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		began := time.Now()
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			delay = 100 * time.Millisecond
		}
		l.config.Log.Warn("node does not listen for notifications; it connects again", "error", err, "in", delay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}

func (l *Listener) listen(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, ConnectLimit)
	defer cancel()
	conn, err := l.config.Connect(connecting)
	if err != nil {
		return fmt.Errorf("connect listener: %w", err)
	}
	defer Close(ctx, conn)
	wake, held := l.config.Schema+".wake", l.config.Schema+".held"
	dead := failures.Channel(l.config.Schema)
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
	l.config.Listening(true)
	defer l.config.Listening(false)
	l.config.Relistened(ctx)
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
			l.config.Wake()
		case dead:
			l.config.Failed(notification.Payload)
		case held:
			if fence, err := strconv.ParseInt(notification.Payload, 10, 64); err == nil {
				l.config.Held(ctx, fence)
			}
		}
	}
}
