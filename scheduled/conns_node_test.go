package scheduled

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
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

// limited is a stage whose nodes connect as a role of which the server takes no more than so many connections at
// once, through a pool of at most two.
func limited(t *testing.T, most int) *bench {
	t.Helper()
	s, _ := bound(t)
	config := s.nodes.Config()
	config.MaxConns = handlersConns
	var err error
	if s.nodes, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nodes.Close)
	s.Exec(fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", config.ConnConfig.User, most))
	return s
}

const handlersConns = 2

// headcount is the most connections of the nodes' role that were seen at once.
type headcount struct {
	mu   sync.Mutex
	most int
	stop func()
}

const headcountSQL = `SELECT count(*) FROM pg_stat_activity WHERE usename = $1`

// count counts them from now on, until the test ends.
func (s *bench) countConns() *headcount {
	s.T.Helper()
	c := &headcount{}
	ctx, cancel := context.WithCancel(context.Background())
	var counting sync.WaitGroup
	counting.Go(func() {
		for ticker := time.NewTicker(3 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			var n int
			err := s.Pool.QueryRow(ctx, headcountSQL, s.nodes.Config().ConnConfig.User).Scan(&n)
			if err != nil && ctx.Err() == nil {
				s.T.Error(err)
				return
			}
			c.mu.Lock()
			c.most = max(c.most, n)
			c.mu.Unlock()
		}
	})
	c.stop = func() { cancel(); counting.Wait() }
	s.T.Cleanup(c.stop)
	return c
}

// restart forgets what was seen, and returns it.
func (c *headcount) restart() (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most, c.most = c.most, 0
	return most
}

// work schedules tasks of each kind, and waits until all have ended: such as retry, have follow-ups and
// move themselves.
func (s *bench) work(name string, n int) {
	s.T.Helper()
	var list []store.Task
	for i := range n {
		list = append(list, store.Task{
			ID:      fmt.Sprint(name, " ", i),
			Payload: enginetest.Job{Name: []string{"plain", "follows", "retried", "fails"}[i%4]}, Priority: i % 3,
		})
	}
	s.Did(s.Tasks.ScheduleMany(s.T.Context(), s.Pool, list))
	s.SeesWithin(60*time.Second, "all of "+name+" have ended",
		`SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status NOT IN ('COMPLETED', 'FAILED')`)
}

func workAtOnce(_ context.Context, task *handlers.Task[enginetest.Job]) error {
	switch {
	case task.Payload.Name == "fails":
		return handlers.Permanent(errors.New("oops"))
	case task.Payload.Name == "retried" && task.Attempt == 1:
		return errors.New("oops")
	case task.Payload.Name == "follows":
		task.FollowUp(store.Task{Payload: enginetest.Job{Name: task.ID + " followed"}})
	}
	return nil
}

// A database that ends idle connections does not end those of the engine, which wait for notifications.
func TestTheEngineMayBeIdle(t *testing.T) {
	s := newBench(t)
	database := pgx.Identifier{s.Pool.Config().ConnConfig.Database}.Sanitize()
	s.Exec(`ALTER DATABASE ` + database + ` SET idle_session_timeout = '300ms'`)
	said := &enginetest.LogText{}
	s.node(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(said, nil)) })
	s.Sees("the node listens", `SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()
		AND application_name = 'tasktable listener'`)
	s.Exec(`ALTER DATABASE ` + database + ` RESET idle_session_timeout`)
	s.Pool.Reset() // the test's own are ended
	s.Passes(s.Now().Add(time.Second))
	if text := said.String(); strings.Contains(text, "57P05") {
		t.Errorf("it said\n%s", telling(text))
	}
}

// A node that leads has EngineConns + 3 connections besides those of its pool. The server refuses any more. The node may
// be idle or busy, or it may begin again after it has lost its session.
func TestConnectionBudget(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{3, 6} {
		t.Run(fmt.Sprint("EngineConns ", conns), func(t *testing.T) {
			t.Parallel()
			s := limited(t, conns+3+handlersConns)
			s.cut = true
			seen := s.countConns()
			said := &enginetest.LogText{}
			s.node(func(c *Config) {
				c.EngineConns, c.Logger = conns, slog.New(slog.NewTextHandler(said, nil))
			}, handlers.Handle(workAtOnce))
			s.Sees("the node listens", `SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()
					AND application_name = 'tasktable listener'`)
			s.Passes(s.Now().Add(1500 * time.Millisecond))
			idle := seen.restart()
			defer enginetest.Exhaust(t, s.nodes)() // the handlers have all of theirs
			s.work("first", 500)
			busy := seen.restart()
			if n := s.Count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name LIKE 'tasktable session%'`); n != 1 {
				t.Fatalf("%d sessions were cut", n)
			}
			enginetest.Eventually(t, patience, "the node begins again", func() bool {
				return strings.Contains(said.String(), "beginning again")
			})
			s.work("second", 500)
			again := seen.restart()
			most := conns + 3 + handlersConns
			t.Logf(
				"at most %d connections while idle, %d while busy, %d while it began again; %d are granted", idle, busy,
				again, most,
			)
			if idle > most || busy != most || again > most {
				t.Errorf(
					"it has %d connections while idle, %d while busy, %d while it begins again, of %d", idle, busy,
					again, most,
				)
			}
			if text := said.String(); strings.Contains(text, "53300") || !strings.Contains(text, "beginning again") {
				t.Errorf("it said\n%s", telling(text))
			}
		})
	}
}

// telling leaves out the lines about single tasks.
func telling(log string) string {
	lines := strings.Split(log, "\n")
	return strings.Join(
		slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `msg="task `) }), "\n",
	)
}

// Where the server has too few connections for a node, the error says how many it needs.
func TestTooFewConnections(t *testing.T) {
	t.Parallel()
	s := limited(t, 1)
	var refused *pgconn.PgError
	conn, err := s.nodes.Acquire(t.Context()) // as another of the service's would
	s.OK(err)
	conn.Release()
	registry, err := handlers.NewRegistry(handlers.Handle(workAtOnce))
	s.OK(err)
	node, err := New(Config{Pool: s.nodes, Handlers: registry, Logger: enginetest.Logger()})
	s.OK(err)
	err = node.Run(t.Context())
	const needs = "a node needs 9 connections (a session, a listener, one to lead, and EngineConns, which is 6), " +
		"and its pool up to 2: raise the server's max_connections"
	if !errors.As(err, &refused) || refused.Code != "53300" || !strings.Contains(err.Error(), needs) {
		t.Errorf("Run returns %v, which should say %q", err, needs)
	}
}

// A node that got its session but not the rest does what it can, says what it needs, and works when it can be had.
func TestConnectionsRunOut(t *testing.T) {
	t.Parallel()
	s := limited(t, 3)
	s.cut = true
	said := &enginetest.LogText{}
	s.node(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(said, nil)) }, handlers.Handle(workAtOnce))
	s.Add("one", nil)
	enginetest.Eventually(t, patience, "the node says what it lacks", func() bool {
		return strings.Contains(said.String(), "53300")
	})
	s.Exec(fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT -1", s.nodes.Config().ConnConfig.User))
	s.Is("one", store.StatusCompleted, taskdb.OutcomeCompleted)
}
