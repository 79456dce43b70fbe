package scheduled

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
)

// Node is one running engine: it works its queues, and leads when it holds the leader's lock.
type Node struct {
	config     Config
	statements statements
	metrics    *metrics
	vitals     *vitals
	quiet      *quiet
}

// New checks the configuration; the error names each bad field. It connects to nothing yet.
func New(config Config) (*Node, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	schema, err := store.NewSchema(config.Schema)
	if err != nil {
		return nil, err
	}
	return &Node{config: config, statements: statements{schema: schema, zones: config.zones}, metrics: newMetrics(config), vitals: newVitals(), quiet: newQuiet()}, nil
}

// Run works until ctx is done, then stops gracefully: it claims no more, lets running handlers end within the
// ShutdownTimeout, interrupts the others without using up an attempt, and returns nil.
//
// It returns an error when it cannot begin: the database is out of reach, not migrated (migrations.ErrUnmigrated), or behind
// a pooler (ErrPooler), or Config.Metrics has another node's metrics. Once it has begun it does not give up: when it loses touch with the database it stops its handlers,
// and begins again as a new node when it can.
func (n *Node) Run(ctx context.Context) error {
	n.vitals.starts()
	defer n.vitals.ends()
	defer context.AfterFunc(ctx, n.vitals.stops)()
	if err := migrations.Check(ctx, n.config.Pool, n.config.Schema); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopped before it began, as asked
		}
		return err
	}
	unregister, err := n.metrics.register(n.config.Metrics)
	if err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	defer unregister()
	n.config.warn()
	var lingering sync.WaitGroup
	defer awaitLingering(&lingering)
	var backend uint32
	begun := false
	for delay := 200 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		n.vitals.turns()
		life, err := n.begin(ctx, backend)
		if err == nil {
			begun, delay = true, 200*time.Millisecond
			backend, life.lingering = life.session.backend, &lingering
			err = life.run(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if !begun || errors.Is(err, ErrPooler) {
			return fmt.Errorf("start node: %w", n.config.counted(err))
		}
		n.config.Logger.Warn("node lost touch with the database; beginning again", "error", n.config.counted(err), "in", delay)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
	}
}

// awaitLingering gives what earlier lives have left behind a moment to end, so that nothing of the node goes on when Run has returned. A
// handler that ignores its context, and has one of the pool's connections, may go on all the same.
func awaitLingering(lingering *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		lingering.Wait()
		close(ended)
	}()
	limit := time.NewTimer(graceAfterInterrupt)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
	}
}
