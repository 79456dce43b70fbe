//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"
)

const (
	leaveLimit = 30 * time.Second // for another process that is just starting or stopping the server
	fastLimit  = time.Minute
	quitLimit  = 10 * time.Second
)

// leave gives up a share. If it was the last share, leave stops the server.
func (f *folder) leave(users *lock, own *process, log *slog.Logger) error {
	defer users.release()
	starting, err := openLock(f.path("start.lock"))
	if err != nil {
		return err
	}
	defer starting.release()
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := starting.wait(ctx); err != nil {
		return err
	}
	// If this fails, the shared lock may be lost, too. That does not matter, because this process leaves.
	last, err := users.try(syscall.LOCK_EX)
	if err != nil {
		return err
	}
	if !last {
		log.Debug("leaving Postgres to its other users", "dir", f.dir)
		return nil
	}
	if err := f.shutDown(); err != nil {
		return err
	}
	if own != nil {
		<-own.exited // this takes an instant, because the server has released its lock
	}
	log.Info("Postgres has stopped", "dir", f.dir)
	return nil
}

// shutDown stops the server, even if another process started it. The caller holds start.lock.
func (f *folder) shutDown() error {
	alive, err := openLock(f.path("server.lock"))
	if err != nil {
		return err
	}
	defer alive.release()
	for _, step := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGINT, fastLimit}, {syscall.SIGQUIT, quitLimit}} {
		gone, err := alive.try(syscall.LOCK_EX)
		if err != nil || gone {
			return err
		}
		for _, running := range f.instances() {
			if err := syscall.Kill(running.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("signalling the server (process %d): %w", running.pid, err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), step.limit)
		err = alive.wait(ctx)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("the server on %s does not end; its log is %s", f.dir, f.logPath())
}

// abandon ends a server about which no user of the package knows yet.
func (p *process) abandon() {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(signal)
		timer := time.NewTimer(quitLimit / 2)
		select {
		case <-p.exited:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
