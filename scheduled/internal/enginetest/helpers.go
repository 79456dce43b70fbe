package enginetest

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

// Tasks is the store of all tests.
var Tasks = store.New(store.Config{Service: "test"})

// Logger drops all lines, unless TASKTABLE_TEST_LOG is set.
func Logger() *slog.Logger {
	if os.Getenv("TASKTABLE_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

// OK fails the test because of an error.
func OK(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until the condition holds, asking again and again, and fails the test after the deadline.
func Eventually(t *testing.T, within time.Duration, what string, condition func() bool) {
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

// Await waits for a task to be in a status, and returns its row.
func Await(t *testing.T, pool *pgxpool.Pool, id string, within time.Duration, statuses ...store.Status) store.Row {
	t.Helper()
	var row store.Row
	Eventually(t, within, "task "+id+" is "+string(statuses[0]), func() bool {
		var err error
		if row, err = Tasks.Get(t.Context(), pool, id); err != nil {
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

// Receive waits for a value.
func Receive[T any](t *testing.T, from <-chan T, within time.Duration, what string) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(within):
		t.Fatalf("not within %s: %s", within, what)
		panic("unreachable")
	}
}

// Schedule schedules a task, and fails the test if that fails.
func Schedule(t *testing.T, pool *pgxpool.Pool, task store.Task) store.Receipt {
	t.Helper()
	receipt, err := Tasks.Schedule(t.Context(), pool, task)
	OK(t, err)
	return receipt
}

// Outcomes lists the outcomes in a task's history.
func Outcomes(t *testing.T, pool *pgxpool.Pool, id string) []string {
	t.Helper()
	history, err := Tasks.History(t.Context(), pool, id)
	OK(t, err)
	var found []string
	for _, e := range history.Executions {
		found = append(found, string(e.Outcome))
	}
	return found
}

// Job is the payload of most tests.
type Job struct {
	Name string `json:"name"`
}

// TaskType is JOB.
func (Job) TaskType() string { return "JOB" }

// TaskKey is the name.
func (j Job) TaskKey() string { return j.Name }

// Exhaust takes all connections of a pool, until the returned function gives them back.
func Exhaust(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	var taken []*pgxpool.Conn
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		OK(t, err)
		taken = append(taken, conn)
	}
	release = sync.OnceFunc(func() {
		for _, conn := range taken {
			conn.Release()
		}
	})
	t.Cleanup(release)
	return release
}
