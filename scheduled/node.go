package scheduled

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/quiet"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Node is one running engine. It runs the tasks of its queues. It also leads if it holds the leader's lock.
type Node struct {
	config     Config
	statements taskdb.Queries
	metrics    *metrics.Metrics
	health     *healthState
	quiet      *quiet.Switch
}

// New checks the configuration. Its error names each bad field. New does not connect to the database.
func New(config Config) (*Node, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	schema, err := store.NewSchema(config.Schema)
	if err != nil {
		return nil, err
	}
	return &Node{
		config:     config,
		statements: taskdb.Queries{Schema: schema, Zones: config.zones},
		metrics: metrics.New(metrics.Config{
			Registerer: config.Metrics, Service: config.Service, Version: config.Version, Schema: config.Schema,
			Queues: slices.Collect(maps.Keys(config.Queues)), Types: config.Handlers.Types(),
		}),
		health: newHealthState(),
		quiet:  quiet.New(),
	}, nil
}

// Run works until ctx is done. Then it stops gracefully: it claims no more tasks, lets running handlers end within
// the ShutdownTimeout, interrupts the other handlers without using up an attempt, and returns nil.
//
// Run returns an error if it cannot begin. This is so if the database is out of reach, if it is not migrated
// (migrations.ErrUnmigrated), if row level security hides tasks from the node's role, if the session goes through a
// pooler (ErrPooler), or if another node's metrics are registered in Config.Metrics. Once Run has begun, it does not
// give up. When it loses touch with the database, it stops its handlers, and begins again as a new node as soon as it
// can. It returns ErrPooler even then, if it meets a pooler.
func (n *Node) Run(ctx context.Context) error {
	n.health.note(reasonStarting, CheckNode, CheckSession, CheckDatabase, CheckListener)
	n.health.turns()
	defer n.health.rests(reasonEnded)
	if err := migrations.Check(ctx, n.config.Pool, n.config.Schema); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the application has stopped the node before it began
		}
		return err
	}
	unregister, err := n.metrics.Register()
	if err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	defer unregister()
	n.config.warn()
	var lingering sync.WaitGroup
	defer awaitLingering(&lingering)
	begun := false
	for delay := 200 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		n.health.turns()
		current, err := n.begin(ctx, &lingering)
		if err == nil {
			begun, delay = true, 200*time.Millisecond
			err = current.run(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if !begun || errors.Is(err, ErrPooler) {
			return fmt.Errorf("start node: %w", n.config.counted(err))
		}
		n.config.Logger.Warn("node lost touch with the database; beginning again",
			"error", n.config.counted(err), "in", delay)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
	}
}

// awaitLingering gives the goroutines of earlier instances a moment to end, so that nothing of the node goes
// on after Run has returned. A handler that ignores its context and holds one of the pool's connections may
// go on all the same.
func awaitLingering(lingering *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		lingering.Wait()
		close(ended)
	}()
	within(context.Background(), graceAfterInterrupt, ended)
}
