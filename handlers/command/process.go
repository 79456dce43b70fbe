package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// process is one run of a program.
type process struct {
	path           string
	args           []string
	environment    []string
	directory      string
	grace          time.Duration
	stdout, stderr *tail

	state   *os.ProcessState
	stopped bool // it had not ended when its context did
}

// afterEnd is how long output is read after the program has ended. A process that has left the program's group may
// hold the output open for ever.
const afterEnd = time.Second

// run runs the program until it has ended, and then ends what it left in its group. It returns an error if the program
// could not begin.
func (p *process) run(ctx context.Context) error {
	// On Linux, the kernel ends the program when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = p.environment, p.directory, ownGroup()
	cmd.Cancel = func() error {
		p.stopped = true
		return terminate(cmd.Process)
	}
	cmd.WaitDelay = p.grace // after it, SIGKILL
	var reading sync.WaitGroup
	var pipes []*os.File
	defer func() {
		for _, pipe := range pipes {
			_ = pipe.Close()
		}
	}()
	open := func(into *tail) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("make a pipe for its output: %w", err)
		}
		pipes = append(pipes, r, w)
		reading.Go(func() { _, _ = io.Copy(writerOnly{into}, r) })
		return w, nil
	}
	defer reading.Wait()
	defer func() { // before that wait, so that it ends
		for i, pipe := range pipes {
			if i%2 == 0 {
				_ = pipe.SetReadDeadline(time.Now().Add(afterEnd))
			} else {
				_ = pipe.Close()
			}
		}
	}()
	// The program writes into the pipes itself. If cmd copied its output, a process that outlives the program would
	// hold up cmd.Wait.
	stdout, err := open(p.stdout)
	if err != nil {
		return err
	}
	stderr, err := open(p.stderr)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("it cannot be started: %w", err)
	}
	err = cmd.Wait()
	killGroup(cmd.Process)
	if p.state = cmd.ProcessState; p.state == nil {
		return errors.Join(errors.New("its end cannot be seen"), err)
	}
	return nil
}

// writerOnly keeps io.Copy from finding other methods.
type writerOnly struct{ io.Writer }
