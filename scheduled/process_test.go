//go:build unix

package scheduled

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
)

// process is a node in a process of its own: this binary.
type process struct {
	*field
	cmd  *exec.Cmd
	pid  int
	log  bytes.Buffer
	done chan struct{} // closed when it has ended
}

// start begins a node's process, and waits until it is registered.
func (f *field) start(change func(*childConfig)) *process {
	f.t.Helper()
	config := childConfig{URL: f.url, Slots: 20, ShutdownTimeout: 20 * time.Second}
	if change != nil {
		change(&config)
	}
	text, err := json.Marshal(config)
	if err != nil {
		f.t.Fatal(err)
	}
	// Not a context's: the test says by which signal it ends.
	p := &process{field: f, cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal for the tests is not for it
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	lifeline, err := p.cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	f.t.Cleanup(func() { p.clean(lifeline) })
	p.node(0)
	return p
}

func (p *process) clean(lifeline io.Closer) {
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // one that has ended is no error; a stopped one ends, too
	<-p.done
	_ = lifeline.Close()
	if p.t.Failed() {
		p.t.Logf("process %d:\n%s", p.pid, lastLines(p.log.String(), 40))
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// node waits until the process has a node of a higher number than that, and returns its number.
func (p *process) node(after int64) (number int64) {
	p.t.Helper()
	enginetest.Eventually(
		p.t, 20*time.Second, fmt.Sprintf("process %d has a node after %d", p.pid, after), func() bool {
			select {
			case <-p.done:
				p.t.Fatalf("process %d ended: %s", p.pid, p.cmd.ProcessState)
			default:
			}
			number = ask[int64](p.field, `SELECT coalesce(max(number), 0) FROM tasktable.nodes
			WHERE dead_at IS NULL AND host LIKE '%/' || $1::int::text`, p.pid)
			return number > after
		},
	)
	return number
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(-p.pid, signal); err != nil {
		p.t.Fatalf("signal %v to process %d: %v", signal, p.pid, err)
	}
}

// kill ends the process at once, and returns when it is gone.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.done
}

// ends waits for the process to exit by itself, and returns its exit code.
func (p *process) ends(within time.Duration) int {
	p.t.Helper()
	enginetest.Receive(p.t, p.done, within, fmt.Sprintf("process %d has ended", p.pid))
	return p.cmd.ProcessState.ExitCode()
}

// leads waits until a node of the process leads, and returns how long that took and the node's number.
func (p *process) leads(within time.Duration) (took time.Duration, number int64) {
	p.t.Helper()
	begin := time.Now()
	enginetest.Eventually(p.t, within, fmt.Sprintf("process %d leads", p.pid), func() bool {
		var pid int
		number, pid = p.leading()
		return pid == p.pid
	})
	return time.Since(begin), number
}

// runs waits until the process has begun the task.
func (p *process) runs(id string, within time.Duration) time.Duration {
	p.t.Helper()
	return p.until(
		within, fmt.Sprintf("process %d runs %s", p.pid, id),
		`SELECT EXISTS (SELECT 1 FROM runs WHERE task_id = $1 AND pid = $2)`, id, p.pid,
	)
}
