package cmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

// openPTY makes a terminal: what is written to the one end is typed at the other.
func openPTY(t *testing.T) (hand, screen *os.File) {
	t.Helper()
	if _, err := exec.LookPath("stty"); err != nil {
		t.Skip("no stty")
	}
	hand, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = hand.Close() })
	var unlock, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, hand.Fd(), request, uintptr(unsafe.Pointer(value))); code != 0 {
			t.Skip(code)
		}
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	return hand, screen
}

func TestTerminalTellsOfKeysAndIsRestored(t *testing.T) {
	t.Parallel()
	hand, screen := openPTY(t)
	before, err := stty(t.Context(), screen, "-g")
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := openTerminal(t.Context(), screen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	told := make(chan byte, 2)
	var keys sync.WaitGroup
	keys.Go(func() { terminal.keys(ctx, func(key byte) { told <- key }) })
	for _, key := range []byte("kq") { // without a line's end
		if _, err := hand.Write([]byte{key}); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-told:
			if got != key {
				t.Errorf("key %q, want %q", got, key)
			}
		case <-ctx.Done():
			t.Fatalf("key %q is not told", key)
		}
	}
	cancel()
	keys.Wait()
	if err := terminal.restore(); err != nil {
		t.Fatal(err)
	}
	if after, err := stty(t.Context(), screen, "-g"); err != nil || after != before {
		t.Errorf("%v: settings %s, were %s", err, after, before)
	}
}

// What has no keys: /dev/null is a character device like a terminal.
func TestWhatIsNoTerminal(t *testing.T) {
	t.Parallel()
	_, screen := openPTY(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	var none *os.File
	for _, c := range []struct {
		file any
		want bool
	}{{screen, true}, {null, false}, {none, false}, {&bytes.Buffer{}, false}} {
		if got := isTerminal(t.Context(), c.file); got != c.want {
			t.Errorf("%v is a terminal: %t", c.file, got)
		}
	}
}

// A line is rewritten where it stands, and what is said stays above it.
func TestLiveLine(t *testing.T) {
	t.Parallel()
	for rewrites, want := range map[bool]string{
		false: "a\nb\nc\n",
		true:  "\r\x1b[2K\x1b[?7la\x1b[?7h\r\x1b[2Kb\n\x1b[?7la\x1b[?7h\r\x1b[2K\x1b[?7lc\x1b[?7h\n",
	} {
		var out bytes.Buffer
		l := &liveLine{to: &out, rewrites: rewrites}
		l.show("a")
		l.say("%s", "b")
		l.show("c")
		l.end()
		l.end()
		if out.String() != want {
			t.Errorf("rewrites %t: %q, want %q", rewrites, out.String(), want)
		}
	}
}
