package enginetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Patience is how long a test waits for what must come. It is no promise: a test of how soon something comes compares
// the time with one of its Limits.
const Patience = 90 * time.Second

const (
	// usualDelay is the most that a timer of 10 ms and a SELECT 1 take together on a machine that only runs tests.
	usualDelay  = 30 * time.Millisecond
	maxSlowness = 8
)

// Limits measures how slow the machine is, from now until the test ends. The function that it returns takes the limit
// of a time on an idle machine, and returns the limit on this one: it multiplies by the slowness. The slowness is the
// longest time since now that a timer of 10 ms and a SELECT 1 took together, in units of usualDelay. It is from 1 to
// maxSlowness.
func Limits(t *testing.T, pool *pgxpool.Pool) func(limit time.Duration) time.Duration {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	OK(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // also what is cleaned up has limits
	origin := time.Now()
	var worst, asked atomic.Int64 // asked: when the round began that has not ended yet
	delay := func() int64 { return int64(time.Since(origin)) - asked.Load() }
	var measuring sync.WaitGroup
	measuring.Go(func() {
		for ctx.Err() == nil {
			asked.Store(int64(time.Since(origin)))
			time.Sleep(10 * time.Millisecond)
			_, _ = conn.Exec(ctx, "SELECT 1") // a server that is down does not answer later
			worst.Store(max(worst.Load(), delay()))
		}
		_ = conn.Close(context.Background())
	})
	t.Cleanup(func() { stop(); measuring.Wait() })
	return func(limit time.Duration) time.Duration {
		return slowed(limit, time.Duration(max(worst.Load(), delay())))
	}
}

// slowed is a limit where the longest delay was as given.
func slowed(limit, delay time.Duration) time.Duration {
	slowness := min(max(float64(delay)/float64(usualDelay), 1), maxSlowness)
	return time.Duration(float64(limit) * slowness)
}
