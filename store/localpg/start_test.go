//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestDataOutlivesTheServer(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first := mustStart(t, dir)
	mustExec(t, first.URL(), keptSQL)
	mustStop(t, first)
	if isUp(t, first.URL()) {
		t.Fatal("the server answers after Stop")
	}
	if err := first.Stop(); err != nil {
		t.Fatal("a second Stop failed:", err)
	}
	second := mustStart(t, dir)
	mustKeep(t, second.URL())
	if encoding := mustQuery[string](t, second.URL(), "SHOW server_encoding"); encoding != "UTF8" {
		t.Fatal("encoding is", encoding)
	}
}

func TestServerIsPrivateAndApart(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	server := mustStart(t, dir)
	for setting, want := range map[string]string{
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "20", "fsync": "off",
	} {
		if got := mustQuery[string](t, server.URL(), "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	bad := strings.Replace(server.URL(), "tasktable:", "tasktable:wrong", 1)
	if isUp(t, bad) {
		t.Error("a wrong password is let in")
	}
	info, err := os.Stat(filepath.Join(dir, "password"))
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the password file has mode %#o", info.Mode().Perm())
	}
	// In a process group of its own it gets no Ctrl-C from our terminal.
	pid := postmaster(t, dir)
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("the server (process %d) is in process group %d: %v", pid, group, err)
	}
}

// The variables of the caller may be secrets, and a superuser of the server reads those of the server.
func TestServerGetsFewVariables(t *testing.T) {
	t.Setenv("TASKTABLE_TEST_CANARY", "canary")
	server := mustStart(t, openDir(t))
	mustExec(t, server.URL(), "CREATE TABLE variables (line text)")
	mustExec(t, server.URL(), "COPY variables FROM PROGRAM 'env' WITH (DELIMITER E'\\x01')")
	if n := mustQuery[int](t, server.URL(), "SELECT count(*)::int FROM variables WHERE line LIKE 'PATH=%'"); n != 1 {
		t.Errorf("%d lines about PATH, want 1", n)
	}
	if n := mustQuery[int](t, server.URL(), "SELECT count(*)::int FROM variables WHERE line LIKE '%canary%'"); n != 0 {
		t.Error("the server has a variable of the caller")
	}
}

func TestAnotherDatabase(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	mustStart(t, dir)
	cfg := testConfig(dir)
	cfg.Database = `od"d näme`
	server, err := Start(deadline(t), cfg)
	check(t, err)
	defer mustStop(t, server)
	if got := mustQuery[string](t, server.URL(), "SELECT current_database()"); got != cfg.Database {
		t.Fatalf("connected to %q, want %q", got, cfg.Database)
	}
}

func TestFailureShowsTheServersLog(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	mustStop(t, mustStart(t, dir))
	cfg := testConfig(dir)
	cfg.Parameters["work_mem"] = "plenty"
	mustRefuse(t, cfg, `invalid value for parameter "work_mem": "plenty"`)
	mustStop(t, mustStart(t, dir)) // and the failure has left nothing in the way
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	server := mustStart(t, dir)
	f := mustOpen(t, dir)
	port := f.lastPort()
	if !strings.Contains(server.URL(), fmt.Sprint(":", port, "/")) {
		t.Fatalf("the port kept, %d, is not that of %s", port, server.URL())
	}
	mustStop(t, server)
	listener, err := net.Listen("tcp4", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Skip("somebody else took the port:", err)
	}
	defer func() { _ = listener.Close() }()
	alive, err := openLock(f.path("server.lock"))
	check(t, err)
	bin := installed(t)
	data := f.path(dataName(bin.major))
	as, err := f.account.ownerOf(data)
	check(t, err)
	p, err := f.spawn(cluster{bin, data, as}, testConfig(dir), port, alive)
	alive.handOver()
	check(t, err)
	<-p.exited
	if err := p.failure(); !errors.Is(err, errPortTaken) {
		t.Fatal("a port lost by a race is not recognised:", err)
	}
	mustStop(t, mustStart(t, dir))
}

func TestCancelledStart(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("changed my mind")
	cancel(why)
	if _, err := Start(ctx, testConfig(dir)); !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Fatal("got", err)
	}
	nothingIsLeft(t, dir)
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"parameter's name": {
			Config{Parameters: map[string]string{"a b": "c"}}, `Config.Parameters: "a b": a setting's name`,
		},
		"reserved parameter": {
			Config{Parameters: map[string]string{"Port": "1"}}, `Config.Parameters: "Port": is set by localpg`,
		},
		"parameter's value": {Config{Parameters: map[string]string{"work_mem": "\x00"}}, "must not hold a NUL"},
		"long database":     {Config{Database: strings.Repeat("x", 64)}, "Config.Database"},
		"file for a folder": {Config{Dir: self(t)}, "Config.Dir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustRefuse(t, c.cfg, c.want)
		})
	}
}

func TestFolderOpenToEverybodyIsRefused(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	check(t, os.Chmod(dir, 0o777))
	mustRefuse(t, testConfig(dir), "writable by everybody")
}

func TestRootNeedsAReachableFolder(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs Postgres as somebody else")
	}
	closed := filepath.Join(t.TempDir(), "below") // t.TempDir is in a folder of mode 0700
	_, err := Start(deadline(t), testConfig(closed))
	if err == nil || !strings.Contains(err.Error(), "ermission denied") || !strings.Contains(err.Error(), closed) {
		t.Fatal("got", err)
	}
}

func TestMadeFoldersIgnoreTheUmask(t *testing.T) {
	t.Parallel()
	who, err := serverAccount()
	check(t, err)
	dir := filepath.Join(openDir(t), "a", "b")
	check(t, makeFolder(dir, who))
	want := []fs.FileMode{0o700, 0o700}
	if who != nil {
		want = []fs.FileMode{0o755, 0o711}
	}
	var got []fs.FileMode
	for _, path := range []string{filepath.Dir(dir), dir} {
		info, err := os.Stat(path)
		check(t, err)
		got = append(got, info.Mode().Perm())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("modes are %o, want %o", got, want)
	}
}

func TestLogIsSetAside(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	check(t, os.WriteFile(filepath.Join(dir, "postgres.log"), make([]byte, maxLog+1), 0o600))
	mustStop(t, mustStart(t, dir))
	if info, err := os.Stat(filepath.Join(dir, "postgres.log")); err != nil || info.Size() > maxLog {
		t.Fatal("the log goes on growing:", err)
	}
}
