//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxLog is the size in bytes from which the next start renames the server's log.
const maxLog = 10 << 20

var errPortTaken = errors.New("the port was taken by another process")

// command returns a command that runs a program of Postgres as the account.
func (a *account) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/" // the account may not be allowed to enter the caller's folder
	cmd.Env = environment()
	cmd.WaitDelay = time.Second // a killed initdb leaves children that keep its output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	return cmd
}

// environment returns the few variables of the caller that Postgres needs. The others may be secrets, and a user who
// may run programs by COPY in the database could read them. Messages are in English, because this package parses some
// of them. On macOS Postgres does not even start under some locales.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "HOME", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// process is a server that this process has started.
type process struct {
	port    int
	cmd     *exec.Cmd
	exited  chan struct{} // closed after the server has ended; err is set before
	err     error
	log     string
	logFrom int64
}

// spawn starts the server in its own session. The server inherits the lock.
func (f *folder) spawn(c cluster, cfg Config, port int, alive *lock) (*process, error) {
	if info, err := os.Stat(f.logPath()); err == nil && info.Size() > maxLog {
		_ = os.Rename(f.logPath(), f.logPath()+".1")
	}
	log, err := os.OpenFile(f.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the server's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("opening the server's log: %w", err)
	}
	// The command does not depend on ctx, because the server outlives the call, and often the process.
	cmd := c.as.command(context.Background(), filepath.Join(c.bin.dir, "postgres"),
		serverArgs(c.data, port, cfg.Parameters)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{alive.file}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	p := &process{port: port, cmd: cmd, exited: make(chan struct{}), log: f.logPath(), logFrom: from}
	go p.reap()
	return p, nil
}

// reap waits for the end of the server, which would otherwise stay a zombie. If others still use the server, reap may
// return only after Stop. The check of goroutines in storetest/leaks knows it by its name.
func (p *process) reap() {
	p.err = p.cmd.Wait()
	close(p.exited)
}

func serverArgs(data string, port int, parameters map[string]string) []string {
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	set("listen_addresses", "127.0.0.1")
	set("unix_socket_directories", "") // because the path is often too long for a socket
	set("logging_collector", "off")
	for name, value := range parameters {
		set(name, value)
	}
	return args
}

// failure returns the error of a server that has ended by itself.
func (p *process) failure() error {
	said := p.tail()
	if strings.Contains(said, "could not bind") || strings.Contains(said, "could not create any TCP/IP sockets") {
		return fmt.Errorf("%w: %d", errPortTaken, p.port)
	}
	return fmt.Errorf("%s ended while starting (%w); the end of %s:\n%s", p.cmd.Path, p.err, p.log, said)
}

// tail returns the last lines that this start has written to the log.
func (p *process) tail() string {
	file, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(file, p.logFrom, 1<<20))
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text))
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// freePort returns the preferred port if it is free, otherwise another free port. Another process may take the port
// the next instant.
func freePort(wish int) (int, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(wish)))
	if err != nil && wish != 0 {
		return freePort(0)
	}
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
