package scheduled

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) {
	runChild()
	storetest.Main(m, leaks.Check)
}

// tasks is the store of all tests.
var tasks = store.New(store.Config{Service: "test"})

func testLogger() *slog.Logger {
	if os.Getenv("TASKTABLE_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
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
		Pool: pool, Handlers: registry, Service: "test", Logger: testLogger(), StartAllowance: 30 * time.Second,
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

// eventually waits until the condition holds, asking again and again, and fails the test after the deadline.
func eventually(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", within, what)
		case <-ticker.C:
		}
	}
}

// await waits for a task to be in a status, and returns its row.
func await(t *testing.T, pool *pgxpool.Pool, id string, within time.Duration, statuses ...store.Status) store.Row {
	t.Helper()
	var row store.Row
	eventually(t, within, "task "+id+" is "+string(statuses[0]), func() bool {
		var err error
		if row, err = tasks.Get(t.Context(), pool, id); err != nil {
			return false
		}
		for _, status := range statuses {
			if row.Status == status {
				return true
			}
		}
		return false
	})
	return row
}

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T, within time.Duration, what string) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(within):
		t.Fatalf("not within %s: %s", within, what)
		panic("unreachable")
	}
}

func schedule(t *testing.T, pool *pgxpool.Pool, task store.Task) store.Receipt {
	t.Helper()
	receipt, err := tasks.Schedule(t.Context(), pool, task)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

func outcomes(t *testing.T, pool *pgxpool.Pool, id string) []string {
	t.Helper()
	history, err := tasks.History(t.Context(), pool, id)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range history.Executions {
		found = append(found, e.Outcome)
	}
	return found
}

// job is the payload of most tests.
type job struct {
	Name string `json:"name"`
}

func (job) TaskType() string  { return "JOB" }
func (j job) TaskKey() string { return j.Name }
