package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store/storetest"
)

// While other housekeeping has the connection that is for all of it, nothing takes another one from the pool. A pool
// of two connections has the other for claims and outcomes. A statement that takes too long ends.
func TestHousekeepingWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	settings, err := pgxpool.ParseConfig(storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	settings.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	housekeeping := NewHousekeeping(pool)
	var taken int64
	err = housekeeping.Do(t.Context(), time.Millisecond, func(ctx context.Context, tx pgx.Tx) error {
		before := pool.Stat().AcquireCount()
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		err := housekeeping.Do(short, time.Second, func(context.Context, pgx.Tx) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it does not wait: %v", err)
		}
		taken = pool.Stat().AcquireCount() - before
		_, err = tx.Exec(ctx, "SELECT pg_sleep(10)")
		return err
	})
	if !pg.IsCanceled(err) {
		t.Errorf("a statement that takes too long ends with %v", err)
	}
	if taken != 0 {
		t.Errorf("it took a connection %d times", taken)
	}
	err = housekeeping.Do(t.Context(), time.Second, func(context.Context, pgx.Tx) error { return nil })
	if err != nil {
		t.Errorf("the turn is not given back: %v", err)
	}
}
