//go:build linux || darwin

package localpg

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// childDir makes the test binary a program that uses the server in that folder until its stdin ends.
const childDir = "LOCALPG_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(beChild(dir))
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func beChild(dir string) int {
	server, err := Start(context.Background(), testConfig(dir))
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(server.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := server.Stop(); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// child is another process that uses the server.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
}

func startChild(t *testing.T, dir string, as *syscall.Credential, binary string) *child {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	c := &child{cmd: cmd, stdin: stdin}
	t.Cleanup(c.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error:") {
		t.Fatalf("the other process did not start a server: %s %v", line, err)
	}
	c.url = strings.TrimSpace(line)
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) leave(t *testing.T) {
	t.Helper()
	_ = c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Fatal("the other process did not stop well:", err)
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	check(t, err)
	return path
}

func testConfig(dir string) Config {
	return Config{
		Dir: dir, Parameters: map[string]string{"fsync": "off", "shared_buffers": "16MB", "max_connections": "20"},
	}
}

// openDir is a folder that other users can reach, which t.TempDir, inside a folder of mode 0700, is not.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localpg-test-")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// mustStart starts a server that is certainly stopped at the end of the test.
// check ends the test if a call has failed.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustStart(t *testing.T, dir string) *Server {
	t.Helper()
	server, err := Start(deadline(t), testConfig(dir))
	check(t, err)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func mustStop(t *testing.T, server *Server) {
	t.Helper()
	check(t, server.Stop())
}

// mustRefuse expects an error of Start that has a text.
func mustRefuse(t *testing.T, cfg Config, want string) {
	t.Helper()
	if _, err := Start(deadline(t), cfg); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want an error with %s", err, want)
	}
}

func mustOpen(t *testing.T, dir string) *folder {
	t.Helper()
	f, err := openFolder(dir)
	check(t, err)
	return f
}

func nothingIsLeft(t *testing.T, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(dir, "*.unfinished-*")); len(left) > 0 {
		t.Fatal("left behind:", left)
	}
}

// crashed leaves a pid file as a crash does.
func crashed(t *testing.T, dir string, pid, port int) {
	t.Helper()
	data, err := filepath.Glob(filepath.Join(dir, "data-*"))
	if err != nil || len(data) != 1 {
		t.Fatal(data, err)
	}
	text := fmt.Sprintf("%d\n%s\n1700000000\n%d\n\n127.0.0.1\n\nready   \n", pid, data[0], port)
	check(t, os.WriteFile(filepath.Join(data[0], "postmaster.pid"), []byte(text), 0o600))
}

func mustQuery[T any](t *testing.T, url, query string) (got T) {
	t.Helper()
	ctx := deadline(t)
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer closeConn(conn)
	if err := conn.QueryRow(ctx, query).Scan(&got); err != nil {
		t.Fatal(query, err)
	}
	return got
}

func mustExec(t *testing.T, url, statement string) {
	t.Helper()
	ctx := deadline(t)
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(statement, err)
	}
}

// keptSQL makes a table. mustKeep finds it again.
const keptSQL = "CREATE TABLE kept AS SELECT 42 AS n"

func mustKeep(t *testing.T, url string) {
	t.Helper()
	if n := mustQuery[int](t, url, "SELECT n FROM kept"); n != 42 {
		t.Fatalf("got %d, want 42", n)
	}
}

func isUp(t *testing.T, url string) bool {
	t.Helper()
	conn, err := pgx.Connect(deadline(t), url)
	if err != nil {
		return false
	}
	closeConn(conn)
	return true
}

// postmaster is the process id of the server on dir.
func postmaster(t *testing.T, dir string) int {
	t.Helper()
	f := mustOpen(t, dir)
	found := f.instances()
	if len(found) != 1 {
		t.Fatalf("found %d servers, want 1", len(found))
	}
	return found[0].pid
}
