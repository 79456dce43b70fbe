//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a node, or the HTTP API, in a process of its own: this binary.
type process struct {
	slot    string // whose wire it has, as "node 2"
	pid     int
	journal string
	began   time.Time

	cmd      *exec.Cmd
	lifeline io.Closer
	log      tail
	done     chan struct{} // closed when it has ended

	mu     sync.Mutex
	asked  bool      // to stop
	killed time.Time // when it was killed; zero: it was not. Before that it lived.
	ended  time.Time
}

// startProcess begins a node's process.
func startProcess(slot, folder string, number int, config nodeConfig) (*process, error) {
	config.Journal = filepath.Join(folder, fmt.Sprintf("journal-%d", number))
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the node's configuration: %w", err)
	}
	p, err := launch(slot, []string{nodeVariable + "=" + string(text), skewVariable + "=" + strconv.Itoa(config.Skew)})
	if err != nil {
		return nil, err
	}
	p.journal = config.Journal
	return p, nil
}

// launch begins a process that has some variables and files besides.
func launch(slot string, variables []string, files ...*os.File) (_ *process, err error) {
	// Not a context's: the faults say by which signal it ends.
	p := &process{slot: slot, began: time.Now(), cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env, p.cmd.ExtraFiles = append(os.Environ(), variables...), files
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal for the test is not for it
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if p.lifeline, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", slot, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", slot, err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		p.mu.Lock()
		p.ended = time.Now()
		p.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// signal sends a signal, if the process still runs.
func (p *process) signal(signal syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.pid, signal)
	}
}

// freeze stops the process for so long.
func (p *process) freeze(ctx context.Context, long time.Duration) {
	p.signal(syscall.SIGSTOP)
	_ = wait(ctx, long)
	p.signal(syscall.SIGCONT)
}

// kill ends the process at once, and returns when it is gone.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = time.Now()
	p.mu.Unlock()
	p.signal(syscall.SIGKILL)
	<-p.done
	_ = p.lifeline.Close()
}

// stop ends the process gracefully, and says how it did not.
func (p *process) stop(within time.Duration) error {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	p.signal(syscall.SIGTERM)
	defer func() { _ = p.lifeline.Close() }()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
		return fmt.Errorf("%s (process %d) did not stop within %s; the end of its log:\n%s", p.slot, p.pid, within,
			p.log.last(30))
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s (process %d) ended with %s; the end of its log:\n%s", p.slot, p.pid, p.cmd.ProcessState,
			p.log.last(30))
	}
	return nil
}

// running says whether it has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// byItself says that it ended, and nobody had asked it to.
func (p *process) byItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended.IsZero() && !p.asked && p.killed.IsZero()
}

// life is when the process lived: until is zero while it does. Killed, it lived until the kill was sent, and
// perhaps a little longer.
func (p *process) life() (from, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.killed.IsZero() {
		return p.began, p.killed
	}
	return p.began, p.ended
}

// tail is the end of a process's log.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

const tailMost = 1 << 20

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text.Len() > tailMost {
		t.text.Next(t.text.Len() - tailMost/2)
	}
	return t.text.Write(text)
}

func (t *tail) last(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(t.text.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
