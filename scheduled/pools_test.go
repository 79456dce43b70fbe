package scheduled

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A service may use notifications on its own pool, with a handler of its own: the engine's connections do without it.
func TestPoolWithANotificationHandler(t *testing.T) {
	s := newBench(t)
	settings := s.Pool.Config()
	settings.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	var err error
	if s.nodes, err = pgxpool.NewWithConfig(context.Background(), settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nodes.Close)
	s.node(nil)
	s.Add("first", nil)
	s.Begins("first").End <- nil
	listener := func() int {
		return s.Count(`SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'tasktable listener'`)
	}
	enginetest.Eventually(t, patience, "the node listens", func() bool { return listener() != 0 })
	was := listener()
	for i := range 5 {
		id := fmt.Sprint(i)
		s.Add(id, nil)
		s.Begins(id).End <- nil
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	if now := listener(); now != was {
		t.Errorf("process %d listened, now it is %d: a notification has ended it", was, now)
	}
}

// Connect may give connections with such a handler, too: then the node does not hear notifications, but works.
func TestConnectWithANotificationHandler(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			settings := s.Pool.Config().ConnConfig
			settings.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
			return pgx.ConnectConfig(ctx, settings)
		}
	}, handlers.Handle(s.Handle))
	for i := range 3 {
		id := fmt.Sprint(i)
		s.Add(id, nil)
		s.Begins(id).End <- nil
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
}
