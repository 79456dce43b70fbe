package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
)

// The other signals TestFirstSignalEndsTheContextAndTheSecondCalls raises.
func TestServeStopsOnASignal(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"DATABASE_URL=" + storetest.URL(t)}, "serve")
	p.waitFor("msg=serving ")
	p.signal(syscall.SIGINT)
	got := p.end()
	got.want(t, exitOK, `reason="received SIGINT"`, "msg=stopped")
	if got.stdout != "" {
		t.Errorf("stdout: %s", got.stdout)
	}
}

func TestServeMigratesFirstIfAskedTo(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"DATABASE_URL=" + storetest.EmptyURL(t), "TASKTABLE_SCHEMA=jobs",
		"TASKTABLE_LOG_FORMAT=json"}, "serve", "--migrate", "--queue=mail=3")
	line := p.waitFor(`"msg":"serving"`)
	p.stop()
	var said struct {
		Schema string
		Types  []string
		Queues map[string]int
	}
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatalf("the log is no JSON: %v\n%s", err, line)
	}
	if said.Schema != "jobs" || !slices.Equal(said.Types, []string{"HTTP_REQUEST", "LOG"}) || len(said.Queues) != 1 ||
		said.Queues["mail"] != 3 {
		t.Errorf("serves %+v", said)
	}
}

// ask waits until a query answers what it ought to.
func ask(t *testing.T, url, sql, want string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var got string
	for deadline := time.Now().Add(waitLimit); time.Now().Before(deadline); {
		if err := conn.QueryRow(t.Context(),
			"SELECT coalesce(("+sql+")::text, '') FROM pg_sleep(0.02)").Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got == want {
			return
		}
	}
	t.Fatalf("%s: got %q, want %q", sql, got, want)
}

// A leader and a worker run a task together, and nodes shows their roles. Notices come first in a strict order, so that
// they can tell of the backlog.
func TestServeByRolesAndStrictQueues(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	leader := start(t, []string{"DATABASE_URL=" + url, "TASKTABLE_ROLE=leader"}, "serve")
	ask(t, url, "SELECT string_agg(state || ' ' || role, ', ') FROM tasktable.node_states WHERE dead_at IS NULL",
		"leads leader")
	worker := start(t, []string{"DATABASE_URL=" + url, "TASKTABLE_QUEUES=default=2,low=1"}, "serve", "--role=worker",
		"--strict-queues=default,low", "--type-slots=LOG=2", "--notices")
	execute(t, url, `SELECT tasktable.schedule('{"type":"LOG","message":"hi"}', id => 'task', queue => 'low')`)
	ask(t, url, "SELECT status FROM tasktable.scheduled_tasks WHERE id = 'task'", "COMPLETED")
	ask(t, url, `SELECT strict_queues::text || type_slots::text || shares_slots::text FROM tasktable.nodes
		WHERE NOT may_lead AND dead_at IS NULL`, `{notices,default,low}{"LOG": 2}true`)
	got := run(t, []string{"DATABASE_URL=" + url}, "nodes")
	got.want(t, exitOK)
	if !strings.Contains(got.stdout, "first notices, then default, then low") ||
		!regexp.MustCompile(`leads +leader .*\n.*works +worker `).MatchString(got.stdout) {
		t.Errorf("nodes: %s", got.stdout)
	}
	for _, p := range []*process{worker, leader} {
		p.stop()
	}
}

// A mail server that never answers keeps the task running, and with it the program.
func TestSecondSignalEndsServeAtOnce(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	silent := listen(t)
	host, port, err := net.SplitHostPort(silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"DATABASE_URL=" + url, "TASKTABLE_SMTP_HOST=" + host, "TASKTABLE_SMTP_PORT=" + port},
		"serve", "--smtp-from=a@example.org", "--shutdown-timeout=1h", "--smtp-timeout=10m")
	execute(
		t, url, `SELECT tasktable.schedule('{"type":"SEND_EMAIL","email":"b@example.org","subject":"s","body":"b"}')`,
	)
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p.signal(syscall.SIGTERM)
	p.waitFor("stopping;")
	for repeat := time.NewTicker(sameSignal / 3); ; <-repeat.C { // those that come at once are the first one's
		if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) || p.ended() {
			break
		}
	}
	p.end().want(t, exitInterrupted, "a second signal: ends at once")
}

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if err := listener.SetDeadline(time.Now().Add(waitLimit)); err != nil {
		t.Fatal(err)
	}
	return listener
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), sql)
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}
