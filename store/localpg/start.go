//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	startLimit = 3 * time.Minute // if the caller's context has no deadline
	readyPoll  = 20 * time.Millisecond
	portTries  = 5
)

func start(ctx context.Context, cfg Config) (*Server, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startLimit)
		defer cancel()
	}
	f, err := openFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	f.noDownload = cfg.NoDownload
	starting, err := openLock(f.path("start.lock"))
	if err != nil {
		return nil, err
	}
	defer starting.release()
	if err := starting.wait(ctx); err != nil {
		return nil, err
	}
	users, err := openLock(f.path("users.lock"))
	if err != nil {
		return nil, err
	}
	// This can fail only by a fault, because others hold the exclusive lock only together with start.lock.
	if got, err := users.try(syscall.LOCK_SH); err != nil || !got {
		users.release()
		return nil, errors.Join(err, fmt.Errorf("sharing %s failed", f.path("users.lock")))
	}
	server, err := f.joinOrLaunch(ctx, cfg, users)
	if err != nil {
		users.release()
		return nil, err
	}
	return server, nil
}

// joinOrLaunch joins the server that runs. It waits for a server that is starting, recovering or stopping. If no
// server is left, it starts one. The caller holds start.lock.
func (f *folder) joinOrLaunch(ctx context.Context, cfg Config, users *lock) (*Server, error) {
	password, err := f.password()
	if err != nil {
		return nil, err
	}
	alive, err := openLock(f.path("server.lock"))
	if err != nil {
		return nil, err
	}
	for {
		free, err := alive.try(syscall.LOCK_EX)
		if err != nil {
			alive.release()
			return nil, err
		}
		if free {
			break
		}
		found, probeErr := f.probe(ctx, password)
		if probeErr == nil {
			alive.handOver() // this process has not locked it
			cfg.Logger.Info("using the Postgres that runs already", "port", found.port, "dir", found.data)
			return f.serve(ctx, cfg, users, found.port, password, nil)
		}
		if isRefusal(probeErr) {
			alive.handOver()
			return nil, fmt.Errorf("the server that runs on %s refuses the password kept in %s: %w", f.dir,
				f.path("password"), probeErr)
		}
		if err := pause(ctx, readyPoll); err != nil {
			alive.handOver()
			return nil, fmt.Errorf("waiting for the server that runs on %s and does not answer (its log is %s): %w "+
				"(last answer: %w)", f.dir, f.logPath(), err, probeErr)
		}
	}
	started, err := f.launch(ctx, cfg, password, alive)
	if err != nil {
		return nil, err
	}
	return f.serve(ctx, cfg, users, started.port, password, started)
}

// launch starts a server. It takes over the lock alive, which the server inherits.
func (f *folder) launch(ctx context.Context, cfg Config, password string, alive *lock) (*process, error) {
	defer alive.handOver()
	f.sweep()
	if err := f.dropStalePidFile(ctx, password, cfg.Logger); err != nil {
		return nil, err
	}
	bin, err := f.choose(ctx, cfg.Logger)
	if err != nil {
		return nil, err
	}
	c, err := f.openCluster(ctx, bin, cfg, password, alive)
	if err != nil {
		return nil, err
	}
	wish := f.lastPort()
	for try := 1; ; try++ {
		port, err := freePort(wish)
		if err != nil {
			return nil, err
		}
		p, err := f.spawn(c, cfg, port, alive)
		if err != nil {
			return nil, err
		}
		err = p.ready(ctx, password, c.data)
		if err == nil {
			cfg.Logger.Info("Postgres is running", "version", bin.major, "port", port, "dir", c.data)
			_ = f.write("port", fmt.Sprintln(port)) // the next start prefers this port, but does not need it
			return p, nil
		}
		if !errors.Is(err, errPortTaken) || try == portTries {
			return nil, err
		}
		wish = 0
	}
}

// ready waits until the server answers. If ready gives up, it ends the server, because nobody holds it.
func (p *process) ready(ctx context.Context, password, data string) error {
	for {
		last := answers(ctx, p.port, password, data)
		if last == nil {
			return nil
		}
		select {
		case <-p.exited:
			return p.failure()
		default:
		}
		if isRefusal(last) {
			p.abandon()
			if err := p.failure(); errors.Is(err, errPortTaken) { // another server has refused the password
				return err
			}
			return fmt.Errorf("the server on %s refuses the password kept for it: %w", data, last)
		}
		if err := pause(ctx, readyPoll); err != nil {
			p.abandon()
			return fmt.Errorf("waiting for the server on %s to answer: %w (last answer: %w); the end of %s:\n%s", data,
				err, last, p.log, p.tail())
		}
	}
}

// serve returns the Server after it has made sure that the database exists.
func (f *folder) serve(
	ctx context.Context, cfg Config, users *lock, port int, password string, own *process,
) (*Server, error) {
	if err := createDatabase(ctx, port, password, cfg.Database); err != nil {
		if own != nil {
			own.abandon()
		}
		return nil, err
	}
	return &Server{
		url:   address(port, password, cfg.Database),
		leave: func() error { return f.leave(users, own, cfg.Logger) },
	}, nil
}
