package throwaway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// How a process is told where its database is: in the environment, since a password does not belong
	// among arguments.
	serverVariable   = "TASKTABLE_NODE_SERVER"
	databaseVariable = "TASKTABLE_NODE_DATABASE"
	ready            = "node is up"
)

// Process is a node in a process of its own, to be killed.
type Process struct {
	PID  int
	Done <-chan struct{} // closed when it has ended

	cmd      *exec.Cmd
	lifeline io.Closer
	said     bytes.Buffer // its errors; to be read when it has ended
}

// Start starts a program that opens the database with Inherited, and waits until it has said that it is Ready. The
// process is killed when ctx ends.
func (d *Database) Start(ctx context.Context, program string, arguments, variables []string) (*Process, error) {
	done := make(chan struct{})
	p := &Process{cmd: exec.CommandContext(ctx, program, arguments...), Done: done}
	p.cmd.Env = append(os.Environ(), serverVariable+"="+d.server.ConnString(), databaseVariable+"="+d.Name)
	p.cmd.Env = append(p.cmd.Env, variables...)
	p.cmd.Stderr = &p.said
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	if p.lifeline, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	p.PID = p.cmd.Process.Pid
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(done)
	}()
	if err != nil || strings.TrimSpace(line) != ready {
		p.Kill()
		return nil, errors.Join(
			fmt.Errorf("the node did not start, but said %q", line), err, p.Failure(), context.Cause(ctx),
		)
	}
	return p, nil
}

// Kill ends the process at once (SIGKILL), and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error: it has ended
	<-p.Done
}

// Stop lets the process stop gracefully, for so long.
func (p *Process) Stop(within time.Duration) {
	_ = p.lifeline.Close()
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-p.Done:
	case <-limit.C:
		p.Kill()
	}
}

// Failure says how a process that has ended did so.
func (p *Process) Failure() error {
	return fmt.Errorf("process %d: %s: %s", p.PID, p.cmd.ProcessState, strings.TrimSpace(p.said.String()))
}

// IsProcess is whether this process was started by Start.
func IsProcess() bool { return os.Getenv(databaseVariable) != "" }

// Inherited opens the database that the starting process has given to this one, with a pool of so many connections.
func Inherited(ctx context.Context, most int32) (*Database, error) {
	server, err := pgx.ParseConfig(os.Getenv(serverVariable))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serverVariable, err)
	}
	d := &Database{server: server, Name: os.Getenv(databaseVariable)}
	d.Pool, err = d.NewPool(ctx, most)
	return d, err
}

// Ready tells the starting process that this one is a node now. The context it returns ends also with that process,
// which holds the other end of this one's standard input: a killed bench leaves no nodes behind.
func Ready(ctx context.Context, stdout io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Fprintln(stdout, ready)
	return ctx, cancel
}
