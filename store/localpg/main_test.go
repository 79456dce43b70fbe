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
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
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
func mustStart(t *testing.T, dir string) *Server {
	t.Helper()
	server, err := Start(deadline(t), testConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func mustStop(t *testing.T, server *Server) {
	t.Helper()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
}

func mustQuery[T any](t *testing.T, url, query string) T {
	t.Helper()
	ctx := deadline(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(conn)
	var got T
	if err := conn.QueryRow(ctx, query).Scan(&got); err != nil {
		t.Fatal(query, err)
	}
	return got
}

func mustExec(t *testing.T, url, statement string) {
	t.Helper()
	ctx := deadline(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(statement, err)
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
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := f.instances()
	if len(found) != 1 {
		t.Fatalf("found %d servers, want 1", len(found))
	}
	return found[0].pid
}
