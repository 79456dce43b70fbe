package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

// asProgram makes this test binary the program itself, so that tests run it as a process without building it.
const asProgram = "CMD_TEST_IS_THE_PROGRAM"

// raceAtOnce keeps the race detector from waiting a second at the end of each process.
const raceAtOnce = "GORACE=atexit_sleep_ms=0"

// asProgramIn is the environment of such a process.
func asProgramIn(variables ...string) []string {
	return append([]string{asProgram + "=yes", raceAtOnce, "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")},
		variables...)
}

// waitLimit bounds each step. It is more than a minute, because the watch behind notices looks once a minute.
const waitLimit = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Execute())
	}
	storetest.Main(m, leaks.Check)
}

// result is how a run of the program ended.
type result struct {
	code           int
	stdout, stderr string
}

// run runs the program within this process, in the environment given and no other.
func run(t *testing.T, variables []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := newProgram(variables, &stdout, &stderr)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	code := p.run(ctx, args)
	return result{code, stdout.String(), stderr.String()}
}

func (r result) want(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d; stderr:\n%s", r.code, code, r.stderr)
	}
	for _, text := range stderr {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("stderr lacks %q:\n%s", text, r.stderr)
		}
	}
}

// process is the program as a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	lines  chan string
	stderr strings.Builder // what of lines was read
}

func start(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitLimit)
	p := &process{t: t, cmd: exec.CommandContext(ctx, os.Args[0], args...), lines: make(chan string, 1000)}
	p.cmd.Env = asProgramIn(variables...)
	p.cmd.Stdout = &p.stdout
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() { // of one that the test has not waited for
		cancel()
		_ = p.cmd.Wait()
	})
	return p
}

// waitFor reads stderr up to a line with the text.
func (p *process) waitFor(text string) string {
	p.t.Helper()
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				p.t.Fatalf("ended without %q on stderr:\n%s", text, p.stderr.String())
			}
			p.stderr.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return line
			}
		case <-limit.C:
			p.t.Fatalf("no %q on stderr within %s:\n%s", text, waitLimit, p.stderr.String())
		}
	}
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// ended is whether stderr was closed, which nothing but the end does.
func (p *process) ended() bool {
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				return true
			}
			p.stderr.WriteString(line + "\n")
		default:
			return false
		}
	}
}

// stop stops it as a supervisor does, and wants it to end well.
func (p *process) stop(stderr ...string) result {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	got := p.end()
	got.want(p.t, exitOK, stderr...)
	return got
}

// end waits for the end.
func (p *process) end() result {
	p.t.Helper()
	for line := range p.lines {
		p.stderr.WriteString(line + "\n")
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return result{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}
