package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

// taskType is the one type of task that the benches run.
const taskType = "BENCH"

// node is an engine with one handler, as a service would run it.
type node struct {
	pool    *pgxpool.Pool
	ran     atomic.Int64  // how many times the handler has returned
	held    chan struct{} // its handler of heldType returns when this is closed
	metrics *prometheus.Registry
	cancel  context.CancelFunc
	done    chan error
}

// withNode runs a node with the default settings on a database of its own, which do measures. The node is warm.
func withNode(ctx context.Context, config Config, do func(d *database, n *node) error) error {
	return within(ctx, config, func(d *database) (err error) {
		n, err := startNode(ctx, d, config, 0, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.stop()) }()
		if err := n.warm(ctx, d); err != nil {
			return err
		}
		return do(d, n)
	})
}

// startNode starts a node and waits until a node leads. slots is the number of its slots. 0 means the default, and -1
// means that the node only leads. do is the handler. Nil means a handler that does nothing.
func startNode(
	ctx context.Context, d *database, config Config, slots int, do func(context.Context) error,
) (*node, error) {
	pool, err := d.NewPool(ctx, 10)
	if err != nil {
		return nil, err
	}
	n := &node{pool: pool, held: make(chan struct{}), done: make(chan error, 1), metrics: prometheus.NewRegistry()}
	registry, err := handlers.NewRegistry(handlers.Func(taskType, func(ctx context.Context) error {
		defer n.ran.Add(1)
		if do == nil {
			return nil
		}
		return do(ctx)
	}), handlers.Func(heldType, func(context.Context) error { <-n.held; return nil }),
		handlers.Use(d.groups.around))
	if err != nil {
		return nil, err
	}
	settings := scheduled.Config{Pool: pool, Handlers: registry, Service: "bench", Logger: config.Logger,
		Metrics: n.metrics}
	if slots > 0 {
		settings.Queues = map[string]int{store.DefaultQueue: slots}
	}
	if slots < 0 {
		settings.Paused = []store.Scope{store.Everything()}
	}
	engine, err := scheduled.New(settings)
	if err != nil {
		pool.Close()
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel = cancel
	go func() { n.done <- engine.Run(running) }()
	return n, d.Until(ctx, time.Minute, "the node leads", leadsSQL)
}

const leadsSQL = `
SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND objid = 0 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`

func (n *node) stop() error {
	close(n.held)
	n.cancel()
	err := <-n.done
	n.pool.Close()
	if err != nil {
		return fmt.Errorf("the node failed: %w", err)
	}
	return nil
}

// finished waits until the handler has returned the given number of times.
func (n *node) finished(ctx context.Context, tasks int64, within time.Duration) error {
	limit := time.NewTimer(within)
	defer limit.Stop()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for n.ran.Load() < tasks {
		select {
		case err := <-n.done:
			n.done <- err
			return errors.Join(errors.New("the node has stopped"), err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return failed("%d of %d tasks ran within %s", n.ran.Load(), tasks, within)
		case <-ticker.C:
		}
	}
	return nil
}

// work inserts tasks, and waits until they have run. It verifies them.
func (n *node) work(
	ctx context.Context, d *database, prefix string, tasks int, due string, within time.Duration,
) error {
	ran := n.ran.Load()
	if err := d.insert(ctx, prefix, tasks, due); err != nil {
		return err
	}
	if err := n.finished(ctx, ran+int64(tasks), within); err != nil {
		return err
	}
	return d.done(ctx, prefix, tasks)
}

// release pauses everything until load has inserted tasks, and waits until they have run. It returns when it let them
// go.
func (n *node) release(
	ctx context.Context, d *database, tasks int, load func() error,
) (began time.Time, err error) {
	scheduler := store.New(store.Config{Service: "bench"})
	_, err = scheduler.PauseScope(ctx, d.Pool, store.Everything(), time.Time{}, "until all is in place")
	if err != nil {
		return began, err
	}
	if err := load(); err != nil {
		return began, err
	}
	ran := n.ran.Load()
	began = time.Now()
	if _, err := scheduler.ResumeScope(ctx, d.Pool, store.Everything()); err != nil {
		return began, err
	}
	return began, n.finished(ctx, ran+int64(tasks), 10*time.Minute)
}

const warmTasks = 200

// warm runs some tasks before the measurement, so that connections exist, statements are planned, and the engine has
// measured the handler, as in a service that has run for a while.
func (n *node) warm(ctx context.Context, d *database) error {
	if err := n.work(ctx, d, "warm", warmTasks, "clock_timestamp()", time.Minute); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return nil
}
