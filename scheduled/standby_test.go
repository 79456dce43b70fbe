//go:build unix

package scheduled

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/localpg"
)

// twin is one of two servers, of which one is the primary and the other its synchronous standby.
type twin struct {
	t      *testing.T
	dir    string
	server *localpg.Server
}

// newTwins makes a primary with the schema, and a standby of it.
func newTwins(t *testing.T) (primary, standby *twin) {
	t.Helper()
	// Not T.TempDir: the user that Postgres runs as when root tests cannot enter it.
	dir, err := os.MkdirTemp("", "tasktable-standby-*")
	enginetest.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	enginetest.OK(t, os.Chmod(dir, 0o711))
	primary, standby = &twin{t: t, dir: filepath.Join(dir, "a")}, &twin{t: t, dir: filepath.Join(dir, "b")}
	primary.start()
	pool, err := pgxpool.New(t.Context(), primary.server.URL())
	enginetest.OK(t, err)
	err = migrations.Up(t.Context(), pool, "")
	pool.Close()
	enginetest.OK(t, err)
	primary.stop()
	if said, err := exec.Command("cp", "-a", primary.dir, standby.dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the primary: %v\n%s", err, said)
	}
	primary.start()
	standby.follow(primary)
	return primary, standby
}

func (s *twin) start() {
	s.t.Helper()
	server, err := localpg.Start(s.t.Context(), localpg.Config{Dir: s.dir})
	if errors.Is(err, localpg.ErrNoPostgres) || errors.Is(err, localpg.ErrUnsupported) {
		s.t.Skipf("it needs a Postgres that it can stop: %v", err)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = server
	s.t.Cleanup(func() { _ = server.Stop() })
}

// stop is an orderly one: the standby has all of it.
func (s *twin) stop() {
	s.t.Helper()
	if err := s.server.Stop(); err != nil {
		s.t.Fatal(err)
	}
}

// crash is `pg_ctl stop -m immediate`.
func (s *twin) crash() {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		s.t.Fatal(err)
	}
	enginetest.Eventually(s.t, 30*time.Second, "Postgres has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	s.stop() // which gives up the share in it
}

func (s *twin) data() string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "data-*"))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("data folders: %v, %v", found, err)
	}
	return found[0]
}

// follow starts the server as a standby of the other, which from then on acknowledges nothing that the
// standby does not have.
func (s *twin) follow(primary *twin) {
	t := s.t
	t.Helper()
	at, err := url.Parse(primary.server.URL())
	enginetest.OK(t, err)
	password, _ := at.User.Password()
	settings := filepath.Join(s.data(), "postgresql.auto.conf")
	// The whole file: a primary's own synchronous_standby_names must not come along.
	text := fmt.Sprintf(
		"primary_conninfo = 'host=%s port=%s user=%s password=%s'\n", at.Hostname(), at.Port(), at.User.Username(),
		password,
	)
	enginetest.OK(t, os.WriteFile(settings, []byte(text), 0o600))
	signal := filepath.Join(s.data(), "standby.signal")
	enginetest.OK(t, os.WriteFile(signal, nil, 0o600))
	if info, err := os.Stat(s.data()); err != nil {
		t.Fatal(err)
	} else if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		enginetest.OK(t, os.Chown(signal, int(owner.Uid), int(owner.Gid)))
	}
	s.start()
	primary.exec(`ALTER SYSTEM SET synchronous_standby_names = '*'`)
	primary.exec(`SELECT pg_reload_conf()`)
	enginetest.Eventually(t, patience, "the standby is synchronous", func() bool {
		return primary.ask(`SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')`)
	})
}

// promote makes the standby the primary.
func (s *twin) promote() {
	s.t.Helper()
	s.exec(`SELECT pg_promote()`)
	enginetest.Eventually(s.t, 30*time.Second, "the standby is the primary", func() bool {
		return !s.ask(`SELECT pg_is_in_recovery()`)
	})
}

func (s *twin) exec(sql string) {
	s.t.Helper()
	conn := s.connect()
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatal(err)
	}
}

func (s *twin) ask(sql string) (answer bool) {
	s.t.Helper()
	conn := s.connect()
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(s.t.Context(), sql).Scan(&answer); err != nil {
		s.t.Fatal(err)
	}
	return answer
}

func (s *twin) connect() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.server.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// bothURL names both servers, as an application does.
func bothURL(t *testing.T, one, other *twin) string {
	t.Helper()
	at, err := url.Parse(one.server.URL())
	enginetest.OK(t, err)
	second, err := url.Parse(other.server.URL())
	enginetest.OK(t, err)
	at.Host += "," + second.Host
	query := at.Query()
	query.Set("target_session_attrs", "read-write")
	query.Set("connect_timeout", "2")
	at.RawQuery = query.Encode()
	return at.String()
}

// producer schedules a task each few milliseconds, and remembers which were acknowledged.
type producer struct {
	mu       sync.Mutex
	accepted []string
}

func (p *producer) run(ctx context.Context, pool *pgxpool.Pool, of *store.Store) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// What becomes of it when the answer is lost is the torture test's.
			receipt, err := of.Schedule(ctx, pool, store.Task{
				Payload: enginetest.Job{Name: fmt.Sprint(n)}, At: time.Now().Add(time.Duration(n%5) * time.Second),
			})
			if err == nil {
				p.mu.Lock()
				p.accepted = append(p.accepted, receipt.ID)
				p.mu.Unlock()
			}
		}
	}
}

func (p *producer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.accepted)
}

// Nodes and applications whose URL names two servers follow the primary from the one to the other: after an
// orderly switch, after which the old one is there again as a standby, and after a crash. What was
// acknowledged runs, once each.
func TestNodesFollowThePrimary(t *testing.T) {
	t.Parallel()
	first, second := newTwins(t)
	both := bothURL(t, first, second)
	open := func(name string) *pgxpool.Pool {
		t.Helper()
		settings, err := pgxpool.ParseConfig(both)
		enginetest.OK(t, err)
		settings.MaxConns, settings.ConnConfig.RuntimeParams["application_name"] = 10, name
		pool, err := pgxpool.NewWithConfig(context.Background(), settings)
		enginetest.OK(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	pool := open("application")
	if _, err := pool.Exec(t.Context(), `CREATE TABLE effects (task_id text)`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		startNode(
			t, open("node"), nil,
			handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[enginetest.Job]) error {
				_, err := tx.Exec(ctx, `INSERT INTO effects (task_id) VALUES ($1)`, task.ID)
				return err
			}),
		)
	}
	p, of := &producer{}, store.New(store.Config{Service: "test"})
	producing, stop := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	producers.Go(func() { p.run(producing, pool, of) })
	defer producers.Wait()
	defer stop()
	ask := func(sql string, args ...any) (n int) {
		if err := pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			return -1 // in between: it is asked again
		}
		return n
	}
	const completed = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`
	goesOn := func(what string) {
		t.Helper()
		begin, before, accepted := time.Now(), ask(completed), p.count()
		enginetest.Eventually(t, patience, "tasks are scheduled and completed "+what, func() bool {
			if before < 0 {
				before = ask(completed)
				return false
			}
			return ask(completed) > before+20 && p.count() > accepted+20
		})
		t.Logf("%s: 20 more completed after %s", what, time.Since(begin))
	}
	goesOn("at first")

	first.stop()
	second.promote()
	first.follow(second)
	if again := bothURL(t, first, second); again != both {
		t.Fatalf("a server came back at another address: %s, not %s", again, both)
	}
	goesOn("after an orderly switch")

	second.crash()
	first.promote()
	goesOn("after a crash")

	stop()
	producers.Wait()
	enginetest.Eventually(t, patience, "all are completed", func() bool {
		return ask(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`) == 0
	})
	t.Logf("%d accepted", p.count())
	if lost := ask(`SELECT count(*) FROM unnest($1::text[]) AS a (id)
		WHERE a.id NOT IN (SELECT id FROM tasktable.scheduled_tasks)`, p.accepted); lost != 0 {
		t.Errorf("%d accepted tasks are lost", lost)
	}
	if n := ask(`SELECT count(*) FROM (SELECT t.id FROM tasktable.scheduled_tasks AS t
		LEFT JOIN effects AS e ON e.task_id = t.id
		GROUP BY t.id HAVING count(e.task_id) <> 1) AS x`); n != 0 {
		t.Errorf("%d tasks have not one effect", n)
	}
}
