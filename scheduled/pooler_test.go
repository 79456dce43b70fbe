package scheduled

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

func TestPoolerIsRefused(t *testing.T) {
	f := newBench(t)
	refuses(t, f, func(ctx context.Context) (*pgx.Conn, error) {
		settings := f.Pool.Config().ConnConfig.Copy()
		settings.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
			return &greeter{Conn: conn}, nil
		}
		return pgx.ConnectConfig(ctx, settings)
	})
}

func TestPgBouncerIsRefused(t *testing.T) {
	bouncer, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("needs pgbouncer in PATH: ", err)
	}
	f := newBench(t)
	at := startBouncer(t, f, bouncer)
	refuses(t, f, func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, at) })
}

// TestPgBouncerKeepsItsSettings has a service whose pool goes through PgBouncer, and whose session does not: what the
// engine sets on its connections must not come to the service's, or to others that share the pooler.
func TestPgBouncerKeepsItsSettings(t *testing.T) {
	bouncer, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("needs pgbouncer in PATH: ", err)
	}
	f := newBench(t)
	pool, err := pgxpool.New(
		context.Background(), startBouncer(t, f, bouncer)+"&default_query_exec_mode=exec&pool_max_conns=12",
	)
	f.OK(err)
	t.Cleanup(pool.Close)
	const settings = `SELECT concat_ws(' ', current_setting('enable_seqscan'), current_setting('enable_hashjoin'),
		current_setting('lock_timeout'),
		current_setting('idle_in_transaction_session_timeout'))`
	clean := enginetest.Ask[string](f.Bench, settings)
	v := newVisitor()
	close(v.let)
	startNode(t, pool, func(c *Config) {
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, f.Pool.Config().ConnConfig.Copy())
		}
	}, handlers.Handle(v.handle))
	for i := range 20 {
		enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: fmt.Sprint(i)}})
	}
	f.Sees("all are completed", completedSQL, 20)
	for range 8 { // all at once, so that each has another of the pooler's connections
		tx, err := pool.Begin(t.Context())
		f.OK(err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		var found string
		f.OK(tx.QueryRow(t.Context(), settings).Scan(&found))
		if found != clean {
			t.Errorf("through the pooler a service finds %q, not %q", found, clean)
		}
	}
}

// refuses checks that a node with such a session connection does not start, and leaves nothing behind.
func refuses(t *testing.T, f *bench, connect func(context.Context) (*pgx.Conn, error)) {
	t.Helper()
	registry, err := handlers.NewRegistry(handlers.Handle(newVisitor().handle))
	enginetest.OK(t, err)
	node, err := New(Config{Pool: f.nodes, Handlers: registry, Connect: connect, Logger: enginetest.Logger()})
	enginetest.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := node.Run(ctx); !errors.Is(err, ErrPooler) {
		t.Errorf("Run returned %v", err)
	}
	f.Counts("nodes", 0, `SELECT count(*) FROM tasktable.nodes`)
}

// greeter is a pooler as far as the greeting goes: the process number in it is not the server process's.
type greeter struct {
	net.Conn
	header []byte // of the message under way
	body   int    // how much of its body is to come
	done   bool
}

func (g *greeter) Read(packet []byte) (int, error) {
	n, err := g.Conn.Read(packet)
	for i := 0; i < n && !g.done; i++ {
		if len(g.header) < 5 {
			if g.header = append(g.header, packet[i]); len(g.header) == 5 {
				g.body = int(binary.BigEndian.Uint32(g.header[1:])) - 4
			}
		} else {
			if g.header[0] == 'K' { // BackendKeyData: the number comes first
				packet[i] ^= 1
				g.done = true
			}
			g.body--
		}
		if len(g.header) == 5 && g.body == 0 {
			g.header = g.header[:0]
		}
	}
	return n, err
}

// startBouncer starts PgBouncer in transaction mode before the test's database, and returns the URL to reach it by.
func startBouncer(t *testing.T, f *bench, program string) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	enginetest.OK(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	dir, err := os.MkdirTemp("", "tasktable-pgbouncer-") // not t.TempDir: nobody may enter that as another user
	enginetest.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	enginetest.OK(t, os.Chmod(dir, 0o777))
	server := f.Pool.Config().ConnConfig
	behind := fmt.Sprintf("host=%s port=%d dbname=%s user=%s", server.Host, server.Port, server.Database, server.User)
	if server.Password != "" { // PgBouncer refuses an empty one
		behind += " password=" + server.Password
	}
	settings := fmt.Sprintf("[databases]\ntest = %s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"auth_type = any\npool_mode = transaction\nunix_socket_dir =\n", behind, port)
	path := filepath.Join(dir, "pgbouncer.ini")
	enginetest.OK(t, os.WriteFile(path, []byte(settings), 0o644))
	args := []string{path}
	if os.Getuid() == 0 {
		args = []string{"-u", "nobody", path}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = t.Output()
	enginetest.OK(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	url := fmt.Sprintf("postgres://anyone@127.0.0.1:%d/test?sslmode=disable", port)
	enginetest.Eventually(t, patience, "pgbouncer answers", func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return false
		}
		_ = conn.Close(t.Context())
		return true
	})
	return url
}

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
