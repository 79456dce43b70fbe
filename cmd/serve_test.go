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

func TestServeRefusesAnUnmigratedDatabase(t *testing.T) {
	database := "DATABASE_URL=" + storetest.EmptyURL(t)
	run(t, []string{database}, "serve").want(t, exitUnmigrated, "not migrated",
		`run "tasktable migrate", or serve with --migrate (TASKTABLE_MIGRATE=true)`)
	run(t, []string{database}, "serve", "--schema=jobs").want(t, exitUnmigrated,
		`run "tasktable migrate --schema jobs"`)
}

func TestServeStopsOnASignal(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM,
		"SIGHUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skipIfIgnored(t, signal)
			p := start(t, []string{"DATABASE_URL=" + storetest.URL(t)}, "serve")
			p.waitFor("msg=serving ")
			p.signal(signal)
			got := p.end()
			got.want(t, exitOK, `reason="received `+name+`"`, "msg=stopped")
			if got.stdout != "" {
				t.Errorf("stdout: %s", got.stdout)
			}
		})
	}
}

func TestServeMigratesFirstIfAskedTo(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"DATABASE_URL=" + storetest.EmptyURL(t), "TASKTABLE_SCHEMA=jobs",
		"TASKTABLE_LOG_FORMAT=json"}, "serve", "--migrate", "--queue=mail=3")
	line := p.waitFor(`"msg":"serving"`)
	p.signal(syscall.SIGTERM)
	p.end().want(t, exitOK)
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

func TestServeAcceptsANewerSchema(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	execute(t, url, "INSERT INTO tasktable.goose_db_version (version_id, is_applied) VALUES (9999, true)")
	p := start(t, []string{"DATABASE_URL=" + url, "TASKTABLE_MIGRATE=true"}, "serve")
	p.waitFor("msg=serving ")
	p.signal(syscall.SIGTERM)
	p.end().want(t, exitOK)
}

func TestServeRunsSendEmailOnlyWithAMailServer(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"DATABASE_URL=" + storetest.URL(t), "TASKTABLE_SMTP_HOST=mail.example.org",
		"TASKTABLE_SMTP_USERNAME=u",
		"TASKTABLE_SMTP_PASSWORD=hunter2", "TASKTABLE_LOG_LEVEL=debug"}, "serve", "--smtp-from=a@example.org")
	p.waitFor(`types="[HTTP_REQUEST LOG SEND_EMAIL]"`)
	p.signal(syscall.SIGTERM)
	got := p.end()
	got.want(t, exitOK)
	if strings.Contains(got.stderr, "hunter2") {
		t.Errorf("shows the password:\n%s", got.stderr)
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

func TestServeSharesSlots(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	p := start(t, []string{"DATABASE_URL=" + url, "TASKTABLE_QUEUES=critical=6,default=3,low=1"}, "serve",
		"--share-slots", "--type-slots=LOG=2")
	ask(t, url, "SELECT shares_slots FROM tasktable.nodes WHERE dead_at IS NULL", "true")
	ask(t, url, "SELECT type_slots FROM tasktable.nodes WHERE dead_at IS NULL", `{"LOG": 2}`)
	p.signal(syscall.SIGTERM)
	p.end().want(t, exitOK)
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
		"--strict-queues=default,low", "--notices")
	execute(t, url, `SELECT tasktable.schedule('{"type":"LOG","message":"hi"}', id => 'task', queue => 'low')`)
	ask(t, url, "SELECT status FROM tasktable.scheduled_tasks WHERE id = 'task'", "COMPLETED")
	ask(t, url, "SELECT strict_queues FROM tasktable.nodes WHERE NOT may_lead AND dead_at IS NULL",
		"{notices,default,low}")
	got := run(t, []string{"DATABASE_URL=" + url}, "nodes")
	got.want(t, exitOK)
	if !strings.Contains(got.stdout, "first notices, then default, then low") ||
		!regexp.MustCompile(`leads +leader .*\n.*works +worker `).MatchString(got.stdout) {
		t.Errorf("nodes: %s", got.stdout)
	}
	for _, p := range []*process{worker, leader} {
		p.signal(syscall.SIGTERM)
		p.end().want(t, exitOK)
	}
}

// The higher priority would run first, were it not paused.
func TestServeLeavesWhatItPauses(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	p := start(t, []string{"DATABASE_URL=" + url}, "serve", "--queue=default=5,slow=5", "--pause=queue:slow")
	p.waitFor("paused=[queue:slow]")
	execute(t, url, `SELECT tasktable.schedule('{"type":"LOG","message":"hi"}', id => 'slow', queue => 'slow',
		priority => 9)`)
	execute(t, url, `SELECT tasktable.schedule('{"type":"LOG","message":"hi"}', id => 'fast')`)
	ask(t, url, "SELECT status FROM tasktable.scheduled_tasks WHERE id = 'fast'", "COMPLETED")
	ask(t, url, "SELECT id || ' ' || has_node FROM tasktable.late_tasks", "slow false")
	p.signal(syscall.SIGTERM)
	p.end().want(t, exitOK)
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
