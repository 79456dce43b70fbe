package maintenance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// While other housekeeping has the connection that is for all of it, nothing takes another one from the pool. A pool
// of two connections has the other for claims and outcomes.
func TestHousekeepingWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	turns := session.NewTurns(2)
	leave, err := turns.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config := b.onLeader()
	config.Turns = turns
	retention := NewRetention(RetentionConfig{Config: config, Period: day})
	abandoned, replanner := NewAbandoned(AbandonedConfig{Config: config}), NewReplanner(config)
	all := map[string]func(ctx context.Context) error{
		"retention": func(ctx context.Context) error { _, _, err := retention.RunOnce(ctx, Place{}); return err },
		"abandoned": func(ctx context.Context) error { _, err := abandoned.runOnce(ctx); return err },
		"zones":     func(ctx context.Context) error { _, err := replanner.replan(ctx); return err },
	}
	for name, do := range all {
		before := b.Pool.Stat().AcquireCount()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s does not wait: %v", name, err)
		}
		cancel()
		if taken := b.Pool.Stat().AcquireCount() - before; taken != 0 {
			t.Errorf("%s took a connection %d times", name, taken)
		}
	}
	leave()
	for name, do := range all { // each gives its turn back
		if err := do(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
