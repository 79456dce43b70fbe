//go:build linux

// Package termtest makes terminals for tests.
package termtest

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"
)

// OpenPTY makes a terminal: what is written to the one end is typed at the other.
func OpenPTY(t *testing.T) (hand, screen *os.File) {
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
		if _, _, code := syscall.Syscall(
			syscall.SYS_IOCTL, hand.Fd(), request, uintptr(unsafe.Pointer(value)),
		); code != 0 {
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
