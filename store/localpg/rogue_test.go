//go:build linux || darwin

package localpg

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// rogue is a program of another user on the port of a server that crashed. It asks each client for the password in
// clear, and keeps what it hears.
type rogue struct {
	listener net.Listener
	mu       sync.Mutex
	heard    bytes.Buffer
	asked    int
	served   sync.WaitGroup
}

func startRogue(t *testing.T) *rogue {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	r := &rogue{listener: listener}
	r.served.Go(r.accept)
	t.Cleanup(r.stop)
	return r
}

func (r *rogue) stop() {
	_ = r.listener.Close()
	r.served.Wait()
}

func (r *rogue) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.served.Go(func() { r.ask(conn) })
	}
}

func (r *rogue) ask(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	start := make([]byte, 1024)
	if _, err := conn.Read(start); err != nil {
		return
	}
	if _, err := conn.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3}); err != nil { // AuthenticationCleartextPassword
		return
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, 1024))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	r.heard.Write(answer)
}

func TestAStrangerOnThePortLearnsNoPassword(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	mustStop(t, mustStart(t, dir))
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	check(t, err)
	stranger := startRogue(t)
	crashed(t, dir, 2147483646, stranger.listener.Addr().(*net.TCPAddr).Port) // no process has this number
	server := mustStart(t, dir)
	if n := mustQuery[int](t, server.URL()+"&"+Mutual, "SELECT 1"); n != 1 {
		t.Fatalf("got %d, want 1", n)
	}
	stranger.stop()
	if stranger.asked == 0 {
		t.Fatal("nobody has asked the stranger, so this test shows nothing")
	}
	if bytes.Contains(stranger.heard.Bytes(), bytes.TrimSpace(password)) {
		t.Fatal("the stranger was told the password")
	}
}
