//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPoll is the time between two tries to get a lock, because flock cannot wait with a deadline.
const lockPoll = 20 * time.Millisecond

// lock is a flock on a file. The kernel releases it when the process dies, however it dies. Therefore it is never
// stale, unlike a file with a process id in it.
type lock struct{ file *os.File }

func openLock(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock file: %w", err)
	}
	return &lock{file}, nil
}

// try takes the lock in the given mode, LOCK_SH or LOCK_EX, or converts the lock that is held to that mode.
func (l *lock) try(mode int) (bool, error) {
	for {
		err := syscall.Flock(int(l.file.Fd()), mode|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("locking %s: %w", l.file.Name(), err)
		}
	}
}

// wait takes the lock exclusively, or gives up when ctx ends.
func (l *lock) wait(ctx context.Context) error {
	for {
		got, err := l.try(syscall.LOCK_EX)
		if err != nil || got {
			return err
		}
		if err := pause(ctx, lockPoll); err != nil {
			return fmt.Errorf("waiting for %s, which another process holds: %w", l.file.Name(), err)
		}
	}
}

// release unlocks and closes the file. Closing alone would not unlock it while a child that is being forked at that
// instant has a copy of the descriptor.
func (l *lock) release() {
	_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	_ = l.file.Close()
}

// handOver closes only this process's descriptor, so that the children that inherited the lock keep it.
func (l *lock) handOver() { _ = l.file.Close() }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
