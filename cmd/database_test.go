package cmd

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/localpg"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestUnreachableDatabase(t *testing.T) {
	for _, command := range [][]string{{"serve"}, {"migrate"}, {"migrate", "status"}, {"migrate", "down", "--yes"}} {
		got := run(t, []string{"DATABASE_URL=postgres://me:hunter2@127.0.0.1:1/x"}, command...)
		got.want(t, exitUnreachable, "--database-url (DATABASE_URL): the database at 127.0.0.1:1/x cannot be reached")
		if strings.Contains(got.stderr, "hunter2") {
			t.Errorf("shows the password: %s", got.stderr)
		}
	}
}

func TestUnreachableSessionDatabase(t *testing.T) {
	run(t, []string{"DATABASE_URL=" + storetest.URL(t), "TASKTABLE_SESSION_DATABASE_URL=postgres://127.0.0.1:1/x"},
		"serve").
		want(t, exitUnreachable,
			"--session-database-url (TASKTABLE_SESSION_DATABASE_URL): the database at 127.0.0.1:1/x cannot be reached")
}

func TestRefusedLogin(t *testing.T) {
	address, err := url.Parse(storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("nobody_of_this_name", "hunter2")
	got := run(t, []string{"DATABASE_URL=" + address.String()}, "serve")
	got.want(t, exitUnreachable, "nobody_of_this_name")
	if strings.Contains(got.stderr, "hunter2") {
		t.Errorf("shows the password: %s", got.stderr)
	}
}

func TestSignalWhileConnecting(t *testing.T) {
	silent := listen(t) // accepts, and never answers
	p := start(t, []string{"DATABASE_URL=postgres://" + silent.Addr().String() + "/x"}, "serve")
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p.signal(syscall.SIGTERM)
	p.end().want(t, exitInterrupted, "interrupted: received SIGTERM")
}

func TestPoolConfig(t *testing.T) {
	for _, test := range []struct {
		url   string
		given int
		conns int32
		name  string
		ping  time.Duration
	}{
		{"postgres://h/x", 0, defaultMaxConns, "tasktable", closeLimit},
		{"postgres://h/x", 25, 25, "tasktable", closeLimit},
		{"postgres://h/x?pool_max_conns=7", 0, 7, "tasktable", closeLimit},
		{"postgres://h/x?pool_max_conns=7", 25, 25, "tasktable", closeLimit},
		{"host=h pool_max_conns=7", 0, 7, "tasktable", closeLimit},
		{"postgres://h/x?application_name=mine", 0, defaultMaxConns, "mine", closeLimit},
		{"postgres://h/x?pool_ping_timeout=1m", 0, defaultMaxConns, "tasktable", time.Minute},
	} {
		config, err := poolConfig(test.url, test.given)
		if err != nil {
			t.Fatal(err)
		}
		name := config.ConnConfig.RuntimeParams["application_name"]
		if config.MaxConns != test.conns || name != test.name || config.PingTimeout != test.ping {
			t.Errorf("%s with --max-conns %d: %d connections of %s, ping within %s; want %d of %s, within %s", test.url,
				test.given, config.MaxConns, name, config.PingTimeout, test.conns, test.name, test.ping)
		}
	}
}

func TestConnectionsInUseDoNotHoldUpTheEnd(t *testing.T) {
	pool, err := newPool(t.Context(), storetest.URL(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	d := &database{pool: pool, direct: pool, stop: func() error { stopped = true; return nil }}
	if err := d.closeWithin(time.Millisecond); err == nil || !strings.Contains(err.Error(), "still in use") {
		t.Errorf("the error is %v", err)
	}
	if !stopped {
		t.Error("the private Postgres was not stopped")
	}
	held.Release()
	if err := d.close(); err != nil {
		t.Error(err)
	}
}

var psqlLine = regexp.MustCompile(`psql '(postgres://[^']+)'`)

func TestPrivatePostgresLivesAsLongAsTheCommand(t *testing.T) {
	t.Parallel()
	dir := privateFolder(t)
	variables := []string{"TASKTABLE_DATA_DIR=" + dir}

	p := start(t, variables, "serve", "--migrate")
	match := psqlLine.FindStringSubmatch(p.waitFor("no DATABASE_URL: using a private Postgres"))
	if match == nil {
		t.Fatalf("says no psql command:\n%s", p.stderr.String())
	}
	p.waitFor("msg=serving ")
	run(t, variables, "keys", "create", "acme", "--scope=read", "--tenant=acme").want(t, exitOK) // it has the roles
	conn, err := pgx.Connect(t.Context(), match[1])
	if err != nil {
		t.Fatalf("the printed address does not work: %v", err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.stop()
	if conn, err := pgx.Connect(t.Context(), match[1]); err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("the private Postgres outlived its command")
	}

	got := run(t, variables, "migrate", "status")
	got.want(t, exitOK, "no DATABASE_URL")
	if states(got) != "applied" {
		t.Errorf("the tables are gone:\n%s", got.stdout)
	}
}

// privateFolder is a folder that the user whom Postgres runs as for root can enter.
func privateFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tasktable-cmd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := localpg.Start(t.Context(), localpg.Config{Dir: dir})
	if errors.Is(err, localpg.ErrNoPostgres) || errors.Is(err, localpg.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Who forgot DATABASE_URL must not migrate the private Postgres in its place.
func TestUnmigratedPrivatePostgresNamesTheMissingURL(t *testing.T) {
	t.Parallel()
	pool, err := newPool(t.Context(), storetest.EmptyURL(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for url, want := range map[string]bool{"": true, "postgres://somewhere": false} {
		s := databaseSettings{url: url, schema: store.DefaultSchema}
		err := s.check(t.Context(), pool)
		if exitCode(t.Context(), err) != exitUnmigrated || strings.Contains(err.Error(),
			"there is no DATABASE_URL") != want {
			t.Errorf("with %q: %v", url, err)
		}
	}
}

// limitedURL returns the URL of a migrated database for a role that may have most connections at once.
func limitedURL(t *testing.T, most int) (limited, admin string) {
	t.Helper()
	role := storetest.Role(t)
	admin = storetest.URL(t)
	execute(t, admin, strings.ReplaceAll(fmt.Sprintf(`ALTER ROLE ROLE_NAME CONNECTION LIMIT %d;
		GRANT USAGE, CREATE ON SCHEMA tasktable TO ROLE_NAME;
		GRANT ALL ON ALL TABLES IN SCHEMA tasktable TO ROLE_NAME;
			GRANT ALL ON ALL SEQUENCES IN SCHEMA tasktable TO ROLE_NAME`, most), "ROLE_NAME", role))
	address, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, storetest.RolePassword)
	return address.String(), admin
}

// A node that leads has the connections of its two pools and three more, but no others. The same holds while it works,
// and with a session URL of its own.
func TestServeStaysWithinItsConnections(t *testing.T) {
	t.Parallel()
	limited, admin := limitedURL(t, 4+3+3)
	p := start(t, []string{"DATABASE_URL=" + limited, "TASKTABLE_SESSION_DATABASE_URL=" + limited +
		"&application_name=direct"},
		"serve", "--max-conns=4", "--engine-conns=3", "--log-level=warn")
	execute(t, admin, `SELECT tasktable.schedule(jsonb_build_object('type', 'LOG', 'message', n::text), id => n::text)
		FROM generate_series(1, 1000) AS n`)
	ask(t, admin, "SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'", "1000")
	ask(t, admin, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = "+
		"'tasktable engine'", "3")
	// Of use at the start alone:
	ask(t, admin, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = "+
		"'direct'", "0")
	got := p.stop()
	if strings.Contains(got.stderr, "53300") {
		t.Errorf("it wanted more:\n%s", got.stderr)
	}
}

func TestServeSaysHowManyConnectionsItNeeds(t *testing.T) {
	t.Parallel()
	limited, _ := limitedURL(t, 1)
	run(t, []string{"DATABASE_URL=" + limited}, "serve", "--max-conns=5").want(t, exitUnreachable,
		"too many connections for role",
		"a node needs 9 connections (a session, a listener, one to lead, and EngineConns, which is 6), and its pool "+
			"up to 5")
}

func TestMigrateStaysWithinItsConnections(t *testing.T) {
	t.Parallel()
	limited, admin := limitedURL(t, 3)
	run(t, []string{"DATABASE_URL=" + admin}, "migrate", "down", "--yes").want(t, exitOK)
	run(t, []string{"DATABASE_URL=" + limited}, "migrate").want(t, exitOK)
}
