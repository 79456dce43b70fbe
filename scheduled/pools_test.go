package scheduled

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// exhaust takes all connections of the nodes' pool, until the returned function gives them back.
func (s *bench) exhaust() (release func()) {
	s.T.Helper()
	var taken []*pgxpool.Conn
	for range s.nodes.Config().MaxConns {
		conn, err := s.nodes.Acquire(s.T.Context())
		if err != nil {
			s.T.Fatal(err)
		}
		taken = append(taken, conn)
	}
	released := false
	release = func() {
		if !released {
			released = true
			for _, conn := range taken {
				conn.Release()
			}
		}
	}
	s.T.Cleanup(release)
	return release
}

// Handlers that have all connections of their pool keep no task from being claimed, started and settled.
func TestExhaustedPoolStopsNothing(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.node(nil)
	release := s.exhaust()
	for i := range 30 {
		s.Add(fmt.Sprint(i), func(task *store.Task) {
			if i%3 == 0 {
				task.MaxAttempts = 1
			}
		})
	}
	for i := range 30 {
		a := s.Begins(fmt.Sprint(i))
		switch i % 3 {
		case 0:
			a.End <- errors.New("oops")
		case 1:
			a.FollowUp(store.Task{ID: "next", Payload: enginetest.Job{Name: "next"}, At: time.Now().Add(time.Hour)})
			a.End <- a.Extend(t.Context(), time.Minute)
		case 2:
			a.Again(time.Now().Add(time.Hour))
			a.End <- nil
		}
	}
	for i := range 30 {
		switch i % 3 {
		case 0:
			s.Is(fmt.Sprint(i), store.StatusFailed, taskdb.OutcomeFailed)
		case 1:
			s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
		case 2:
			s.Is(fmt.Sprint(i), store.StatusQueued, taskdb.OutcomeCompleted)
		}
	}
	release()
}

// A transactional handler that has waited long for its connection starts by what the task has become: not at all, if
// it was cancelled meanwhile, and with the time of its start.
func TestTransactionWaitsForAConnection(t *testing.T) {
	t.Parallel()
	s, both := effectful(t, nil)
	release := s.exhaust()
	names := []string{"cancelled", "moved", "goes on"}
	both(func(kind string, schedule func(string, func(*store.Task))) {
		for _, name := range names {
			schedule(name, nil)
			enginetest.Await(t, s.Pool, kind+name, patience, store.StatusExecuting)
		}
	})
	s.Passes(time.Now().Add(600 * time.Millisecond)) // by then they are waiting
	both(func(kind string, _ func(string, func(*store.Task))) {
		if _, err := s.Tasks.Cancel(t.Context(), s.Pool, kind+"cancelled"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Tasks.Reschedule(t.Context(), s.Pool, kind+"moved", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	})
	released := time.Now()
	release()
	both(func(kind string, _ func(string, func(*store.Task))) {
		a := s.Begins(kind + "goes on")
		if early := released.Sub(a.StartedAt); early > 100*time.Millisecond {
			t.Errorf("%s started %s before it had a connection", a.ID, early)
		}
		a.End <- nil
		s.Is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
		s.Is(kind+"cancelled", store.StatusCancelled, taskdb.OutcomeCancelled)
		s.Is(kind+"moved", store.StatusQueued, taskdb.OutcomeReleased)
		s.Idle(kind+"cancelled", kind+"moved")
	})
}

// A service may use notifications on its own pool, with a handler of its own: the engine's connections do without it.
func TestPoolWithANotificationHandler(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
