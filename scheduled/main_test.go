package scheduled

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) {
	runChild()
	storetest.Main(m, leaks.Check)
}

// startNode runs a node until the test ends, or until the returned function stops it.
func startNode(t *testing.T, pool *pgxpool.Pool, change func(*Config), parts ...handlers.Part) (stop func()) {
	t.Helper()
	_, stop = runNode(t, pool, change, parts...)
	return stop
}

// runNode is startNode for a test that asks the node something.
func runNode(t *testing.T, pool *pgxpool.Pool, change func(*Config), parts ...handlers.Part) (node *Node, stop func()) {
	t.Helper()
	registry, err := handlers.NewRegistry(parts...)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Pool: pool, Handlers: registry, Service: "test", Logger: enginetest.Logger(), StartAllowance: 30 * time.Second,
	}
	if change != nil {
		change(&config)
	}
	node, err = New(config)
	if err != nil {
		t.Fatal(err)
	}
	return node, keepRunning(t, node)
}

// keepRunning runs a node until the test ends, or until the returned function stops it.
func keepRunning(t *testing.T, node *Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("node: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// bench is a database on which a test runs the engine's statements at chosen times, without a node.
type bench struct{ *enginetest.Bench }

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{enginetest.New(t)}
}
