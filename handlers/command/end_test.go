//go:build unix

package command_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/command"
	"github.com/tasktable/tasktable/handlers/command/contract"
)

// ended reports whether a process, whose number is in the file, has ended. A zombie has.
func ended(t *testing.T, file string) bool {
	t.Helper()
	number, err := strconv.Atoi(read(file))
	if err != nil {
		return false
	}
	if errors.Is(syscall.Kill(number, 0), syscall.ESRCH) {
		return true
	}
	output, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(number)).Output()
	state := strings.TrimSpace(string(output))
	return state == "" || strings.HasPrefix(state, "Z")
}

// shellWithFile is a shell whose $1 is a file of the test's own.
func shellWithFile(t *testing.T, script string) (c command.Command, file string) {
	t.Helper()
	c, file = shell(script), filepath.Join(t.TempDir(), "file")
	c.Args = append(c.Args, file)
	return c, file
}

// At its timeout the whole group gets SIGTERM: the program and its child.
func TestTheTimeoutEndsTheGroup(t *testing.T) {
	t.Parallel()
	c, child := shellWithFile(t, "echo step 1; sleep 1000 & echo $! >$1; wait")
	_, err := run(t.Context(), c, contract.Exec{Timeout: "700ms"})
	if err == nil || err.Error() != "command test: it took longer than 700ms; it was ended by signal: step 1" ||
		permanent(err) {
		t.Errorf("got %v", err)
	}
	waitFor(t, "the child has ended", func() bool { return ended(t, child) })
}

// A program that ignores SIGTERM gets SIGKILL after the grace, and so does its child.
func TestTheGraceEnds(t *testing.T) {
	t.Parallel()
	c, child := shellWithFile(t, `trap "" TERM; (while :; do sleep 0.01; done) & echo $! >$1; wait`)
	c.Timeout, c.Grace = 500*time.Millisecond, 200*time.Millisecond
	_, err := run(t.Context(), c, contract.Exec{})
	if err == nil || !strings.Contains(err.Error(), "it took longer than 500ms") {
		t.Errorf("got %v", err)
	}
	waitFor(t, "the child has ended", func() bool { return ended(t, child) })
}

// A program may clean up within the grace.
func TestTheGraceIsGiven(t *testing.T) {
	t.Parallel()
	c, cleaned := shellWithFile(t, `trap 'echo yes >$1; exit 0' TERM; while :; do sleep 0.01; done`)
	if _, err := run(t.Context(), c, contract.Exec{Timeout: "700ms"}); err == nil || read(cleaned) != "yes" {
		t.Errorf("got %v, cleaned %q", err, read(cleaned))
	}
}

// A cancelled task ends its program.
func TestTheContextEndsTheGroup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the task was cancelled")
	c, child := shellWithFile(t, "sleep 1000 & echo $! >$1; wait")
	ran := make(chan error, 1)
	go func() {
		_, err := run(ctx, c, contract.Exec{})
		ran <- err
	}()
	waitFor(t, "the child runs", func() bool { return read(child) != "" })
	cancel(cause)
	if err := <-ran; !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	waitFor(t, "the child has ended", func() bool { return ended(t, child) })
}

// A child that outlives the program neither holds up the task, though it holds the output, nor goes on.
func TestAChildThatOutlivesItsParent(t *testing.T) {
	t.Parallel()
	c, child := shellWithFile(t, "echo before; sleep 1000 & echo $! >$1; exit 0")
	began := time.Now()
	got, err := run(t.Context(), c, contract.Exec{})
	if err != nil || got.Stdout != "before\n" || time.Since(began) > patience/2 {
		t.Errorf("got %+v, %v after %s", got, err, time.Since(began))
	}
	waitFor(t, "the child has ended", func() bool { return ended(t, child) })
}

// A daemon with a session of its own goes on, and does not hold up the task either.
func TestADaemon(t *testing.T) {
	t.Parallel()
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip("needs setsid in PATH")
	}
	c, daemon := shellWithFile(t, setsid+
		` sh -c 'echo $$ >$0; exec sleep 1000' $1 & while [ ! -s $1 ]; do sleep 0.01; done`)
	began := time.Now()
	if _, err := run(t.Context(), c, contract.Exec{}); err != nil || time.Since(began) > patience/2 {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
	if ended(t, daemon) {
		t.Error("the daemon has ended")
	}
	number, err := strconv.Atoi(read(daemon))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(number, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// 100 MB of output take a bounded memory, and their end is kept.
func TestMuchOutput(t *testing.T) {
	t.Parallel()
	c := shell("head -c 100000000 /dev/zero | tr '\\000' x; echo; echo the end")
	c.Output = 64 << 10 // more than is read at once
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := run(t.Context(), c, contract.Exec{})
	runtime.ReadMemStats(&after)
	if err != nil || got.StdoutBytes != 100000009 || got.Stdout != strings.Repeat("x", 64<<10-9)+"\nthe end\n" {
		t.Errorf("got %d bytes, %d of them, %v", got.StdoutBytes, len(got.Stdout), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 60e6 { // of this test and of those that run beside it
		t.Errorf("it took %d bytes of memory", used)
	}
}

// If the node is killed, the kernel ends the program.
func TestTheNodeIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the program")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "program")
	node := exec.Command(self)
	node.Env = append(os.Environ(), asNode+"=echo $$ >"+file+"; while :; do sleep 0.01; done")
	output, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program runs", func() bool { return read(file) != "" })
	if ended(t, file) {
		t.Fatal("the program has ended before")
	}
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		t.Errorf("the node said %s", lines.Text())
	}
	_ = node.Wait()
	waitFor(t, "the program has ended", func() bool { return ended(t, file) })
}
